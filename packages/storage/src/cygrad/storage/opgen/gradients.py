"""Prints the gradients of the op table's rows: the text of autograd's ``_gradients_*.pyx``.

They are modules apart from the engine, which calls what they enter in its table: so an edited gradient leaves the
engine as it is. The engine's functions, and those of formulas*.pxi, they take from ``_core.pxd``.
"""
import re

from .emit import HEAD
from .forms import MEMBER
from .nodes import (
    c_params,
    kept_args,
    op_id,
    op_pointwise,
    read_by,
    read_in,
    saved_fields,
    saves_mask,
    slots,
)
from .scalar import gradient_plan
from .tensor import ARG_LETTER, TensorReading

GROUPS = ("pointwise", "others")
TYPES = {"OPS", "Arg", "Dims", "Node", "Tensor"}


def group_rows(rows, group):
    """Those whose gradients are printed, in one of two modules, which two processors compile at the same time."""
    printed = [r for r in rows.values() if r.kind not in ("tensor", "hand")]
    return [r for r in printed if (r.kind == "pointwise") == (group == "pointwise")]


def backward_text(rows, helpers, row):
    if row.nondiff:
        return (f"cdef int bw_{row.name}(Node n, Tensor g) except -1:\n"
                f'    raise RuntimeError("derivative for {row.name} is not implemented: {row.nondiff}")\n')
    place, kept = slots(row), kept_args(row)
    lines = [f"cdef int bw_{row.name}(Node n, Tensor g) except -1:", "    cdef Tensor r"]
    names = {"g": ("g", "T"), "node": ("n", "N")}
    read = set().union(*(read_by(row, n) for n in row.grad))
    for name, slot in place.items():
        if name in read:
            lines.append(f"    cdef Tensor v_{name} = unpack(n, {slot}) if n.saved & {1 << slot} else None")
            names[name] = (f"v_{name}", "T")
    for name, field in kept.items():
        p = row.param(name)
        letter = ARG_LETTER[p.type]
        if letter == "Z":
            lines.append(f"    cdef Dims v_{name}")
            names[name] = (f"&v_{name}", "Z")
        else:
            names[name] = (f"<uint64_t>{field}" if letter == "M" else field, letter)
    shared = []
    for local, formula in row.let.items():
        parts = [part.strip() for part in local.split(",")]
        text = TensorReading(rows, helpers, row, names, 0).read(formula, "T" if len(parts) == 1 else "P")
        if len(parts) > 1:
            shared += [f"    cdef tuple found_{len(names)} = {text}"]
            values = [f"found_{len(names)}[{i}]" for i in range(len(parts))]
        else:
            values = [text]
        shared += [f"    cdef Tensor v_{part} = {value}" for part, value in zip(parts, values, strict=True)]
        names |= {part: (f"v_{part}", "T") for part in parts}
    body, uses_sizes = [], False
    for i, p in enumerate(row.inputs):
        if p.name not in row.grad:
            continue
        reading = TensorReading(rows, helpers, row, names, i)
        part = gradient_lines(rows, row, p, i, reading)
        if reading.uses_sizes:
            uses_sizes = True
            part.insert(1, f"        edge_sizes(n, {i}, &d_x)")
        body += part
    if uses_sizes:
        lines.append("    cdef Dims d_x")
    lines += [f"    dims_from({kept[n]}, &v_{n})" for n in kept if row.param(n).type == "ints"]
    return "\n".join([*lines, *shared, *body, "    return 0"]) + "\n"


def forward_text(rows, helpers, row):
    """The function that gives what one input's tangent, here g, adds to the tangent of the result."""
    place, kept = slots(row), kept_args(row)
    lines = [f"cdef Tensor fw_{row.name}(Node n, int k, Tensor g):"]
    body, lists = [], set()
    for i, p in enumerate(row.inputs):
        if p.name not in row.jvp:
            continue
        read = read_in(row.jvp[p.name])
        names = {"t": ("g", "T")}
        names |= {name: (f"unpack(n, {slot})", "T") for name, slot in place.items() if name in read}
        for name, field in kept.items():
            letter = ARG_LETTER[row.param(name).type]
            if letter == "Z":
                lists |= {name} & read
            names[name] = {"Z": (f"&v_{name}", "Z"), "M": (f"<uint64_t>{field}", "M")}.get(letter, (field, letter))
        text = TensorReading(rows, helpers, row, names, i).read(row.jvp[p.name])
        body += [f"    if k == {i}:", f"        return {text}"]
    for name in sorted(lists):
        lines += [f"    cdef Dims v_{name}", f"    dims_from({kept[name]}, &v_{name})"]
    return "\n".join([*lines, *body, "    return None"]) + "\n"


def gradient_lines(rows, row, p, i, reading):
    how, kernel = gradient_plan(rows, row, p.name) if row.kind == "pointwise" else ("tensor", None)
    lines = [f"    if wanted(n, {i}):"]
    if row.grad[p.name] == "g":
        return [*lines, f"        pass_grad(n, {i}, g)"]
    if how == "constant":
        if kernel != 0:
            row.fail("a constant gradient other than 0")
        return [*lines, f"        pass_grad(n, {i}, zeros_same(g))"]
    text = reading.read(row.grad[p.name])
    if row.linked:
        text = f"linked({text}, n)"
    if how == "kernel" and kernel.name != "neg":
        operands = [reading.names[n][0] for n, _ in kernel.operands]
        masks = sum(1 << k for k, (_, kind) in enumerate(kernel.operands) if kind == "truth")
        padded = ", ".join(operands + ["None"] * (4 - len(operands)))
        return [*lines, "        r = None", "        if not recording():",
                f"            r = fused({kernel.id}, {len(operands)}, {padded}, {masks}, n.attr)",
                "        if r is None:", f"            r = {text}", f"        pass_grad(n, {i}, r)"]
    return [*lines, f"        pass_grad(n, {i}, {text})"]


def op_call(row):
    """op_NAME of a row that is no loop, by way of the engine's table."""
    lines = [f"cdef inline Tensor op_{row.name}({c_params(row)}):", f"    cdef Arg args[{len(row.params)}]"]
    for i, p in enumerate(row.params):
        member = "o" if p.is_tensor else MEMBER[p.type]
        cast = {"o": "<PyObject*>", "d": "<Dims*>"}.get(member, "")
        lines.append(f"    args[{i}].{member} = {cast}{p.name}")
    return "\n".join([*lines, f"    return <Tensor>OPS[{op_id(row)}].call(args)"]) + "\n"


def install_text(rows):
    """`install`, which tells the engine what there is and returns what nodes of these rows keep."""
    lines = ["def install():"]
    for row in rows:
        lines.append(f"    OPS[{op_id(row)}].backward = bw_{row.name}")
        if row.jvp:
            lines.append(f"    OPS[{op_id(row)}].forward = fw_{row.name}")
        for i, p in enumerate(row.inputs[:4]):
            if p.name in row.grad and saves_mask(row, p.name):
                lines.append(f"    OPS[{op_id(row)}].saves[{i}] = {saves_mask(row, p.name)}")
    return "\n".join([*lines, f"    return {';'.join(filter(None, map(saved_fields, rows)))!r}"]) + "\n"


def gradients_text(rows, helpers, group):
    """One module: what it takes from the engine, the pointwise operations that it calls, the functions of each row."""
    mine = group_rows(rows, group)
    texts = [backward_text(rows, helpers, r) for r in mine]
    texts += [forward_text(rows, helpers, r) for r in mine if r.jvp]
    body = "\n\n".join(texts)
    printers = {"pointwise": op_pointwise, "kernel": op_call, "into": op_call, "view": op_call}
    called = [r for r in rows.values() if r.kind in printers and re.search(rf"\bop_{r.name}\(", body)]
    operations = [printers[r.kind](r) for r in called]
    calls = set(re.findall(r"(?<!\.)\b([a-z]\w*)\(", "\n".join([*operations, body])))
    defined = set(re.findall(r"^cdef .*?\b(\w+)\(", "\n".join([*operations, body]), re.M))
    taken = ", ".join(sorted(TYPES | (calls - defined)))
    head = [HEAD + 'include "op_ids.pxi"', "from cpython.object cimport PyObject",
            "from libc.stdint cimport int64_t, uint64_t", f"from cygrad.autograd._core cimport {taken}\n"]
    return "\n\n".join(["\n".join(head), *operations, body, install_text(mine)])

"""Prints the autograd side of the op table: op ids, recorded operations, backward functions, public names."""
import ast
from pathlib import Path
from textwrap import indent

from .check import check
from .emit import HEAD, ids_text, write_if_changed
from .parse import NAMESPACES, load
from .scalar import attr_names, forward_kernel, gradient_plan, kernels
from .stubs import composed_stubs, stub_text
from .tensor import ARG_LETTER, TensorReading, helper_signatures

C_ARG = {"int": "int64_t", "float": "double", "number": "double", "flag": "bint", "dim": "int64_t", "dims": "uint64_t",
         "axis": "uint64_t", "axes": "uint64_t",
         "ints": "const Dims*", "dtype": "int", "castto": "int", "str": "str", "scalar": "object"}
OUT = "SLOT_OUT"


def op_id(row):
    return "OP_" + row.name.upper()


def read_by(row, name):
    """Names whose values the gradient of `name` reads: sizes(x) reads a shape, not x."""
    tree = ast.parse(row.grad[name], mode="eval")
    sizes_calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "sizes"]
    shapes = {id(a) for n in sizes_calls for a in n.args}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in shapes}


def slots(row):
    """Name -> saved slot, of inputs and outputs."""
    return {p.name: i for i, p in enumerate(row.inputs)} | dict.fromkeys(row.outputs, 3)


def saved_output(row):
    """The output that some gradient reads, or None."""
    read = set().union(*(read_by(row, n) for n in row.grad)) if row.grad else set()
    found = [o for o in row.outputs if o in read]
    if len(found) > 1:
        row.fail(f"gradients read several outputs, {found}: there is one slot")
    return found[0] if found else None


def saves_mask(row, name):
    place = slots(row)
    return sum(1 << place[n] for n in read_by(row, name) if n in place)


def kept_args(row):
    """Arguments that gradients read: name -> C expression of the node field that keeps it."""
    read = set().union(*(read_by(row, n) for n in row.grad)) if row.grad else set()
    kept, ints, doubles, rest = {}, 0, 0, 0
    for p in row.args:
        if row.kind == "pointwise":
            kept[p.name] = f"n.attr[{attr_names(row).index(p.name)}]"
        elif p.name in read:
            if p.type in ("ints", "str"):
                kept[p.name], rest = "n.rest", rest + 1
            elif p.type in ("float", "number"):
                kept[p.name], doubles = f"n.attr[{doubles}]", doubles + 1
            else:
                kept[p.name], ints = f"n.iattr[{ints}]", ints + 1
    if ints > 5 or doubles > 2 or rest > 1:
        row.fail("more arguments are read by gradients than a node keeps")
    return kept


def saved_fields(row):
    """What a node of this row keeps, for ``node._saved_NAME``: ``mul:self=0,other=1``. A digit is a slot."""
    place, read = slots(row), set().union(*(read_by(row, n) for n in row.grad)) if row.grad else set()
    names = {p.name: "self" if row.public_name(p) == "input" else row.public_name(p) for p in row.params}
    if len(row.outputs) == 1:
        names[row.outputs[0]] = "result"
    fields = [f"{names.get(n, n)}={slot}" for n, slot in place.items() if n in read]
    letters = {"flag": "b", "dims": "m", "axes": "m", "axis": "a", "dtype": "t", "castto": "t"}
    for name, field in kept_args(row).items():
        kind = row.param(name).type
        number = field.rstrip("]").partition("[")[2]
        letter = "r" if field == "n.rest" else "d" if field.startswith("n.attr") else letters.get(kind, "i")
        fields.append(f"{names[name]}={letter}{number}")
    return f"{row.name}:{','.join(fields)}" if fields else ""


def c_params(row):
    return ", ".join(f"Tensor {p.name}" if p.is_tensor else f"{C_ARG[p.type]} {p.name}" for p in row.params)


# ---- recorded operations --------------------------------------------------------------------------------------------

def op_pointwise(row):
    names = [p.name for p in row.inputs]
    n = len(names)
    padded = names + ["None"] * (3 - n)
    head = f"cdef inline Tensor op_{row.name}({c_params(row)}):\n"
    attrs = attr_names(row)
    if attrs:
        fill = "".join(f"    attr[{i}] = {a}\n" for i, a in enumerate(attrs))
        call = f"pointwise({op_id(row)}, {n}, {', '.join(padded)}, attr, None)"
        return head + f"    cdef double attr[2]\n{fill}    return {call}\n"
    if n == 1:
        return head + f"    return unary({op_id(row)}, {names[0]})\n"
    if n == 2:
        return head + f"    return binary({op_id(row)}, {', '.join(names)})\n"
    return head + f"    return ternary({op_id(row)}, {', '.join(names)}, NULL)\n"


def record_lines(row, out):
    """Lines that make the node after the result exists."""
    return [f"    if recording() and ({some_need(row)}) and category({out}.m.dtype) >= 2:",
            *node_lines(row, out), f"        node_set_output(n, {out})"]


def some_need(row):
    return " or ".join(f"needs({p.name})" for p in row.inputs)


def node_lines(row, out):
    """Lines that make a node with its edges and with what its gradients read."""
    names = [p.name for p in row.inputs]
    lines = [f"        n = node_new(&OPS[{op_id(row)}])"]
    for i, name in enumerate(names):
        if name in row.grad:
            lines.append(f"        set_edge(n, {i}, {name})")
        else:
            lines.append(f"        put_edge(n, {i}, None, 0, False)")
    for i, name in enumerate(names):
        readers = [k for k in range(len(names)) if names[k] in row.grad and name in read_by(row, names[k])]
        if readers:
            lines.append(f"        if {' or '.join(f'n.e{k} is not None' for k in readers)}:")
            lines.append(f"            save(n, {i}, {name})")
    kept = saved_output(row)
    if kept:
        readers = [k for k in range(len(names)) if names[k] in row.grad and kept in read_by(row, names[k])]
        lines.append(f"        if {' or '.join(f'n.e{k} is not None' for k in readers)}:")
        lines.append(f"            save(n, {OUT}, alias_of({kept}))")
    for name, field in kept_args(row).items():
        value = f"dims_tuple({name})" if row.param(name).type == "ints" else name
        lines.append(f"        {field} = {value}")
    return lines


def op_kernel(row):
    outs = row.outputs
    inputs = [p.name for p in row.inputs]
    cast = next((p.name for p in row.args if p.type == "castto"), None)
    args = []
    for p in row.params:
        if p.type != "castto":
            args += [f"&{p.name}.m"] if p.is_tensor else [f"{p.name}.n, {p.name}.v"] if p.type == "ints" else [p.name]
    result = "Tensor" if len(outs) == 1 else "tuple"
    lines = [f"cdef {result} op_{row.name}({c_params(row)}):"]
    lines += [f"    cdef Tensor {o} = tensor_new()" for o in outs]
    lines.append("    cdef Node n")
    if cast:
        lines += [f"    if {cast} >= 0 and {cast} != {inputs[0]}.m.dtype:",
                  f"        {inputs[0]} = op_cast({inputs[0]}, {cast})"]
    call = f"ops.op_{row.kernel}({', '.join([f'&{o}.m' for o in outs] + args)})"
    if len(outs) == 1:
        lines.append(f"    adopt({outs[0]}, {call})")
    else:
        lines.append(f"    memories = {call}")
        lines += [f"    adopt({o}, memories[{i}])" for i, o in enumerate(outs)]
    if row.grad:
        lines += record_lines(row, outs[0])
    lines += [line for o in outs for line in observe_lines(row, o, inputs)]
    lines.append(f"    return {', '.join(outs)}")
    return "\n".join(lines) + "\n"


def observe_lines(row, out, inputs):
    """Lines that show a result to find_nan() and strict() while one of them is on."""
    return ["    if cyg_mode & MODE_OBSERVED:", f"        observe({op_id(row)}, {out}, ({', '.join(inputs)},))"]


def into_args(row, first):
    args = []
    for i, p in enumerate(row.params):
        args += [f"&{p.name if i else first}.m"] if p.is_tensor else [
            f"{p.name}.n, {p.name}.v"] if p.type == "ints" else [p.name]
    return f"ops.{row.into}_into({', '.join(args)})"


def op_into(row):
    """op_NAME writes into a copy of the first input; in_NAME into that input, whose history the node then takes."""
    names = [p.name for p in row.inputs]
    x = names[0]
    rowmajor = row.layout == "contiguous"
    lines = [f"cdef Tensor op_{row.name}({c_params(row)}):", "    cdef Tensor y = tensor_new()", "    cdef Node n",
             f"    adopt(y, ops.op_clone(&y.m, &{x}.m, {x}.m.dtype, {rowmajor}))", f"    {into_args(row, 'y')}",
             *record_lines(row, "y"), *observe_lines(row, "y", names), "    return y", "", ""]
    copied = x in set().union(*(read_by(row, n) for n in row.grad)) if row.grad else False
    lines += [f"cdef Tensor in_{row.name}({c_params(row)}):", f"    cdef Tensor y = {x}", "    cdef Node n",
              f"    cdef bint recorded = recording() and ({some_need(row)})", "    check_in_place(y, recorded)"]
    lines += [f"    refuse_overlap(y, {p.name})" for p in row.inputs[1:]]
    lines += ["    cdef Tensor seen = glimpse(y) if cyg_mode & MODE_OBSERVED else None",
              f"    {x} = history_alias(y, {copied}) if recorded else None", f"    {into_args(row, 'y')}",
              f"    bump(y, {op_id(row)})", "    if recorded and category(y.m.dtype) >= 2:", *node_lines(row, "y"),
              "        mark_overwritten(n, y)", "        rebase(y, n)",
              *observe_lines(row, "y", ["seen", *names[1:]]), "    return y"]
    return "\n".join(lines) + "\n"


def op_view(row):
    x, y = row.inputs[0].name, row.outputs[0]
    args = []
    for p in row.args:
        args += [f"{p.name}.n, {p.name}.v"] if p.type == "ints" else [p.name]
    lines = [f"cdef Tensor op_{row.name}({c_params(row)}):", f"    cdef Tensor {y} = tensor_new()", "    cdef Node n",
             f"    view_{row.meta}(&{y}.m, &{x}.m, {', '.join(args)})", f"    view_begin({y}, {x})"]
    lines += record_lines(row, y)
    return "\n".join([*lines, f"    return {y}"]) + "\n"


def op_text(row):
    return {"pointwise": op_pointwise, "kernel": op_kernel, "into": op_into, "view": op_view}[row.kind](row)


# ---- backward functions ---------------------------------------------------------------------------------------------

def backward_text(rows, helpers, row):
    if row.nondiff:
        return (f"cdef int bw_{row.name}(Node n, Tensor g) except -1:\n"
                f'    raise RuntimeError("derivative for {row.name} is not implemented: {row.nondiff}")\n')
    place, kept = slots(row), kept_args(row)
    lines = [f"cdef int bw_{row.name}(Node n, Tensor g) except -1:", "    cdef Tensor r"]
    names = {"g": ("g", "T")}
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
    return "\n".join([*lines, *body, "    return 0"]) + "\n"


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
    if how == "kernel" and kernel.name != "neg":
        operands = [reading.names[n][0] for n, _ in kernel.operands]
        masks = sum(1 << k for k, (_, kind) in enumerate(kernel.operands) if kind == "truth")
        padded = ", ".join(operands + ["None"] * (4 - len(operands)))
        return [*lines, "        r = None", "        if not recording():",
                f"            r = fused({kernel.id}, {len(operands)}, {padded}, {masks}, n.attr)",
                "        if r is None:", f"            r = {text}", f"        pass_grad(n, {i}, r)"]
    return [*lines, f"        pass_grad(n, {i}, {text})"]


def table_text(rows):
    """The function that fills OPS."""
    lines = ["cdef int fill_table() except -1:"]
    for row in rows.values():
        o = f"OPS[{op_id(row)}]"
        lines.append(f'    {o}.name = b"{row.node}"')
        lines.append(f"    {o}.id = {op_id(row)}")
        if row.kind == "pointwise":
            lines.append(f"    {o}.row = <Loop*>dispatch.kernel_row({forward_kernel(row).id})")
        else:
            lines.append(f"    {o}.row = NO_KERNELS")
        if row.kind != "tensor":
            lines.append(f"    {o}.backward = bw_{row.name}")
        if row.kind == "pointwise":
            for i, p in enumerate(row.inputs):
                if p.name in row.grad:
                    lines.append(f"    {o}.saves[{i}] = {saves_mask(row, p.name)}")
            counted = [row.promote] if row.promote in slots(row) else [p.name for p in row.inputs if p.type != "mask"]
            kinds = sum(1 << i for i, p in enumerate(row.inputs) if p.name in counted)
            kinds |= 8 if row.promote == "number" else 0
            kinds |= sum(16 << i for i, p in enumerate(row.inputs) if p.type == "mask")
            lines.append(f"    {o}.kinds = {kinds}")
            lines.append(f"    {o}.out_bool = {int(row.out == 'bool')}")
            lines.append(f"    {o}.out_real = {int(row.out == 'real')}")
            if row.guard:
                words = " | ".join("GUARD_" + word.upper() for word in row.guard.split())
                lines.append(f"    {o}.guard = {words}")
            lines.append(f"    {o}.alike = {int(row.promote == 'alike')}")
            lines.append(f"    {o}.rowmajor = {int(row.layout == 'contiguous')}")
    refusals = ", ".join(f"{op_id(r)}: {r.refusal!r}" for r in rows.values() if r.refusal)
    lines.insert(0, f"cdef dict REFUSALS = {{{refusals}}}\n\n")
    return "\n".join([*lines, "    return 0", "", "fill_table()"]) + "\n"


# ---- public names ---------------------------------------------------------------------------------------------------

def py_param(row, p):
    """How a parameter stands in a def line.

    All are objects: the conversions below name argument and function in their errors.
    """
    name = row.public_name(p)
    if p.is_tensor and p.default is not None:
        return f"Tensor {name}={p.default}"
    return f"object {name}={'REQUIRED' if p.default is None else p.default}"


def convert(row, p, x):
    """The C argument made from the public one."""
    name = row.public_name(p)
    where = f'{name}, "{row.name}", "{name}"'
    match p.type:
        case "dim":
            return f"wrap_dim(as_index({where}), {x}.m.ndim)"
        case "dims" | "axis" | "axes":
            return f"{p.type}_mask({name}, {x}.m.ndim, \"{row.name}\")"
        case "int":
            return f"as_index({where})"
        case "float" | "number":
            return f"as_number({where})"
        case "flag":
            return f"({name} is not None and as_flag({where}))" if p.default == "None" else f"as_flag({where})"
        case "str":
            return f"as_word({where})"
        case "scalar":
            return f"as_scalar({where})"
        case "dtype" | "castto":
            return f"code_or_none({name})"
        case "ints":
            return f"&d_{name}"
    return name


def def_lines(row, name, method):
    """Head of a public function, the C name of its first input, and what `out` may be (`Row.out_form`)."""
    first = row.inputs[0]
    parts, star = [], False
    for p in row.params:
        if method and p is first:
            continue
        if p.kwonly and not star:
            parts.append("*")
            star = True
        parts.append(py_param(row, p))
    if row.alpha:
        parts += ([] if star else ["*"]) + ["object alpha=1"]
        star = True
    out = None if method else row.out_form
    if out:
        parts += ([] if star else ["*"]) + ["object out=None"]
    if method:
        parts.insert(0, "self")
    lines = [f"def {name}({', '.join(parts)}):", f'    """{row.doc}"""']
    if not method and first.type == "tn":
        x, other = row.public_name(first), row.public_name(row.inputs[1])
        lines.append(f"    cdef Tensor first = as_first({x}, {other}, {op_id(row)}, \"{name}\")")
    elif not method and first.type != "tensors":
        x = row.public_name(first)
        lines.append(f"    cdef Tensor first = as_tensor_arg({x}, \"{name}\", \"{x}\")")
    for p in row.args:
        if p.type == "ints":
            public = row.public_name(p)
            lines += [f"    cdef Dims d_{public}",
                      f"    parse_ints({public}, &d_{public}, \"{row.name}\", \"{public}\")"]
    if out == "out_typed":
        lines += ["    if out is not None and dtype is None:", "        dtype = dtype_object(as_tensor_arg(out, "
                  f"\"{row.name}\", \"out\").m.dtype)"]
    return lines, "self" if method else "first", out


def call_text(row, name, x):
    """Expression of the operation, given public arguments."""
    values, tensors = [], []
    for p in row.params:
        public = row.public_name(p)
        if not p.is_tensor:
            values.append(convert(row, p, x))
            continue
        if p is row.inputs[0] and p.type != "tensors":
            text = x
        elif p.type in ("tn", "n"):
            check = "as_operand" if p.type == "tn" else "as_single"
            text = f"{check}({public}, {x}, {op_id(row)}, \"{name}\", \"{public}\")"
        elif p.default is None and p.type != "tensors":
            text = f"as_tensor_arg({public}, \"{name}\", \"{public}\")"
        else:
            text = public
        values.append(text)
        tensors.append(text)
    return f"op_{row.name}({', '.join(values)})", tensors


def public_text(row, name, method, in_place):
    lines, x, out = def_lines(row, name, method)
    expression, tensors = call_text(row, name, x)
    if in_place:
        body = in_place_lines(row, tensors) if row.fwd else [f"    return in{expression[2:]}"]
        return "\n".join([*lines, *body]) + "\n"
    expression = numbered(row, expression)
    if row.alpha:
        scaled = f"op_{row.alpha}({tensors[0]}, {tensors[1]}, as_alpha(alpha, {tensors[0]}, {tensors[1]}, \"{name}\"))"
        lines += ["    if alpha is not ONE and differs_from_one(alpha):", f"        {returned(scaled, out)}"]
    if row.returns:
        expression = f'named_results("{row.name}", {expression})'
    lines.append(f"    {returned(expression, out, len(row.outputs) > 1)}")
    return "\n".join(lines) + "\n"


def numbered(row, expression):
    """The operation, its node named as the overload of PyTorch's that was called."""
    if not row.overload:
        return expression
    p = row.param(row.overload)
    given = f"isinstance({row.public_name(p)}, Tensor)" if p.is_tensor else f"{row.public_name(p)} is not None"
    return f"numbered({expression}, {given})"


def returned(expression, out, several=False):
    if not out:
        return f"return {expression}"
    exact = ", True" if out != "out" else ""
    if several:
        return f"return {expression} if out is None else deliver({expression}, out{exact})"
    return f"return {'finish_exact' if exact else 'finish'}({expression}, out)"


def in_place_lines(row, tensors):
    n = len(tensors)
    padded = tensors[1:] + ["None"] * (3 - n)
    attrs = attr_names(row)
    lines = []
    if attrs:
        values = [convert(row, row.param(a), "self") for a in attrs]
        lines += ["    cdef double attr[2]"] + [f"    attr[{i}] = {v}" for i, v in enumerate(values)]
    if row.alpha:
        lines += ["    cdef double scale[2]", "    if alpha is not ONE and differs_from_one(alpha):",
                  f"        b_ = {padded[0]}", f"        scale[0] = as_alpha(alpha, self, b_, \"{row.name}_\")",
                  f"        return pointwise(OP_{row.alpha.upper()}, 2, self, b_, None, scale, self)"]
    attr = "attr" if attrs else "NULL"
    lines.append(f"    return pointwise({op_id(row)}, {n}, self, {', '.join(padded)}, {attr}, self)")
    return lines


def printed(rows):
    """Rows whose public forms are printed; those of the others are made at import (autograd's rows.py)."""
    return [r for r in rows.values() if not r.rare]


def functions_text(rows):
    return "\n\n".join(public_text(r, r.name, False, False) for r in printed(rows) if "function" in r.api)


def methods_text(rows):
    parts = [public_text(r, r.name, True, False) for r in printed(rows) if "method" in r.api]
    parts += [public_text(r, r.name + "_", True, True) for r in printed(rows) if "inplace" in r.api]
    return indent("\n".join(parts), "    ")


def elsewhere_text(rows):
    """Functions that modules above or beside the core show: nn.functional, linalg and so on."""
    places = {"nn", *NAMESPACES}
    return "\n\n".join(public_text(r, r.name, False, False) for r in printed(rows) if places & set(r.api))


def rare_forms(rows):
    """What rows.py makes public forms from: op id, name, one flag an input (may it be a number?), places, docstring."""
    found = []
    for row in rows.values():
        if row.rare and row.api:
            if row.args or len(row.inputs) > 2 or row.py or row.kind != "pointwise":
                row.fail("a public rare row is pointwise, of one or two inputs under their usual names: "
                         "wrap this one in a composition")
            op = list(rows).index(row.name) + 1
            found.append((op, row.name, tuple(p.type == "tn" for p in row.inputs), row.api, row.doc))
    return found


def public_names(rows):
    places = {place: {r.name.removeprefix(place + "_"): r.name for r in rows.values() if place in r.api}
              for place in NAMESPACES}
    aliases = [(alias, row.name) for row in rows.values() for alias in row.alias]
    return (f"GENERATED_FUNCTIONS = {[r.name for r in printed(rows) if 'function' in r.api]!r}\n"
            f"GENERATED_RARE = {rare_forms(rows)!r}\n"
            f"GENERATED_ALIASES = {aliases!r}      # further name, name\n"
            f"GENERATED_PLACES = {places!r}      # module -> public name -> name here\n"
            f"GENERATED_RETURNS = {({r.name: tuple(r.returns.split()) for r in rows.values() if r.returns})!r}\n")


# ---- files ----------------------------------------------------------------------------------------------------------

def ops_text(rows, helpers):
    ids = "\n".join(f"    {op_id(r)} = {i}" for i, r in enumerate(rows.values(), 1))
    parts = [ids_text(kernels(rows)), f"cdef enum:\n{ids}\n",
             "cdef Loop NO_KERNELS[N_DTYPES]\nmemset(NO_KERNELS, 0, sizeof(NO_KERNELS))\n",
             f"ROW_NAMES = {tuple(rows)!r}\n",
             f"SAVED_FIELDS = {';'.join(filter(None, map(saved_fields, rows.values())))!r}\n"]
    parts += [op_text(r) for r in rows.values() if r.kind in ("pointwise", "kernel", "into", "view")]
    parts += [backward_text(rows, helpers, r) for r in rows.values() if r.kind not in ("tensor", "hand")]
    parts += [table_text(rows), public_names(rows)]
    return "\n\n".join(parts)


def write_autograd(out_dir, source_dir):
    """Print everything that autograd compiles from the op table.

    Parameters
    ----------
    out_dir : path
        Where the generated files go.
    source_dir : path
        ``cygrad/autograd``: formulas.pxi is read for the functions that formulas may call, _core.pyi.in for the stubs.

    Returns
    -------
    list of Path
    """
    rows = load()
    check(rows)
    source = Path(source_dir)
    helpers = helper_signatures(formulas(source))
    tensor_class = (source / "tensor.pxi.in").read_text()
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "ops.pxi": ops_text(rows, helpers),
        "functions.pxi": "\n\n".join([HEAD, functions_text(rows), elsewhere_text(rows)]),
        "tensor_class.pxi": HEAD + tensor_class.replace("    # generated: methods\n", methods_text(rows)),
        "_core.pyi": stub_text(rows, (source / "_core.pyi.in").read_text(), composed_stubs(source / "composed")),
    }
    return [write_if_changed(out / name, text) for name, text in files.items()]


SOURCES = ("formulas.pxi", "formulas_complex.pxi", "formulas_reduce.pxi", "formulas_index.pxi", "slices.pxi")


def formulas(source):
    """The hand-written gradient functions, which the table's formulas may call."""
    return "".join((Path(source) / name).read_text() for name in SOURCES)


def show_autograd(name, source_dir=None):
    """Generated text of one row, for people."""
    rows = load()
    row = rows[name]
    parts = [op_text(row)] if row.kind in ("pointwise", "kernel", "into", "view") else []
    if source_dir and row.kind not in ("tensor", "hand"):
        parts.append(backward_text(rows, helper_signatures(formulas(source_dir)), row))
    return "\n".join(parts)


"""Prints the autograd side of the op table: op ids, recorded operations, backward functions, public names."""
import ast
from pathlib import Path

from .batch import batch_into, batch_kernel, is_batched, rule
from .check import GUARDS, check
from .emit import ids_text, write_if_changed
from .forms import call_functions, forms_text
from .parse import NAMESPACES, load
from .scalar import attr_names, forward_kernel, gradient_plan, kernels
from .stubs import composed_stubs, stub_text
from .tensor import ARG_LETTER, TensorReading, helper_signatures

C_ARG = {"int": "int64_t", "float": "double", "factor": "double", "number": "double", "flag": "bint", "dim": "int64_t",
         "dims": "uint64_t", "axis": "uint64_t", "axes": "uint64_t",
         "ints": "const Dims*", "dtype": "int", "castto": "int", "str": "str", "scalar": "object"}
OUT = "SLOT_OUT"


def op_id(row):
    return "OP_" + row.name.upper()


def read_by(row, name):
    """Names whose values the gradient of `name` reads: sizes(x) reads a shape, not x."""
    return read_in(row.grad[name])


def read_in(formula):
    tree = ast.parse(formula, mode="eval")
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
            elif p.type in ("float", "factor", "number"):
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
    return [f"    if ({some_need(row, 'records')}) and category({out}.m.dtype) >= 2:",
            *node_lines(row, out), f"        node_set_output(n, {out})"]


def some_need(row, test="needs"):
    return " or ".join(f"{test}({p.name})" for p in row.inputs)


BEGAN = "    cdef int64_t began = op_began()"


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
    lines = [f"cdef {result} op_{row.name}({c_params(row)}):", f"    cdef Tensor {', '.join(outs)}", "    cdef Node n",
             BEGAN, *autocast_lines(row)]
    if cast:
        lines += [f"    if {cast} >= 0 and {cast} != {inputs[0]}.m.dtype:",
                  f"        {inputs[0]} = op_cast({inputs[0]}, {cast})"]
    call = f"ops.op_{row.kernel}({', '.join([f'&{o}.m' for o in outs] + args)})"
    lines += [f"    if {is_batched(row)}:", f"        {', '.join(outs)} = batch_{row.name}({names_of(row)})",
              "    else:", *(f"        {o} = tensor_new()" for o in outs)]
    if len(outs) == 1:
        lines.append(f"        adopt({outs[0]}, {call})")
    else:
        lines.append(f"        memories = {call}")
        lines += [f"        adopt({o}, memories[{i}])" for i, o in enumerate(outs)]
    if row.grad:
        lines += record_lines(row, outs[0])
    lines += [line for o in outs for line in observe_lines(row, o, inputs)]
    lines.append(f"    return {', '.join(outs)}")
    text = "\n".join(lines) + "\n"
    return text if rule(row) == "hand" else "\n\n".join([batch_kernel(row, c_params(row)), text])


def autocast_lines(row):
    """Lines that cast the inputs inside autocast."""
    names = [p.name for p in row.inputs if p.type not in ("index", "mask")]
    if row.autocast is None:
        return []
    if row.autocast == "widest":
        return ["    if cyg_mode & MODE_AUTOCAST:", f"        {', '.join(names)} = in_widest([{', '.join(names)}])"]
    cast = "lowered" if row.autocast == "low" else "raised"
    return ["    if cyg_mode & MODE_AUTOCAST:", *(f"        {name} = {cast}({name})" for name in names)]


def observe_lines(row, out, inputs):
    """Lines that show a result to find_nan(), strict() and profile() while one of them is on."""
    return ["    if cyg_mode & MODE_OBSERVED:", f"        observe({op_id(row)}, {out}, ({', '.join(inputs)},), began)"]


def names_of(row, first=None):
    """All parameters as they stand in a call, the first under another name."""
    return ", ".join([first or row.params[0].name, *(p.name for p in row.params[1:])])


def into_args(row, names):
    """Arguments of storage's NAME_into; names: of inputs that are called otherwise."""
    args = []
    for p in row.params:
        args += [f"&{names.get(p.name, p.name)}.m"] if p.is_tensor else [
            f"{p.name}.n, {p.name}.v"] if p.type == "ints" else [p.name]
    return ", ".join(args)


def op_into(row):
    """op_NAME writes into a copy of the first input; in_NAME into that input, whose history the node then takes."""
    names = [p.name for p in row.inputs]
    x = names[0]
    rowmajor = row.layout == "contiguous"
    write = f"ops.{row.into}_into({into_args(row, {x: 'y'})})"
    tensors = ", ".join(p.name for p in row.inputs)
    lines = [] if rule(row) == "hand" else [batch_into(row, c_params(row), lambda names: into_args(row, names)), ""]
    lines += [f"cdef Tensor op_{row.name}({c_params(row)}):", "    cdef Tensor y", "    cdef Node n",
              BEGAN, *autocast_lines(row), f"    if {is_batched(row)}:",
              f"        y = spread({x}, joint_of(({tensors},)), {rowmajor})",
              f"        batch_into_{row.name}({names_of(row, 'y')})", "    else:", "        y = tensor_new()",
              f"        adopt(y, ops.op_clone(&y.m, &{x}.m, {x}.m.dtype, {rowmajor}))", f"        {write}",
              *record_lines(row, "y"), *observe_lines(row, "y", names), "    return y", "", ""]
    copied = x in set().union(*(read_by(row, n) for n in row.grad)) if row.grad else False
    lines += [f"cdef Tensor in_{row.name}({c_params(row)}):", f"    cdef Tensor y = {x}", "    cdef Node n", BEGAN,
              f"    cdef bint recorded = {some_need(row, 'records')}",
              f"    check_in_place(y, recorded and ({some_need(row)}))"]
    lines += [f"    refuse_overlap(y, {p.name})" for p in row.inputs[1:]]
    lines += [f"    if {is_batched(row)}:", f"        check_levels(y, ({tensors},), \"{row.name}_\")",
              "    cdef Tensor seen = glimpse(y) if cyg_mode & MODE_OBSERVED else None",
              f"    {x} = history_alias(y, {copied}) if recorded else None",
              *(f"    {p.name} = frozen({p.name}, y)" for p in row.inputs[1:]), "    if y.flags & BATCHED:",
              f"        batch_into_{row.name}({names_of(row, 'y')})", "    else:", f"        {write}",
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
             *autocast_lines(row), f"    view_{row.meta}(&{y}.m, &{x}.m, {', '.join(args)})",
             f"    view_begin({y}, {x})"]
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
    if how == "kernel" and kernel.name != "neg":
        operands = [reading.names[n][0] for n, _ in kernel.operands]
        masks = sum(1 << k for k, (_, kind) in enumerate(kernel.operands) if kind == "truth")
        padded = ", ".join(operands + ["None"] * (4 - len(operands)))
        return [*lines, "        r = None", "        if not recording():",
                f"            r = fused({kernel.id}, {len(operands)}, {padded}, {masks}, n.attr)",
                "        if r is None:", f"            r = {text}", f"        pass_grad(n, {i}, r)"]
    return [*lines, f"        pass_grad(n, {i}, {text})"]


def row_facts(rows, row):
    """The initialiser of what a row says about itself, for the engine's table."""
    pointwise = row.kind == "pointwise"
    saves = [saves_mask(row, p.name) if pointwise and p.name in row.grad else 0 for p in row.inputs[:3]]
    kernel, kinds, guard = -1, 0, 0
    if pointwise:
        kernel = [k.name for k in kernels(rows)].index(forward_kernel(row).name)
        counted = [row.promote] if row.promote in slots(row) else [p.name for p in row.inputs if p.type != "mask"]
        kinds = sum(1 << i for i, p in enumerate(row.inputs) if p.name in counted)
        kinds |= 8 if row.promote == "number" else 0
        kinds |= sum(16 << i for i, p in enumerate(row.inputs) if p.type == "mask")
        guard = sum(1 << GUARDS.index(word) for word in set((row.guard or "").split()))
    out_bool, out_real = (int(pointwise and row.out == word) for word in ("bool", "real"))
    alike, rowmajor = int(row.promote == "alike"), int(pointwise and row.layout == "contiguous")
    numbers = ", ".join(map(str, (kinds, out_bool, out_real, guard, alike, rowmajor)))
    return f'    {{"{row.node}", {kernel}, {{{", ".join(map(str, saves + [0] * (4 - len(saves))))}}}, {numbers}}},'


def facts_text(rows):
    """rows_table.h: a C table, since filling OPS by statements would be a tenth of the engine's code."""
    lines = ["/* Printed by opgen from the op table; edit the rows in optable instead. */", "#include <stdint.h>", "",
             "struct row_facts {", "    const char *name;", "    int kernel;",
             "    uint8_t saves[4], kinds, out_bool, out_real, guard, alike, rowmajor;", "};", "",
             "static const struct row_facts row_facts[] = {"]
    return "\n".join([*lines, *(row_facts(rows, r) for r in rows.values()), "};", ""])


def table_text(rows):
    """The functions that OPS points to, and what the engine says when a row has no kernel for a dtype."""
    bits = "\n".join(f"    GUARD_{word.upper()} = {1 << i}" for i, word in enumerate(GUARDS))
    refusals = ", ".join(f"{op_id(r)}: {r.refusal!r}" for r in rows.values() if r.refusal)
    forms = {r.name: call_functions(r) for r in rows.values()}
    lines = ["cdef int fill_functions() except -1:"]
    for row in rows.values():
        if row.kind != "tensor":
            lines.append(f"    OPS[{op_id(row)}].backward = bw_{row.name}")
        if row.jvp:
            lines.append(f"    OPS[{op_id(row)}].forward = fw_{row.name}")
        for member, text in forms[row.name]:
            lines.append(f"    OPS[{op_id(row)}].{member} = {text[: text.index('(')].split()[-1]}")
    texts = [text for found in forms.values() for _, text in found]
    head = [f"cdef enum:\n    N_ROWS = {len(rows)}\n{bits}\n", f"cdef dict REFUSALS = {{{refusals}}}\n"]
    return "\n\n".join([*head, *texts, "\n".join([*lines, "    return 0"]) + "\n"])


# ---- public names ---------------------------------------------------------------------------------------------------

def public_names(rows):
    places = {place: {r.name.removeprefix(place + "_"): r.name for r in rows.values() if place in r.api}
              for place in NAMESPACES}
    aliases = [(alias, row.name) for row in rows.values() for alias in row.alias]
    return (f"GENERATED_FUNCTIONS = {[r.name for r in rows.values() if 'function' in r.api]!r}\n"
            f"GENERATED_ALIASES = {aliases!r}      # further name, name\n"
            f"GENERATED_PLACES = {places!r}      # module -> public name -> name here\n"
            f"GENERATED_LOOPED = {tuple(r.name for r in rows.values() if rule(r) == 'loop')!r}\n"
            f"GENERATED_RETURNS = {({r.name: tuple(r.returns.split()) for r in rows.values() if r.returns})!r}\n")


# ---- files ----------------------------------------------------------------------------------------------------------

def ops_text(rows, helpers):
    ids = "\n".join(f"    {op_id(r)} = {i}" for i, r in enumerate(rows.values(), 1))
    parts = [ids_text(kernels(rows)), f"cdef enum:\n{ids}\n",
             f"ROW_NAMES = {tuple(rows)!r}\n",
             f"SAVED_FIELDS = {';'.join(filter(None, map(saved_fields, rows.values())))!r}\n"]
    parts += [op_text(r) for r in rows.values() if r.kind in ("pointwise", "kernel", "into", "view")]
    parts += [backward_text(rows, helpers, r) for r in rows.values() if r.kind not in ("tensor", "hand")]
    parts += [forward_text(rows, helpers, r) for r in rows.values() if r.jvp]
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
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "ops.pxi": ops_text(rows, helpers),
        "rows_table.h": facts_text(rows),
        "forms_table.h": forms_text(rows),
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
        if row.jvp:
            parts.append(forward_text(rows, helper_signatures(formulas(source_dir)), row))
    return "\n".join(parts)


"""Prints the autograd side of the op table but for the gradients: op ids, recorded operations, public names."""
from pathlib import Path

from .batch import batch_into, batch_kernel, is_batched, rule
from .check import GUARDS, check
from .emit import ids_text, write_if_changed
from .forms import call_functions, forms_text
from .gradients import GROUPS, backward_text, forward_text, gradients_text
from .nodes import c_params, kept_args, op_id, op_pointwise, saved_output, slots
from .parse import NAMESPACES, load
from .scalar import forward_kernel, kernels
from .stubs import composed_stubs, stub_text
from .tensor import helper_signatures

# ---- recorded operations --------------------------------------------------------------------------------------------

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
    kept = out if len(row.outputs) == 1 else saved_output(row) or out
    lines.append(f"        keep(n, {', '.join((names + ['None'] * 3)[:3])}, {kept})")
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
    alone = f"{op_id(row)}, {{}}, ({', '.join(inputs)},)" if len(outs) == 1 else None
    if alone:
        lines.append(f"    {outs[0]} = kept_result({alone.format('None')}) if cyg_mode & MODE_KEPT else None")
    lines += [f"    if {outs[0]} is not None:", "        pass", f"    elif {is_batched(row)}:"] if alone else [
        f"    if {is_batched(row)}:"]
    lines += [f"        {', '.join(outs)} = batch_{row.name}({names_of(row)})",
              "    else:", *(f"        {o} = tensor_new()" for o in outs)]
    if len(outs) == 1:
        lines.append(f"        adopt({outs[0]}, {call})")
    else:
        lines.append(f"        memories = {call}")
        lines += [f"        adopt({o}, memories[{i}])" for i, o in enumerate(outs)]
    if alone:
        lines += ["    if cyg_mode & MODE_KEPT:", f"        kept_result({alone.format(outs[0])})"]
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
    lines += [f"cdef Tensor in_{row.name}({c_params(row)}):", f"    cdef Tensor y = {x}", "    cdef Node n", BEGAN,
              f"    cdef bint recorded = {some_need(row, 'records')}",
              f"    check_in_place(y, recorded and ({some_need(row)}))"]
    lines += [f"    refuse_overlap(y, {p.name})" for p in row.inputs[1:]]
    lines += [f"    if {is_batched(row)}:", f"        check_levels(y, ({tensors},), \"{row.name}_\")",
              "    cdef Tensor seen = glimpse(y) if cyg_mode & MODE_OBSERVED else None",
              f"    {x} = history_alias(y, reads_slot({op_id(row)}, 0)) if recorded else None",
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


# ---- what rows say about themselves ----------------------------------------------------------------------------------

def row_facts(rows, row):
    """The initialiser of what a row says about itself, for the engine's table."""
    pointwise = row.kind == "pointwise"
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
    return f'    {{"{row.node}", {kernel}, {numbers}}},'


def facts_text(rows):
    """rows_table.h: a C table, since filling OPS by statements would be a tenth of the engine's code."""
    lines = ["/* Printed by opgen from the op table; edit the rows in optable instead. */", "#include <stdint.h>", "",
             "struct row_facts {", "    const char *name;", "    int kernel;",
             "    uint8_t kinds, out_bool, out_real, guard, alike, rowmajor;", "};", "",
             "static const struct row_facts row_facts[] = {"]
    return "\n".join([*lines, *(row_facts(rows, r) for r in rows.values()), "};", ""])


def table_text(rows):
    """The hand-written functions that OPS points to, those that public forms call, and why dtypes are refused."""
    bits = "\n".join(f"    GUARD_{word.upper()} = {1 << i}" for i, word in enumerate(GUARDS))
    refusals = ", ".join(f"{op_id(r)}: {r.refusal!r}" for r in rows.values() if r.refusal)
    forms = {r.name: call_functions(r) for r in rows.values()}
    lines = ["cdef int fill_functions() except -1:"]
    for row in rows.values():
        if row.kind == "hand":
            lines.append(f"    OPS[{op_id(row)}].backward = bw_{row.name}")
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
            f"GENERATED_KEPT = {tuple(r.name for r in rows.values() if r.kind == 'kernel' and len(r.outputs) == 1)!r}\n"
            f"GENERATED_LOOPED = {tuple(r.name for r in rows.values() if rule(r) == 'loop')!r}\n"
            f"GENERATED_RETURNS = {({r.name: tuple(r.returns.split()) for r in rows.values() if r.returns})!r}\n")


# ---- files ----------------------------------------------------------------------------------------------------------

def op_ids_text(rows):
    """Ids of kernels and operations."""
    ids = "\n".join(f"    {op_id(r)} = {i}" for i, r in enumerate(rows.values(), 1))
    return f"{ids_text(kernels(rows))}\n\ncdef enum:\n{ids}\n"


def ops_text(rows):
    parts = [f"ROW_NAMES = {tuple(rows)!r}\n"]
    parts += [op_text(r) for r in rows.values() if r.kind in ("pointwise", "kernel", "into", "view")]
    return "\n\n".join([*parts, table_text(rows), public_names(rows)])


def write_autograd(out_dir, source_dir):
    """Print everything that autograd compiles from the op table.

    Parameters
    ----------
    out_dir : path
        Where the generated files go.
    source_dir : path
        ``cygrad/autograd``: _core.pxd is read for the functions that formulas may call, _core.pyi.in for the stubs.

    Returns
    -------
    list of Path
    """
    rows = load()
    check(rows)
    source = Path(source_dir)
    helpers = helper_signatures(source)
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    files = {
        "op_ids.pxi": op_ids_text(rows),
        "ops.pxi": ops_text(rows),
        **{f"gradients_{group}.pxi": gradients_text(rows, helpers, group) for group in GROUPS},
        "rows_table.h": facts_text(rows),
        "forms_table.h": forms_text(rows),
        "_core.pyi": stub_text(rows, (source / "_core.pyi.in").read_text(), composed_stubs(source / "composed")),
    }
    return [write_if_changed(out / name, text) for name, text in files.items()]


def show_autograd(name, source_dir=None):
    """Generated text of one row, for people."""
    rows = load()
    row = rows[name]
    parts = [op_text(row)] if row.kind in ("pointwise", "kernel", "into", "view") else []
    if source_dir and row.kind not in ("tensor", "hand"):
        helpers = helper_signatures(source_dir)
        parts.append(backward_text(rows, helpers, row))
        if row.jvp:
            parts.append(forward_text(rows, helpers, row))
    return "\n".join(parts)


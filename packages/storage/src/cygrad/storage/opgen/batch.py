"""Prints what operations of the table do with batched tensors, those of vmap (autograd's batch.pxi).

Views and pointwise operations need nothing of their own. A row with a kernel gets one function, by the rule that its
key ``batch`` names: batch_NAME makes the result, batch_into_NAME writes into the first input.
"""

RULES = ("front", "along", "loop", "dynamic", "hand")
MASKS = ("dims", "axis", "axes")


def rule(row):
    """How a row is batched."""
    return row.batch or "front"


def is_batched(row):
    """C expression: whether some input is."""
    flags = " | ".join(f"{p.name}.flags" for p in row.inputs)
    return f"({flags}) & BATCHED" if len(row.inputs) > 1 else f"{flags} & BATCHED"


def check_rule(row):
    if row.batch and row.kind not in ("kernel", "into"):
        row.fail("batch is for rows with a kernel: others need no rule")
    if not row.batch and row.kind == "kernel" and any(p.type == "ints" for p in row.args):
        row.fail("which dimensions a list of numbers means is not known: say by batch what vmap does")
    if rule(row) not in RULES:
        row.fail(f"batch has one of the words {', '.join(RULES)}, got {row.batch!r}")


def shifted(row, p, moved):
    """Arguments of storage's function in place of `p`, where the batch dimensions stand in front."""
    first = row.inputs[0].name
    if p.is_tensor:
        return f"&{moved.get(p.name, p.name)}.m"
    if p.type == "dim":
        return f"wrap_dim({p.name}, {first}.m.ndim) + over.n"
    if p.type in MASKS:
        return f"{p.name} << over.n"
    return f"{p.name}.n, {p.name}.v" if p.type == "ints" else p.name


def moved_inputs(row, lifted):
    """Lines that bring the inputs into one form, and their names: numbers and plain indices stay as they are."""
    names, lines = {}, []
    for p in row.inputs:
        if p.type != "n" and not (p.type == "index" and rule(row) == "along"):
            names[p.name] = p.name + "_"
            lines.append(f"    cdef Tensor {p.name}_ = front({p.name}, over, {lifted})")
    return names, lines


def in_words_of_one(row, lines, one):
    """`lines`; where they raise, the operation on the first example is asked first: its error counts no batch."""
    firsts = ", ".join(f"first_of({p.name})" if p.is_tensor else p.name for p in row.params)
    return ["    try:", *("    " + line for line in lines),
            "    except Exception:", f"        {one}({firsts})", "        raise"]


def lifted_rank(row):
    """1 where an argument names a dimension: a tensor without any then gets one for the time being."""
    return int(any(p.type == "dim" for p in row.args))


def along_lines(row):
    """The way out of those that take indices or a number plainly, where these vary: autograd's along_NAME."""
    plain = [p.name for p in row.inputs if p.type == "n" or (p.type == "index" and rule(row) == "along")]
    if not plain:
        return []
    varies = " or ".join(f"{name}.flags & BATCHED" for name in plain)
    return [f"    if {varies}:", f"        return along_{row.name}({', '.join(p.name for p in row.params)})"]


def batch_kernel(row, params):
    """batch_NAME of a row that makes its result."""
    word, outs = rule(row), row.outputs
    result = "Tensor" if len(outs) == 1 else "tuple"
    lines = [f"cdef {result} batch_{row.name}({params}):"]
    x = row.inputs[0].name
    if word == "dynamic":
        varying = f"{x} if {x}.flags & BATCHED else {row.inputs[-1].name}"
        firsts = ", ".join(f"first_of({p.name})" if p.is_tensor else p.name for p in row.params)
        alike = " and ".join(f"(not {p.name}.flags & BATCHED or all_alike({p.name}))" for p in row.inputs)
        lines += [f"    if {alike}:", f"        return op_{row.name}({firsts})",
                  f'    refuse_dynamic({varying}, "{row.name}")']
        return "\n".join(lines) + "\n"
    tensors = ", ".join(p.name for p in row.inputs)
    over = [f"    cdef Batch over = joint_of(({tensors},))"]
    if word == "loop":
        return "\n".join(lines + over + loop_lines(row)) + "\n"
    lifted = lifted_rank(row)
    names, moved = moved_inputs(row, lifted)
    made = [f"    cdef Tensor {o} = tensor_new()" for o in outs]
    given = [shifted(row, p, names) for p in row.params if p.type != "castto"]
    arguments = ", ".join([f"&{o}.m" for o in outs] + given)
    store = f"ops.op_{row.kernel}({arguments})"
    body = [f"    adopt({outs[0]}, {store})"] if len(outs) == 1 else [
        f"    memories = {store}", *(f"    adopt({o}, memories[{i}])" for i, o in enumerate(outs))]
    shape = row.inputs[-1].name if row.inputs[-1].type == "index" and word == "front" else x
    drop = f"{shape}.m.ndim == 0 and {{}}.m.ndim > over.n" if lifted else "0"
    done = ", ".join(f"under({o}, over, {drop.format(o)})" for o in outs)
    lines += along_lines(row) + over + moved + made + in_words_of_one(row, body, f"op_{row.name}")
    return "\n".join([*lines, f"    return {done}"]) + "\n"


def loop_lines(row):
    """The operation once for each example, or once on zeros where there is none, for the shape."""
    several = len(row.outputs) > 1
    one = ", ".join(f"example({p.name}, over, i)" if p.is_tensor else p.name for p in row.params)
    firsts = ", ".join(f"first_of({p.name})" if p.is_tensor else p.name for p in row.params)
    done = "stack_examples(ys, over)"
    if several:
        done = "(" + ", ".join(f"stack_examples([y[{k}] for y in ys], over)" for k in range(len(row.outputs))) + ")"
    return ["    cdef int64_t i", "    cdef list ys = []", "    cdef int before = work_unseen()",
            f'    warn_loop("{row.name}")', "    try:", "        for i in range(examples(over)):",
            f"            ys.append(op_{row.name}({one}))", "        if not ys:",
            f"            ys.append(op_{row.name}({firsts}))", f"        return {done}", "    finally:",
            "        restore_mode(before)"]


def batch_into(row, params, into_args):
    """batch_into_NAME of a row that writes into its first input."""
    lines = [f"cdef int batch_into_{row.name}({params}) except -1:"]
    tensors = ", ".join(p.name for p in row.inputs)
    over = [f"    cdef Batch over = joint_of(({tensors},))"]
    if rule(row) == "loop":
        moved = [f"        {p.name}_ = example({p.name}, over, i)" for p in row.inputs]
        held = [f"    cdef Tensor {', '.join(p.name + '_' for p in row.inputs)}", "    cdef int64_t i"]
        where = {p.name: p.name + "_" for p in row.inputs}
        return "\n".join([*lines, *over, *held, f'    warn_loop("{row.name}")',
                          "    for i in range(examples(over)):", *moved,
                          f"        ops.{row.into}_into({into_args(where)})", "    return 0"]) + "\n"
    lines += along_lines(row)
    names, moved = moved_inputs(row, lifted_rank(row))
    arguments = ", ".join(shifted(row, p, names) for p in row.params)
    body = [f"    ops.{row.into}_into({arguments})"]
    return "\n".join([*lines, *over, *moved, *in_words_of_one(row, body, f"op_{row.name}"), "    return 0"]) + "\n"

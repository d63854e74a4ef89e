"""What the node of a row keeps for its gradients, and how a pointwise row is called."""
import ast

from .scalar import attr_names

C_ARG = {"int": "int64_t", "float": "double", "factor": "double", "number": "double", "flag": "bint", "dim": "int64_t",
         "dims": "uint64_t", "axis": "uint64_t", "axes": "uint64_t",
         "ints": "const Dims*", "dtype": "int", "castto": "int", "str": "str", "scalar": "object"}


def op_id(row):
    return "OP_" + row.name.upper()


def read_by(row, name):
    """Names whose values the gradient of `name` reads: sizes(x) reads a shape, not x."""
    read = read_in(row.grad[name])
    return read.union(*(read_in(row.shared[local]) for local in read & row.shared.keys())) - row.shared.keys()


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
    found = [o for o in row.outputs if o in read_names(row)]
    if len(found) > 1:
        row.fail(f"gradients read several outputs, {found}: there is one slot")
    return found[0] if found else None


def saves_mask(row, name):
    place = slots(row)
    return sum(1 << place[n] for n in read_by(row, name) if n in place)


def read_names(row):
    """Everything that some gradient reads."""
    return set().union(*(read_by(row, n) for n in row.grad))


def kept_args(row):
    """Arguments that a node keeps: name -> C expression of its field.

    Numbers are kept whether a gradient reads them or not: it costs nothing, and leaves the operation as it is when the
    gradient is edited.
    """
    kept, ints, doubles, rest = {}, 0, 0, 0
    for p in row.args:
        if row.kind == "pointwise":
            kept[p.name] = f"n.attr[{attr_names(row).index(p.name)}]"
        elif p.type in ("ints", "str", "scalar"):
            if p.name in read_names(row):
                kept[p.name], rest = "n.rest", rest + 1
        elif p.type in ("float", "factor", "number"):
            kept[p.name], doubles = f"n.attr[{doubles}]", doubles + 1
        else:
            kept[p.name], ints = f"n.iattr[{ints}]", ints + 1
    if row.grad and (ints > 5 or doubles > 2 or rest > 1):
        row.fail("more arguments than a node keeps: five integers, two others, one list or word that gradients read")
    return kept


def saved_fields(row):
    """What a node of this row keeps, for ``node._saved_NAME``: ``mul:self=0,other=1``. A digit is a slot."""
    place, read = slots(row), read_names(row)
    names = {p.name: "self" if row.public_name(p) == "input" else row.public_name(p) for p in row.params}
    if len(row.outputs) == 1:
        names[row.outputs[0]] = "result"
    fields = [f"{names.get(n, n)}={slot}" for n, slot in place.items() if n in read]
    letters = {"flag": "b", "dims": "m", "axes": "m", "axis": "a", "dtype": "t", "castto": "t"}
    for name, field in kept_args(row).items():
        if name not in read and row.kind != "pointwise":
            continue
        kind = row.param(name).type
        number = field.rstrip("]").partition("[")[2]
        letter = "r" if field == "n.rest" else "d" if field.startswith("n.attr") else letters.get(kind, "i")
        fields.append(f"{names[name]}={letter}{number}")
    return f"{row.name}:{','.join(fields)}" if fields else ""


def c_params(row):
    return ", ".join(f"Tensor {p.name}" if p.is_tensor else f"{C_ARG[p.type]} {p.name}" for p in row.params)


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
    return head + f"    return pointwise({op_id(row)}, {n}, {', '.join(padded)}, NULL, None)\n"

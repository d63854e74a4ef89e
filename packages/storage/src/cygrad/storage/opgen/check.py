"""Rules that every row of the op table keeps; the first breach raises `TableError` with file, row and reason."""
import ast

from .batch import check_rule
from .complexes import COMPLEX_TYPES, complex_formula, element
from .parse import NAMESPACES, OUT_FORMS, calls_in, names_in
from .scalar import KINDS, PRIMITIVES, NotScalar, forward_kernel, gradient_kernel, kernels, row_types

API = {"function", "method", "inplace", *OUT_FORMS, "nn", "varargs", *NAMESPACES}
TEST = {"low", "high", "ref"}
# in the order of their bits
GUARDS = ("divisor", "exponent", "nobool", "range", "quotient", "floating", "bounds", "halves")
AUTOCAST_KINDS = ("kernel", "into", "view")
CONSTANTS = {"pi", "True", "False", "None"}


def check(rows):
    """Check the whole table.

    Parameters
    ----------
    rows : dict
        Name -> Row, as `parse.load` returns it.

    Raises
    ------
    TableError
        A row names something unknown, has no gradient and no reason for that, or is pointwise but calls what is not.
    """
    for row in rows.values():
        check_words(rows, row)
        check_gradients(row)
        check_tangents(row)
        if row.kind == "pointwise":
            check_scalar(rows, row)
        check_rule(row)
    ids = [k.id for k in kernels(rows)]
    for name in {i for i in ids if ids.count(i) > 1}:
        raise ValueError(f"two kernels have the id {name}")


def check_words(rows, row):
    """Values that come from a fixed set, and references to other rows and inputs."""
    if not row.types or not KINDS.keys() >= set(row.types.split()):
        row.fail(f"types has the words {', '.join(KINDS)}, got {row.types!r}")
    for word in set(row.api) & set(NAMESPACES):
        if not row.name.startswith(word + "_"):
            row.fail(f"api {word!r} wants a row whose name begins with {word}_")
    if row.out not in (None, "bool", "real"):
        row.fail(f"out is 'bool', 'real' or absent, got {row.out!r}")
    if not row.doc.strip() or "\n" in row.doc:
        row.fail("doc is one line of text")
    for word in set(row.api) - API:
        row.fail(f"api has the words {', '.join(sorted(API))}, got {word!r}")
    for key in set(row.test) - TEST:
        row.fail(f"test has the keys {', '.join(sorted(TEST))}, got {key!r}")
    for word in set((row.guard or "").split()) - set(GUARDS):
        row.fail(f"guard has the words {', '.join(sorted(GUARDS))}, got {word!r}")
    if row.layout not in (None, "contiguous"):
        row.fail(f"layout is 'contiguous' or absent, got {row.layout!r}")
    if row.alpha is not None and row.alpha not in rows:
        row.fail(f"alpha names the row {row.alpha!r}, which does not exist")
    inputs = {p.name for p in row.inputs}
    if row.promote not in (None, "alike", "number", *inputs):
        row.fail(f"promote names {row.promote!r}, which is no input")
    if row.returns is not None and len(row.returns.split()) != len(row.outputs):
        row.fail(f"returns names {row.returns!r} for {len(row.outputs)} outputs")
    if row.autocast not in (None, "low", "float32", "widest") or (row.autocast and row.kind not in AUTOCAST_KINDS):
        row.fail(f"autocast is {row.autocast!r}: low, float32 or widest is wanted, for {', '.join(AUTOCAST_KINDS)}")
    if row.overload not in (None, *(p.name for p in row.params)):
        row.fail(f"overload names {row.overload!r}, which is no parameter")
    for word in row.alias:
        if "." in word and word.partition(".")[0] not in NAMESPACES:
            row.fail(f"alias {word!r}: modules are {', '.join(NAMESPACES)}")
    for name in set(row.py) - {p.name for p in row.params}:
        row.fail(f"py renames {name!r}, which is no parameter")
    names = [p.name for p in row.params] + row.outputs
    for name in {n for n in names if names.count(n) > 1} | ({"g", "pi"} & set(names)):
        row.fail(f"the name {name!r} is taken: g is the gradient, pi the number, and all others differ")


def check_gradients(row):
    """Every differentiable input has a formula, or the row says why there is none."""
    wanted = [p for p in row.inputs if p.type in ("t", "tn", "n", "tensors")]
    if row.nondiff is not None and row.grad:
        row.fail("nondiff and grad exclude each other")
    for name in set(row.grad) - {p.name for p in wanted}:
        row.fail(f"grad.{name} belongs to no differentiable input")
    if row.nondiff is None and row.tensor is None and row.hand is None:
        for p in wanted:
            if p.name not in row.grad:
                row.fail(f"no gradient for {p.name!r}: give grad.{p.name}, or nondiff with the reason")
    known = {p.name for p in row.params} | set(row.outputs) | CONSTANTS | {"g", "node"}
    for name, formula in row.let.items():
        for unknown in set(names_in(formula)) - known:
            row.fail(f"let.{name} reads {unknown!r}, which is no input, argument or output")
    known |= row.shared.keys()
    for name, formula in row.grad.items():
        try:
            read = names_in(formula)
        except SyntaxError as error:
            row.fail(f"grad.{name}: cannot parse {formula!r}: {error.msg}")
        if row.param(name).type == "tensors" and formula.isidentifier():
            continue  # a named formula over the whole list
        for unknown in [n for n in read if n not in known]:
            row.fail(f"grad.{name} reads {unknown!r}, which is no input, argument or output")


def check_tangents(row):
    """Formulas of forward mode read what the graph keeps for backward anyway."""
    if not row.jvp:
        return
    if row.kind not in ("kernel", "into") or row.jvp.keys() != row.grad.keys():
        row.fail("jvp belongs to kernel and into rows, and to the same inputs as grad")
    arguments = {p.name for p in row.args}
    for name, formula in row.jvp.items():
        for unknown in set(names_in(formula)) - {"t"} - CONSTANTS - arguments - set(names_in(row.grad[name])):
            row.fail(f"jvp.{name} reads {unknown!r}, which grad.{name} does not read: it is not kept")
        for unknown in arguments & set(names_in(formula)) - {n for f in row.grad.values() for n in names_in(f)}:
            row.fail(f"jvp.{name} reads {unknown!r}, which no gradient reads: it is not kept")


def check_scalar(rows, row):
    """Pointwise rows: all formulas have a scalar reading for every dtype, and none calls itself."""
    if len(row.outputs) != 1:
        row.fail(f"a pointwise row has one output, got {row.outputs}")
    if len(row.inputs) > 5:
        row.fail(f"a pointwise row has at most 5 inputs, got {len(row.inputs)}")
    for p in row.params:
        if p.type not in ("t", "tn", "n", "mask", "float", "factor", "number", "int", "flag"):
            row.fail(f"a pointwise row cannot take the {p.type} {p.name!r}")
    kinds = {t.kind for t in row_types(row)} | ({"complex"} & set(row.types.split()))
    for kind in set(row.fwd) - kinds - {""}:
        row.fail(f"fwd_{kind} is never used: types = {row.types!r} has no {kind}")
    try:
        forward = forward_kernel(row)
        for t in forward.types:
            forward.reading(rows, t)
        for t in COMPLEX_TYPES if complex_formula(forward) else ():
            element(forward, t)
        for name in row.grad if row.fused else ():
            kernel = gradient_kernel(row, name)
            for t in kernel.types:
                kernel.reading(rows, t)
    except (NotScalar, SyntaxError, ArithmeticError) as error:
        row.fail(str(error))
    check_no_cycle(rows, row, (row.name,))
    for name in {n for kind, f in row.fwd.items() if kind != "complex" for n in calls_in(f)} - {"where", "conj"}:
        elsewhere = PRIMITIVES[name].rare > row.rare if is_primitive(name) else rows[name].rare != row.rare
        if elsewhere:
            row.fail(f"{name!r} is compiled in the other group of kernels")


def check_no_cycle(rows, row, path):
    for formula in (f for kind, f in row.fwd.items() if kind != "complex"):      # which calls no rows
        for node in ast.walk(ast.parse(formula)):
            name = node.func.id if isinstance(node, ast.Call) else None
            if name in path and name in rows and not is_primitive(name):
                row.fail(f"calls itself: {' -> '.join([*path, name])}")
            if name in rows and not is_primitive(name):
                check_no_cycle(rows, rows[name], (*path, name))


def is_primitive(name):
    return name == "where" or name in PRIMITIVES

"""Scalar reading of formulas: what one element of the result is, as typed Cython text.

The same strings have a second, tensor reading in the autograd build. Here a formula becomes the body of an inline
function over C scalars, printed once per element type; `emit` puts loops around it.
"""
import ast
import math
from dataclasses import dataclass

from .parse import calls_in, names_in


@dataclass(frozen=True)
class ElementType:
    name: str      # suffix of generated functions
    code: str      # name in core.pxd's DTypeCode
    c: str         # C type of one element
    kind: str      # bool | int | float
    size: int      # bytes
    wrap: str = ""  # unsigned type in which integer arithmetic wraps around without undefined behaviour


# A new element type is a line here and its primitives in vecmath.h.
ELEMENT_TYPES = (
    ElementType("b8", "BOOL", "uint8_t", "bool", 1),
    ElementType("u8", "UINT8", "uint8_t", "int", 1, "uint32_t"),
    ElementType("i32", "INT32", "int32_t", "int", 4, "uint32_t"),
    ElementType("i64", "INT64", "int64_t", "int", 8, "uint64_t"),
    ElementType("u64", "UINT64", "uint64_t", "int", 8, "uint64_t"),
    ElementType("f32", "FLOAT32", "float", "float", 4),
    ElementType("f64", "FLOAT64", "double", "float", 8),
)
# Adapted types have no kernels of their own: DTypeCode -> the element type that they compute in (kernels/convert.h).
ADAPTED = {"FLOAT16": "f32", "BFLOAT16": "f32", "INT8": "i32", "INT16": "i32", "UINT16": "i32", "UINT32": "i64"}
FLOAT_TYPES = tuple(t for t in ELEMENT_TYPES if t.kind == "float")
KINDS = {"float": ("float",), "int": ("bool", "int"), "number": ("int", "float"), "all": ("bool", "int", "float"),
         "complex": ("complex",), "integer": ("int",)}


@dataclass(frozen=True)
class Primitive:
    arity: int
    kinds: tuple           # of the element types that have it
    result: str = "value"  # value: of the element type; truth: a C truth value
    heavy: bool = False    # slow or branching outside a vector loop: strided operands are better gathered into blocks
    rare: bool = False     # a function of special.h, for rows of special.toml
    near: bool = False     # vecmath.h has a vector form for floats, vm_near_, of all arguments but those of vm_far_


_FLOAT, _NUMBER, _ALL = ("float",), ("int", "float"), ("bool", "int", "float")
PRIMITIVES = {
    **{name: Primitive(1, _FLOAT, heavy=True) for name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf")},
    **{name: Primitive(1, _FLOAT, heavy=True, near=True) for name in ("sin", "cos", "tan")},
    "sqrt": Primitive(1, _FLOAT, heavy=True),
    **{name: Primitive(1, _NUMBER) for name in ("abs", "floor", "ceil", "rint", "trunc", "sign")},
    **{name: Primitive(1, _ALL, "truth") for name in ("isnan", "isinf", "isfinite")},
    **{name: Primitive(2, _NUMBER, heavy=True, near=True) for name in ("floordiv", "pymod", "cmod")},
    "power": Primitive(2, _NUMBER, heavy=True),
    "copysign": Primitive(2, _FLOAT),
    "signbit": Primitive(1, _FLOAT, "truth"),
    "round_to": Primitive(2, _FLOAT, heavy=True),
    **{name: Primitive(2, ("int",)) for name in ("shift_left", "shift_right")},
    # special.h
    **{name: Primitive(1, _FLOAT, heavy=True, rare=True) for name in (
        "exp2", "log2", "log10", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfcx",
        "erfinv", "ndtr", "log_ndtr", "ndtri", "lgamma", "digamma", "mantissa", "exponent", "j0", "j1", "y0", "y1",
        "i0", "i0e", "i1", "i1e", "k0", "k0e", "k1", "k1e")},
    **{name: Primitive(2, _FLOAT, heavy=True, rare=True) for name in (
        "atan2", "hypot", "nextafter", "polygamma", "zeta", "igamma", "igammac")},
    **{name: Primitive(2, ("int",), heavy=True, rare=True) for name in ("gcd", "lcm")},
}
_FOLDED = {"sqrt": math.sqrt, "exp": math.exp, "log": math.log}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_BITS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
_COMPARE = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class NotScalar(Exception):
    """The formula has no scalar reading; the message says why."""


def constant(node):
    """The number that a subexpression of numbers, ``pi`` and ``sqrt``, ``exp``, ``log`` stands for, or None."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id="pi"):
            return math.pi
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = constant(operand)
            return None if value is None else -value
        case ast.Call(func=ast.Name(id=name), args=[arg]) if name in _FOLDED:
            value = constant(arg)
            return None if value is None else _FOLDED[name](value)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = constant(left), constant(right)
            if a is None or b is None:
                return None
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Pow():
                    return a**b
    return None


def has_near_form(rows, row, seen=()):
    """Whether a formula has a vector form for all but far arguments: it calls such a primitive, or a row that does."""
    for name in calls_in(row.fwd.get("") or "0"):
        if name in PRIMITIVES:
            if PRIMITIVES[name].near:
                return True
        elif name in rows and name not in seen and has_near_form(rows, rows[name], (*seen, name)):
            return True
    return False


class Reading:
    """Prints formulas over one element type.

    Every printed expression is a pair ``(text, kind)``: kind "value" has the element type, "truth" is a C truth value.

    Parameters
    ----------
    rows : dict
        The op table; pointwise rows may be called by name.
    type : ElementType
    names : dict
        Name -> (text, kind) of everything that the formula may read.
    near : bool
        Print the vector forms that hold only where none of the tests in `far` does.

    Attributes
    ----------
    heavy : bool
        Whether something heavy was printed.
    far : list of str
        Tests of arguments that are far, as texts over the same names.
    """

    def __init__(self, rows, type, names, near=False):
        self.rows, self.type, self.names, self.near = rows, type, names, near
        self.heavy, self.far = False, []

    def read(self, formula, truth):
        """The text of `formula`, as a truth value in a byte if `truth`, else as an element."""
        node = ast.parse(formula, mode="eval").body
        if truth:
            text = f"<uint8_t>{self.truth(node)}"
        else:
            text = self.value(node)
        return text[1:-1] if _enclosed(text) else text

    def value(self, node):
        text, kind = self.expression(node)
        return text if kind == "value" else f"<{self.type.c}>{text}"

    def truth(self, node):
        text, kind = self.expression(node)
        return text if kind == "truth" else f"({text} != 0)"

    def expression(self, node):
        number = constant(node)
        if number is not None:
            return self.literal(number), "value"
        match node:
            case ast.Name(id=name):
                if name not in self.names:
                    raise NotScalar(f"unknown name {name!r}")
                return self.names[name]
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(left, op, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text = self.value(self.no_bool(operand, "-"))
                if self.type.kind == "int":
                    return f"<{self.type.c}>(0 - <{self.type.wrap}>{text})", "value"
                return f"(-{text})", "value"
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.invert(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return self.compare(left, _COMPARE[type(op)], right)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(name, args)
        raise NotScalar(f"{ast.unparse(node)!r} is not part of the grammar")

    def literal(self, number):
        if self.type.kind == "float":
            if not math.isfinite(number):
                raise NotScalar(f"the constant {number} is not finite")
            text = repr(float(number))
        elif number == int(number):
            text = repr(int(number))
        else:
            raise NotScalar(f"the constant {number} is not an integer, as {self.type.name} needs")
        return f"(<{self.type.c}>{f'({text})' if text[0] == '-' else text})"

    def no_bool(self, node, symbol):
        if self.type.kind == "bool":
            raise NotScalar(f"{symbol!r} is not closed on bool: give the row fwd_bool")
        return node

    def binary(self, left, op, right):
        t = self.type
        if type(op) in _ARITHMETIC:
            symbol = _ARITHMETIC[type(op)]
            self.no_bool(left, symbol)
            a, b = self.value(left), self.value(right)
            if t.kind == "int":
                return f"<{t.c}>(<{t.wrap}>{a} {symbol} <{t.wrap}>{b})", "value"
            return f"({a} {symbol} {b})", "value"
        if isinstance(op, ast.Div):
            if t.kind != "float":
                raise NotScalar(f"'/' on {t.name}: only floating types divide; floordiv is the integer one")
            return f"({self.value(left)} / {self.value(right)})", "value"
        if isinstance(op, ast.Pow):
            return self.call("power", [left, right])
        if type(op) in _BITS:
            (a, ka), (b, kb) = self.expression(left), self.expression(right)
            if ka != kb or (ka == "value" and t.kind == "float"):
                raise NotScalar(f"{_BITS[type(op)]!r} wants two comparisons or two integers")
            return f"({a} {_BITS[type(op)]} {b})", ka
        raise NotScalar(f"operator {type(op).__name__} is not part of the grammar")

    def invert(self, operand):
        text, kind = self.expression(operand)
        if kind == "truth":
            return f"(not {text})", "truth"
        if self.type.kind != "int":
            raise NotScalar(f"'~' on {self.type.name}")
        return f"<{self.type.c}>(~<{self.type.wrap}>{text})", "value"

    def compare(self, left, symbol, right):
        (a, ka), (b, kb) = self.expression(left), self.expression(right)
        if ka != kb:
            a, b = self.value(left), self.value(right)
        return f"({a} {symbol} {b})", "truth"

    def call(self, name, args):
        if name == "where":
            return self.where(args)
        if name in ("conj", "real") and len(args) == 1:      # complexes.py has the readings of complex numbers
            return self.expression(args[0])
        if name in PRIMITIVES:
            return self.primitive(name, args)
        row = self.rows.get(name)
        if row is None:
            raise NotScalar(f"unknown function {name!r}")
        if row.kind != "pointwise":
            raise NotScalar(f"{name!r} is not a pointwise operation")
        if len(args) != len(row.params):
            raise NotScalar(f"{name!r} takes {len(row.params)} arguments, got {len(args)}")
        if self.type not in row_types(row):
            raise NotScalar(f"{name!r} has no {self.type.name} kernel")
        self.heavy = True
        texts = [self.truth(a) if p.type == "mask" else self.value(a) for p, a in zip(row.params, args, strict=True)]
        arguments, near = f"{self.type.name}({', '.join(texts)})", ""
        if self.type.kind == "float" and has_near_form(self.rows, row):
            self.far.append(f"{name}_far_{arguments}")
            near = "near_" if self.near else ""
        return f"{name}_{near}{arguments}", "truth" if row.out == "bool" else "value"

    def where(self, args):
        if len(args) != 3:
            raise NotScalar(f"'where' takes 3 arguments, got {len(args)}")
        self.heavy = True
        texts = [self.truth(args[0])]
        kinds = [self.expression(a)[1] for a in args[1:]]
        if kinds == ["truth", "truth"]:
            return f"vm_where_b8({', '.join(texts + [self.truth(a) for a in args[1:]])})", "truth"
        return f"vm_where_{self.type.name}({', '.join(texts + [self.value(a) for a in args[1:]])})", "value"

    def primitive(self, name, args):
        p = PRIMITIVES[name]
        if len(args) != p.arity:
            raise NotScalar(f"{name!r} takes {p.arity} arguments, got {len(args)}")
        if self.type.kind not in p.kinds:
            raise NotScalar(f"{name!r} on {self.type.name}")
        self.heavy |= p.heavy
        suffix = f"{name}_{self.type.name}({', '.join(self.value(a) for a in args)})"
        if p.near and self.type.kind == "float":
            self.far.append(f"vm_far_{suffix}")
            return f"vm_{'near_' if self.near else ''}{suffix}", p.result
        return f"vm_{suffix}", p.result


def _enclosed(text):
    """Whether the first parenthesis closes at the very end."""
    depth = 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return i > 0 and i == len(text) - 1
    return False


def row_types(row):
    """The element types for which a pointwise row has kernels."""
    kinds = {kind for word in row.types.split() for kind in KINDS[word]}
    return tuple(t for t in ELEMENT_TYPES if t.kind in kinds)


@dataclass(frozen=True)
class Kernel:
    """One kernel of the table: a forward formula, or the formula of one gradient."""

    name: str           # of its functions; its id is K_ + the name in capitals
    row: object
    formulas: tuple     # pairs (element type, formula)
    operands: tuple     # pairs (name, "value" | "truth"), output excluded
    attrs: tuple        # names of the scalar arguments that a loop reads from attr, in order
    truth: bool         # the result is a truth value in a byte, whatever the operands are

    @property
    def id(self):
        return "K_" + self.name.upper()

    @property
    def types(self):
        return tuple(t for t, _ in self.formulas)

    @property
    def adapted(self):
        """Codes of the adapted types that the kernel serves through another type's loop."""
        names = {t.name for t in self.types}
        return tuple(code for code, name in ADAPTED.items() if name in names)

    @property
    def truths(self):
        """Bit k: operand k, the result first, is of bytes whatever the type."""
        kinds = ["truth" if self.truth else "value", *(kind for _, kind in self.operands)]
        return sum(1 << k for k, kind in enumerate(kinds) if kind == "truth")

    @property
    def flags(self):
        """`truths` for c_through, with C_NUMBER where an operand beside halves may be a float32 number."""
        return self.truths | (64 if self.name == self.row.name and "halves" in (self.row.guard or "").split() else 0)

    def reading(self, rows, type, positional=False, near=False):
        """(text of the formula, its Reading); `positional` names operands by place, to find equal kernels."""
        names = {n: (f"o{i}" if positional else n, "value") for i, (n, kind) in enumerate(self.operands)}
        for n, kind in self.operands:
            if kind == "truth":
                names[n] = (f"({names[n][0]} != 0)", "truth")
            elif type.kind == "bool":  # borrowed memory may hold other bytes than 0 and 1: all but 0 are true
                names[n] = (f"(<{type.c}>({names[n][0]} != 0))", "value")
        names |= {n: (f"t{i}" if positional else n, "value") for i, n in enumerate(self.attrs)}
        reading = Reading(rows, type, names, near)
        return reading.read(dict(self.formulas)[type], self.truth), reading


def attr_names(row):
    """Arguments that reach a loop as doubles, in the order of `attr`."""
    return tuple(p.name for p in row.args if p.type in ("float", "factor", "number", "int", "flag"))


def forward_kernel(row):
    formulas = tuple((t, row.fwd.get(t.kind, row.fwd[""])) for t in row_types(row))
    operands = tuple((p.name, "truth" if p.type == "mask" else "value") for p in row.inputs)
    return Kernel(row.name, row, formulas, operands, attr_names(row), row.out == "bool")


def gradient_kernel(row, name):
    """The kernel of ``grad.name``, whatever its formula is; `gradient_plan` says whether it is wanted."""
    formula = row.grad[name]
    read = names_in(formula)
    kinds = {"g": "value"} | dict.fromkeys(row.outputs, "value")
    kinds |= {p.name: "truth" if p.type == "mask" else "value" for p in row.inputs}
    operands = tuple((n, kinds[n]) for n in read if n in kinds)
    formulas = tuple((t, formula) for t in FLOAT_TYPES)
    return Kernel(f"{row.name}_g_{name}", row, formulas, operands, attr_names(row), False)


def gradient_plan(rows, row, name):
    """How the gradient of input `name` is computed without a graph.

    Returns
    -------
    tuple
        ``("pass", None)`` for g itself, ``("constant", value)``, ``("kernel", Kernel)``, where minus g is the kernel
        of ``neg``, or ``("tensor", None)`` in rows that are not pointwise or not fused: the tensor reading computes it.
    """
    node = ast.parse(row.grad[name], mode="eval").body
    if isinstance(node, ast.Name) and node.id == "g":
        return "pass", None
    if constant(node) is not None:
        return "constant", constant(node)
    if row.kind != "pointwise" or not row.fused:
        return "tensor", None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and ast.unparse(node.operand) == "g":
        return "kernel", forward_kernel(rows["neg"])
    return "kernel", gradient_kernel(row, name)


def kernels(rows):
    """All kernels in table order: the forward ones, then the gradients."""
    found = [forward_kernel(row) for row in rows.values() if row.kind == "pointwise"]
    for row in rows.values():
        for name in row.grad:
            how, kernel = gradient_plan(rows, row, name)
            if how == "kernel" and kernel.row is row and kernel.name != row.name:
                found.append(kernel)
    return found

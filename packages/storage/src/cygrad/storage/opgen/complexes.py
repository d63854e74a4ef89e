"""Complex reading of formulas: what one complex element of the result is, as C text, with a loop around it.

Rows whose types have the word "complex" get these loops beside those of real types. Here numbers have one of three
kinds: "value" is complex, "real" one of its parts' type, "truth" a C truth value. Real subexpressions stay real, so
that no rounding or sign of zero comes from an imaginary part that is not there.
"""
import ast
from dataclasses import dataclass

from .scalar import NotScalar, Reading, constant

HEAD = '/* Printed by opgen from the op table; edit optable/*.toml instead. */\n#include "complexmath.h"\n'
FUNCTIONS = {"sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
             "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "sgn", "conj"}
PARTS = {"abs", "angle", "real", "imag"}
TESTS = {"isnan", "isinf", "isfinite"}
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.BitAnd: "&", ast.BitOr: "|", ast.Eq: "==",
           ast.NotEq: "!="}


@dataclass(frozen=True)
class ComplexType:
    name: str      # suffix of functions of complexmath.h
    code: str      # name in core.pxd's DTypeCode
    c: str         # C type
    part: str      # C type of the real and imaginary part
    kind: str = "complex"


COMPLEX_TYPES = (ComplexType("c64", "COMPLEX64", "float _Complex", "float"),
                 ComplexType("c128", "COMPLEX128", "double _Complex", "double"))  # fmt: skip


class ComplexReading(Reading):
    """Prints formulas over one complex type; see `Reading` for the parameters."""

    def value(self, node):
        return self.as_value(*self.expression(node))

    def as_value(self, text, kind):
        return text if kind == "value" else f"c_make_{self.type.name}({text}, 0)"

    def real(self, node):
        text, kind = self.expression(node)
        if kind == "value":
            raise NotScalar(f"{ast.unparse(node)!r} is complex where a real number is wanted")
        return text

    def expression(self, node):
        number = constant(node)
        if number is not None:
            return f"(({self.type.part}){float(number)!r})", "real"
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text, kind = self.expression(operand)
                return f"(-{text})", kind
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return f"(!{self.truth(operand)})", "truth"
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compare(left, op, right)
        return super().expression(node)

    def compare(self, left, op, right):
        (a, ka), (b, kb) = self.expression(left), self.expression(right)
        if type(op) not in SYMBOLS and "value" in (ka, kb):
            raise NotScalar("complex numbers have no order")
        symbol = SYMBOLS.get(type(op)) or {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(op)]
        return f"({a} {symbol} {b})", "truth"

    def binary(self, left, op, right):
        if isinstance(op, ast.Pow):
            return self.call("power", [left, right])
        (a, ka), (b, kb) = self.expression(left), self.expression(right)
        if type(op) not in SYMBOLS:
            raise NotScalar(f"operator {type(op).__name__} on complex numbers")
        symbol, t = SYMBOLS[type(op)], self.type.name
        if symbol in "&|":
            if ka != "truth" or kb != "truth":
                raise NotScalar(f"{symbol!r} wants two comparisons")
            return f"({a} {symbol} {b})", "truth"
        if ka == kb == "real" or symbol in "+-":
            return f"({a} {symbol} {b})", "value" if "value" in (ka, kb) else "real"
        if symbol == "*" and "real" in (ka, kb):
            return (f"c_scale_{t}({a}, {b})" if kb == "real" else f"c_scale_{t}({b}, {a})"), "value"
        return f"c_{'mul' if symbol == '*' else 'div'}_{t}({self.as_value(a, ka)}, {self.as_value(b, kb)})", "value"

    def where(self, args):
        condition, (a, ka), (b, kb) = self.truth(args[0]), self.expression(args[1]), self.expression(args[2])
        if ka != kb:
            a, b, ka = self.as_value(a, ka), self.as_value(b, kb), "value"
        return f"({condition} ? {a} : {b})", ka

    def call(self, name, args):
        t = self.type.name
        if name == "where":
            return self.where(args)
        if name == "power":
            return f"c_power_{t}({self.value(args[0])}, {self.value(args[1])})", "value"
        kind = "value" if name in FUNCTIONS else "real" if name in PARTS else "truth" if name in TESTS else None
        if kind is None or len(args) != 1:
            raise NotScalar(f"{name!r} of {len(args)} complex arguments")
        return f"c_{name}_{t}({self.value(args[0])})", kind


def complex_formula(kernel):
    """The formula of a forward kernel over complex numbers, or None."""
    row = kernel.row
    if kernel.name != row.name or "complex" not in row.types.split():
        return None
    return row.fwd.get("complex", row.fwd[""])


def element(kernel, type):
    """(C expression of one element, C type of the result)."""
    names = {n: (n, "truth" if kind == "truth" else "value") for n, kind in kernel.operands}
    reading = ComplexReading({}, type, names | {n: (n, "real") for n in kernel.attrs})
    node = ast.parse(complex_formula(kernel), mode="eval").body
    if kernel.truth:
        return reading.truth(node), "uint8_t"
    if kernel.row.out == "real":
        return reading.real(node), type.part
    return reading.value(node), type.c


def loop_text(kernel, type):
    text, result = element(kernel, type)
    name = f"c_row_{kernel.name}_{type.name}"
    lines = [f"static void {name}(char** p, const int64_t* st, int64_t n, const double* attr) {{",
             "    int64_t i;", "    (void)attr;"]
    lines += [f"    const {type.part} {name} = ({type.part})attr[{i}];" for i, name in enumerate(kernel.attrs)]
    lines.append("    for (i = 0; i < n; i++) {")
    for k, (name, kind) in enumerate(kernel.operands, 1):
        if kind == "truth":
            lines.append(f"        const int {name} = C_AT(const uint8_t, p[{k}], i, st[{k}]) != 0;")
        else:
            lines.append(f"        const {type.c} {name} = C_AT(const {type.c}, p[{k}], i, st[{k}]);")
    return "\n".join([*lines, f"        C_AT({result}, p[0], i, st[0]) = {text};", "    }", "}"]) + "\n"


def complex_text(found):
    """The C header that kernels/complex_rows.pxi includes."""
    parts, enter = [HEAD], []
    for i, kernel in enumerate(found):
        if complex_formula(kernel) is None:
            continue
        for type in COMPLEX_TYPES:
            parts.append(loop_text(kernel, type))
            enter.append(f"    table[{i} * C_COLUMNS + C_{type.code}] = (void*)c_row_{kernel.name}_{type.name};")
    return "\n".join([*parts, "static void c_register_rows(void** table) {", *enter, "    (void)table;", "}"]) + "\n"

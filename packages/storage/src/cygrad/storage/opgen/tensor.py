"""Tensor reading of gradient formulas: differentiable operations, printed as calls of autograd's op_ functions.

Every expression has a type: T a Tensor, D a double, I an int64, M a set of dimensions, B a truth value, Z a shape, S a
word, N the node whose gradients are computed, P a tuple of Tensors.
Operators between tensors, or between a tensor and a number, become operations of the table; between numbers they stay
C.
"""
import ast
import re
from pathlib import Path

from .scalar import constant

C_TYPES = {"Tensor": "T", "double": "D", "int64_t": "I", "uint64_t": "M", "bint": "B", "const Dims*": "Z", "int": "I",
           "str": "S", "Node": "N"}
ARG_LETTER = {"int": "I", "float": "D", "factor": "D", "number": "D", "flag": "B", "dim": "I", "dims": "M", "axis": "M",
              "axes": "M", "ints": "Z", "dtype": "I", "castto": "I", "str": "S",
              "scalar": "S"}
OPERATORS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.BitAnd: "bitwise_and",
             ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor"}
COMPARES = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def helper_signatures(source_dir):
    """Name -> argument types of autograd's functions that formulas may call; read from their lines in _core.pxd."""
    found = {}
    declared = (Path(source_dir) / "_core.pxd").read_text()
    for kind, name, args in re.findall(r"^cdef (Tensor|double|tuple) (\w+)\(([^)]*)\)", declared, re.M):
        types = [C_TYPES.get(" ".join(a.split()[:-1])) for a in args.split(",")]
        if None not in types:
            found[name] = ({"Tensor": "T", "double": "D", "tuple": "P"}[kind], types)
    aliases = {"reshape": "op_reshape", "t": "op_t", "sum_to": "sum_to_dims", "as_strided": "op_as_strided",
               "conj": "conj_of", "real": "real_of_tensor"}
    return {name: (name, *sig) for name, sig in found.items()} | {
        name: (target, *found[target]) for name, target in aliases.items() if target in found}


class TensorReading:
    """Prints formulas of one row.

    Parameters
    ----------
    rows : dict
        The op table.
    helpers : dict
        What `helper_signatures` found.
    row : Row
    names : dict
        Name -> (text, type) of what the formula may read.
    input : int
        Number of the input whose gradient it is, for ``sizes``.
    """

    def __init__(self, rows, helpers, row, names, input):
        self.rows, self.helpers, self.row, self.names, self.input = rows, helpers, row, names, input
        self.uses_sizes = False

    def read(self, formula, wanted="T"):
        text, kind = self.expression(ast.parse(formula, mode="eval").body)
        if kind != wanted:
            self.row.fail(f"{formula!r} is not a {'tensor' if wanted == 'T' else 'tuple of tensors'}")
        return text

    def expression(self, node):
        number = constant(node)
        if number is not None:
            return (repr(number), "I") if isinstance(number, int) else (repr(float(number)), "D")
        match node:
            case ast.Constant(value=bool() as value):
                return str(value), "B"
            case ast.Name(id=name):
                if name not in self.names:
                    self.row.fail(f"unknown name {name!r}")
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                text, kind = self.expression(operand)
                return (f"op_neg({text})", "T") if kind == "T" else (f"(-{text})", kind)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return f"op_bitwise_not({self.expression(operand)[0]})", "T"
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(OPERATORS[type(op)], SYMBOLS.get(type(op)), left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.binary(COMPARES[type(op)], None, left, right)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self.call(name, args)
        return self.row.fail(f"{ast.unparse(node)!r} is not part of the grammar")     # raises

    def binary(self, op, symbol, left, right):
        (a, ka), (b, kb) = self.expression(left), self.expression(right)
        if ka != "T" and kb != "T":
            if symbol is None:
                self.row.fail(f"{op} between numbers")
            if symbol == "/":
                return f"(<double>{a} / <double>{b})", "D"
            return f"({a} {symbol} {b})", "I" if ka == kb == "I" else "D"
        if ka != "T":
            a = f"like_number({a}, g)"
        if kb != "T":
            b = f"like_number({b}, g)"
        return f"op_{op}({a}, {b})", "T"

    def call(self, name, args):
        if name == "sizes":
            if len(args) != 1 or not isinstance(args[0], ast.Name) or args[0].id != self.row.inputs[self.input].name:
                self.row.fail("sizes() takes the input whose gradient the formula is")
            self.uses_sizes = True
            return "&d_x", "Z"
        values = [self.expression(a) for a in args]
        if name in self.helpers:
            target, result, types = self.helpers[name]
        elif name in self.rows:
            row = self.rows[name]
            target, result = f"op_{name}", "T"
            types = ["T" if p.is_tensor else ARG_LETTER[p.type] for p in row.params]
            values += [default_of(p) for p in row.params[len(values):]]
        else:
            self.row.fail(f"unknown function {name!r}")
        if len(values) != len(types):
            self.row.fail(f"{name} takes {len(types)} arguments, got {len(values)}")
        texts = []
        for (text, kind), want in zip(values, types, strict=True):
            if want == "T" and kind != "T":
                text = f"like_number({text}, g)"
            elif want != kind and not (want in "DI" and kind in "DIB"):
                self.row.fail(f"{name}: {text} has type {kind}, wanted {want}")
            texts.append(text)
        return f"{target}({', '.join(texts)})", result


def default_of(p):
    if p.default is None:
        raise ValueError(f"argument {p.name} has no default")
    if p.type in ("dtype", "castto"):
        return "-1", "I"
    return p.default, ARG_LETTER[p.type]

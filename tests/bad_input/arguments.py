"""Arguments as pieces of program text, so that whatever fails prints as a program; plausible ones before ugly ones."""

from dataclasses import dataclass

from hypothesis import strategies as st

# Methods and functions that change their arguments without an underscore at the end of their name.
WRITING = {"__setitem__", "__setstate__", "vector_to_parameters", *(f"__i{o}__" for o in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"))}

# What every program begins with: the names that arguments are made of.
PREAMBLE = """\
import math
import numpy as np
import cygrad
import cygrad as torch

nan, inf = math.nan, math.inf
a = torch.tensor([[4.0, 0.5, 0.25], [0.5, 3.0, 1.0], [0.25, 1.0, 5.0]])
b = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0], [2.0, 0.25, 1.0]])
p = torch.tensor([[0.5, 1.5, 2.0], [1.0, -1.0, 0.5], [3.0, 2.5, 0.75]], dtype=torch.float64, requires_grad=True)
i = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 1, 0]])
endless = []
endless.append(endless)


class Turns:
    "Whatever is asked of it, it shrinks a tensor first: a check made before is worth nothing afterwards."

    def __init__(self, tensor, value):
        self.tensor, self.value = tensor, value

    def act(self, *args):
        self.tensor.untyped_storage().resize_(0) if self.value % 2 else self.tensor.resize_(0)
        return self.value

    __index__ = __int__ = act

    def __float__(self):
        return float(self.act())

    def __len__(self):
        return abs(self.act()) % 4

    def __getitem__(self, k):
        if k > 3:
            raise IndexError
        return self.act()


class Clears:
    "What is asked of it empties the list that it stands in."

    def __init__(self, items):
        self.items = items

    def __index__(self):
        self.items.clear()
        return 1

    def __float__(self):
        return float(self.__index__())


def clearing(*more):
    items = []
    items.extend([Clears(items), *more])
    return items


class Raises:
    "Whatever is asked of it, it raises."

    def fail(self, *args):
        raise ValueError("raised by an argument")

    __index__ = __int__ = __float__ = __len__ = __getitem__ = __iter__ = __bool__ = __complex__ = __array__ = fail
"""

TENSORS = (
    "a", "b", "p", "i", "a.t()", "a[0]", "b[:, 1]", "i[1]", "a > 1", "a[None]", "torch.tensor(2.0)", "torch.tensor(1)",
    "a.double()", "torch.ones(3)", "torch.arange(3)", "torch.ones(3, 3)[::2]", "b + 1j", "p * 2", "a.half()",
    "b.bfloat16()", "i.int()", "i.to(torch.uint8)", "a.double() * 1j", "a[1:]", "a[:, :2]", "i[0, 0]", "b.t()[1]",
    "a[0, 0]", "i.short()",
)
UGLY_TENSORS = (
    "torch.empty(0)", "torch.empty(0, 3)", "torch.empty(3, 0)", "torch.empty(2, 0, 3)",
    "torch.empty(0, dtype=torch.int64)", "a * nan", "a / 0", "-a / 0", "a * 1e38", "i - 5", "i + 2**40", "i * 2**61",
    "torch.full((3, 3), -2**63)", "-a", "torch.zeros(3, 3)", "torch.zeros(3, 3).long()", "torch.ones(1).expand(3, 3)",
    "p.expand(2, 3, 3)", "torch.arange(5.).as_strided((3, 3), (1, 1))", "torch.arange(9).as_strided((3, 3), (0, 2))",
    "torch.ones([1] * 64)", "torch.ones([1] * 63 + [3])", "torch.ones([1] * 62 + [3, 3])", "torch.ones([2] * 10)",
    "torch.empty(0, 2**31)", "torch.empty(2**40, 0)", "torch.empty(2**40, 0, 3)",
    "torch.empty(3, 0, 2**60)", "torch.ones(70, 50)", "torch.arange(5000)", "torch.ones(3, 3, dtype=torch.uint64)",
    "torch.ones(2, 3, 3, 3)", "i.to(torch.uint16)", "torch.full((3,), 2**63 - 1)", "torch.tensor(nan)",
    "torch.tensor(-1)", "torch.tensor(2**62)", "torch.tensor([nan, inf, -inf])", "torch.tensor([True, False, True])",
    "torch.tensor([0, 1])", "torch.ones(4)", "a.detach()", "a.untyped_storage()", "a.numpy()", "[a, b]", "None", "'a'",
    "3", "torch.float32", "np.ones(3)[::-1]", "torch.Tensor.__new__(torch.Tensor)", "torch.ones(2**16 + 3)",
    "torch.ones(1).expand(40000)",
)
INTS = ("0", "1", "-1", "2", "-2", "3")
UGLY_INTS = (
    "4", "-3", "-4", "5", "16", "63", "64", "-64", "65", "100", "1000", "2**15", "2**16", "2**31 - 1", "2**31",
    "-2**31", "2**32", "2**40", "2**62", "2**63 - 1", "-2**63", "2**63", "-2**63 - 1", "2**64 - 1", "2**64", "10**30",
    "-10**30", "True", "1.0", "1.5", "nan", "inf", "-inf", "1e300", "None", "'1'", "b'1'", "1j", "np.int64(-1)",
    "np.float32(2)", "torch.tensor(1)", "torch.tensor(2**40)", "torch.tensor(1.5)", "torch.tensor([1])", "[1]", "()",
    "Turns(a, 0)", "Turns(a, 1)", "Turns(b, 2)", "Raises()", "endless", "slice(1)", "...", "object()",
)
NUMBERS = ("1", "0.5", "2.0", "0", "-1", "-0.5", "True")
UGLY_NUMBERS = (
    "nan", "inf", "-inf", "1e300", "-1e300", "5e-324", "2**31", "2**63 - 1", "-2**63", "2**63", "2**64", "10**400",
    "-10**400", "1j", "complex(nan, inf)", "None", "'1'", "np.float64(nan)", "np.int8(3)", "torch.tensor(1.5)",
    "torch.tensor([1.0, 2.0])", "torch.tensor(1j)", "p[0, 0]", "[]", "[1.0]", "Turns(a, 0)", "Turns(b, 1)", "Raises()",
    "object()", "b''",
)
BOOLS = ("True", "False")
UGLY_BOOLS = (
    "None", "0", "2", "2**70", "nan", "''", "[]", "torch.tensor(True)", "torch.ones(3)", "np.bool_(True)", "Raises()",
)
DTYPES = ("torch.float32", "torch.float64", "torch.int64", "torch.complex64", "torch.bool", "torch.float16",
          "torch.uint8", "torch.bfloat16", "torch.complex128", "torch.int16", "torch.uint64", "None")
UGLY_DTYPES = (
    "float", "int", "bool", "complex", "'float32'", "'int63'", "np.float32", "np.dtype('f8')", "3", "str", "object()",
    "a", "torch.strided",
)
WORDS = (
    "'mean'", "'sum'", "'none'", "'linear'", "'nearest'", "'lower'", "'higher'", "'midpoint'", "'fro'", "'nuc'",
    "'ij'", "'xy'", "'L'", "'U'", "'floor'", "'trunc'", "'left'", "'right'", "'reduced'", "'complete'", "'r'",
    "'gelsd'", "'gelsy'", "'gelss'", "'gels'", "'gesvd'", "'prod'", "'amax'", "'amin'", "'add'", "'multiply'", "'cpu'",
    "'fan_in'", "'relu'", "'backward'", "'ortho'", "'full'", "'ii'", "'ij,jk'", "'ij->ji'", "'...i,i'", "'default'",
)
UGLY_WORDS = (
    "''", "'\\0'", "'\\udc80'", "'x' * 10**6", "'%s%n'", "b'sum'", "'ij,jk->ii'", "'i' * 70", "'->'", "',,,'",
    "'...'*3", "1", "None", "'cuda'", "'cpu:2**70'", "'Sum'", "object()", "str",
)
ANYTHING = (
    "clearing(1, 2)", "[clearing(1), [1, 2]]",
    "None", "1", "-1", "a", "b", "'x'", "()", "[]", "{}", "True", "1.5", "object()", "nan", "2**63", "[a, b]",
    "(1, 2)", "[1, [2, 3]]", "[[1, 2], [3]]", "endless", "slice(None)", "slice(0, 2**63, -1)", "slice('a', None)",
    "...", "b'abc'", "bytearray(8)", "np.ones(3)", "np.array(['a'])", "np.array([None])",
    "np.ones((2, 2), dtype='>f4')", "np.datetime64('now')", "memoryview(b'12345678')", "torch", "torch.Tensor",
    "torch.float32", "torch.Size([1])", "lambda *x: x[0]", "lambda: int('x')", "Turns(a, 1)", "Raises()",
    "iter([1, 2])", "range(3)", "range(2**62)", "set()", "{'a': a}", "int", "type", "NotImplemented", "(a, i)",
    "(i, None, ...)", "[True, False, True]", "a > 1", "(slice(1, None), [0, 1])", "(None,) * 70", "[0] * 300",
    "'x' * 1000", "[[[[]]]]", "torch.Generator()", "torch.device('cpu')", "complex(1, nan)",
    "__import__('decimal').Decimal(1)", "__import__('fractions').Fraction(1, 3)", "Exception()",
)
CALLS = (
    "lambda *x: x[0]", "lambda *x: (x[0] * 2).sum()", "torch.sin", "torch.sum", "lambda x: None", "lambda *x: x",
    "lambda: 1", "lambda *x: int('x')", "None", "1", "a", "torch.Tensor", "object()", "lambda x: x.resize_(0)",
    "lambda *x: torch.empty(0)",
)
SHAPES = (
    "(3, 3)", "3", "(3,)", "()", "(9,)", "(1, 3, 3)", "[3, 3]", "(-1,)", "(0,)", "(0, 1)", "(1, 0)", "(-1, -2)",
    "torch.Size([3, 3])",
)
UGLY_SHAPES = (
    "clearing(3)", "clearing(1, 1, 1)", "clearing(0, 2)",
    "(2**63,)", "(2**31, 2**31)", "(2**62, 4)", "(2**32, 2**32)", "(0, 2**63 - 1)", "(2**40, 0)", "(-1, -1)", "(-5,)",
    "(-2**63,)", "(3, -1, 0)", "(1,) * 64", "(1,) * 65", "(0,) * 64", "(2,) * 64", "[1] * 1000", "(1.5,)", "(None,)",
    "('3',)", "('a', 'b')", "(True, False)", "(nan,)", "((1, 2), 3)", "[[3]]", "(3, a)", "(torch.tensor(3), 3)",
    "torch.tensor([3, 3])", "(Turns(a, 1), 3)", "(3, Turns(b, 2))", "Turns(a, 3)", "(Raises(), 3)", "Raises()",
    "endless", "None", "'33'", "range(3)", "iter([3, 3])", "{3: 3}", "(0, 0)", "(1, 1)", "(2, 0, 1)", "(10**30,)",
    "2**62", "-2**63", "np.array([3, 3])", "(0, 1, 2, 3)", "(-3, 1)", "(2**30, 2**30, 2**30)", "(70000, 70000)",
    "2**63",
)
LISTS = (
    "[a, b]", "(a, b, a)", "[a]", "[i]", "(i[0], i[1])", "[p, p]", "[a, i]", "[]", "()", "a", "[a > 1]", "[i, None]",
    "[torch.ones(3)] * 2", "[b, b.t()]", "[torch.empty(0), a]",
)
UGLY_LISTS = (
    "clearing(a, b)", "[a, clearing(1, 1)]",
    "[a, None]", "[None, a]", "[1, 2]", "[a, 'x']", "(a, 3)", "[[a], b]", "endless", "None", "[a] * 300", "'ab'",
    "[torch.ones([1] * 64)] * 2", "iter([a, b])", "{'a': a}", "[i - 9, i]", "[i * 2**61]", "(None, None)",
    "Turns(a, 1)", "[a + 1j, i]", "[torch.empty(2**40, 0)] * 2", "[a, torch.ones(2, 2)]", "[a, a.numpy()]", "range(3)",
    "[torch.empty(0, 3), a]", "[a > 1, i]", "Raises()",
)
OUTS = (
    "None", "torch.empty(0)", "torch.empty(3, 3)", "a", "torch.zeros(3)", "a.t()", "torch.empty(0, dtype=torch.int64)",
    "(torch.empty(0), torch.empty(0, dtype=torch.int64))", "torch.empty(())", "torch.empty(0, dtype=torch.float64)",
)
UGLY_OUTS = (
    "a[1:]", "b[:, 0]", "p", "torch.ones(1).expand(3, 3)", "torch.arange(5.).as_strided((3, 3), (1, 1))", "i", "a > 1",
    "(a, a)", "(a, i)", "[a, b]", "(a, a.t())", "(a[0], a[0])", "1", "'out'", "()", "(None, None)", "(a, a, a)",
    "torch.empty(0, 3)", "torch.ones(6, 6)[::2, ::2]", "p * 2", "torch.empty(3, 3, dtype=torch.uint8)",
    "torch.empty([1] * 64)", "np.ones((3, 3))", "torch.empty(2**40, 0)", "a.view(9)[4:]", "endless",
)

# What a parameter is: by its name, else by words of its annotation, in this order.
BY_NAME = {
    "out": "out", "dtype": "dtype", "generator": "generator", "size": "shape", "sizes": "shape", "shape": "shape",
    "stride": "shape", "dim": "dim", "dims": "dim", "axis": "dim", "axes": "dim", "tensors": "list", "arrays": "list",
    "indices": "list", "operands": "list", "params": "list", "dim0": "int", "dim1": "int", "dim2": "int",
    "device": "device", "layout": "anything", "memory_format": "format", "input": "tensor", "other": "tensor",
    "x": "tensor", "x1": "tensor", "x2": "tensor", "self": "tensor", "tensor": "tensor", "key": "key",
    "index": "index", "args": "tensor", "equation": "word", "func": "call", "hook": "call", "function": "call",
    "callable": "call",
}
BY_WORD = (
    ("Sequence[Tensor]", "list"), ("tuple[Tensor", "list"), ("list[Tensor", "list"), ("Tensor", "tensor"),
    ("Array", "tensor"), ("Generator", "generator"), ("dtype", "dtype"), ("_Operand", "tensor"), ("Callable", "call"),
    ("_Shape", "shape"), ("Sequence[_int]", "dim"), ("Sequence[int]", "dim"), ("tuple[int", "dim"),
    ("float", "number"), ("_Number", "number"), ("int", "int"), ("bool", "bool"), ("str", "word"),
)
POOLS = {
    "tensor": (TENSORS, UGLY_TENSORS), "int": (INTS, UGLY_INTS), "number": (NUMBERS, UGLY_NUMBERS),
    "bool": (BOOLS, UGLY_BOOLS), "dtype": (DTYPES, UGLY_DTYPES), "word": (WORDS, UGLY_WORDS), "call": (CALLS, CALLS),
    "shape": (SHAPES, UGLY_SHAPES),
    "dim": ((*INTS, "(0, 1)", "(1,)", "()", "None", "[0]", "(-1, 0)"), UGLY_INTS + UGLY_SHAPES),
    "list": (LISTS, UGLY_LISTS), "out": (OUTS, UGLY_OUTS), "generator": (("None", "torch.Generator()"), ANYTHING),
    "device": (("None", "'cpu'"), UGLY_WORDS),
    "format": (("None", "torch.contiguous_format", "torch.preserve_format", "torch.channels_last"), ANYTHING),
    "index": (("i", "1", "i[0]", "0", "torch.arange(2)"), UGLY_TENSORS + UGLY_INTS),
    "key": (("0", "i", "a > 1", "(0, 1)", "slice(1)", "...", "None", "[0, 1]", "(slice(None), i[0])"),
            ANYTHING + UGLY_TENSORS + UGLY_INTS),
    "anything": (ANYTHING, ANYTHING),
}


def category(parameter):
    if parameter.name in BY_NAME:
        return BY_NAME[parameter.name]
    for word, found in BY_WORD:
        if word in parameter.annotation:
            return found
    return "anything"


def argument(draw, kind):
    plain, ugly = POOLS[kind]
    chance = draw(st.integers(0, 19))
    pool = plain if chance < 12 else ugly if chance < 18 else ANYTHING + UGLY_TENSORS + UGLY_INTS
    return draw(st.sampled_from(pool))


def arguments(draw, signature):
    """The text of one call's arguments."""
    texts, by_position = [], True
    for parameter in signature:
        if parameter.kind == "many":
            texts += [argument(draw, category(parameter)) for _ in range(draw(st.integers(0, 3)))]
            continue
        if not draw(st.integers(0, 19 if parameter.needed else 1)):
            by_position &= parameter.needed         # a missing one, the next ones by name
            continue
        text = argument(draw, category(parameter))
        if parameter.kind == "keyword" or not by_position:
            text = f"{parameter.name}={text}"
            by_position = False
        texts.append(text)
    if not draw(st.integers(0, 39)):
        texts.append(draw(st.sampled_from(("bogus=1", "**{'': 1}", "**{'out': a}", "input=a"))))
    return ", ".join(texts)


@dataclass(frozen=True)
class Program:
    """A call as text, in parts."""

    path: str
    receiver: str       # "" for a function
    inside: str
    writes: bool        # whether it may change its arguments

    def __str__(self):
        return f"({self.receiver}).{self.name}({self.inside})" if self.receiver else f"{self.path}({self.inside})"

    @property
    def name(self):
        return self.path.rpartition(".")[2]

    @property
    def acts_by_itself(self):
        """Whether an argument changes tensors whatever the call does."""
        return "Turns" in self.inside or "resize_" in self.inside

    def evaluate(self, names):
        """What is called, and with what."""
        args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({self.inside})", names)
        owner = eval(self.receiver or self.path.rpartition(".")[0], names)
        return getattr(owner, self.name), args, kwargs


def writes(target, inside):
    if target.name in WRITING or (target.name.endswith("_") and not target.name.endswith("__")) or "out=" in inside:
        return True
    parameters = [p for signature in target.signatures for p in signature]
    # max_norm: embeddings scale rows that are longer down where they lie
    return any(p.name in ("inplace", "max_norm") or (p.name == "out" and p.kind == "positional") for p in parameters)


@st.composite
def programs(draw, target):
    """A call of the target; a method of Tensor is called as a function, since not all that it is given is a tensor."""
    if target.signatures:
        inside = arguments(draw, draw(st.sampled_from(target.signatures)))
    else:
        kinds = draw(st.lists(st.sampled_from(("tensor", "int", "shape", "anything")), max_size=3))
        inside = ", ".join(argument(draw, kind) for kind in kinds)
    if target.receivers is None:
        inside = ", ".join(x for x in (argument(draw, "tensor"), inside) if x)
    receiver = draw(st.sampled_from(target.receivers)) if target.receivers else ""
    return Program(target.path, receiver, inside, writes(target, inside))

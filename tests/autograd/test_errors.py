"""Bad input: PyTorch's type of exception, a message that names what was given and what is wanted, and nothing
changed.
"""
import re
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

LONG = frozenset({"long", "int64"})


class Case(NamedTuple):
    """One wrong call.

    ``says`` lists what the message must name: a number, a shape (as a tuple), a text, or one of several texts (as a
    frozenset). ``also`` lists what PyTorch's own message leaves out; ``torch_changes`` marks a call that leaves its
    operands half changed in PyTorch, and ``needs`` names a package beyond autograd.
    """

    what: str
    error: type
    call: Any
    says: tuple = ()
    also: tuple = ()
    torch_changes: bool = False
    needs: str = ""


def operands(torch):
    """Well-formed tensors for the wrong calls to work on."""
    return SimpleNamespace(
        torch=torch,
        a=torch.arange(12, dtype=torch.float32).view(3, 4),
        v=torch.tensor([1.0, 2.0, 3.0]),
        i=torch.tensor([0, 1, 2]),
        mask=torch.tensor([True, False, True]),
        batch=torch.ones(2, 3, 4),
        w=torch.tensor([1.0, 2.0, 3.0], requires_grad=True),
        none=torch.zeros(2, 0),
    )


def state(tensors):
    """All that a failed call must leave alone."""
    return {
        name: (t.tolist(), t.shape, t.stride(), t.dtype, t._version, t.requires_grad, t.grad_fn, t.grad)
        for name, t in vars(tensors).items() if name != "torch"
    }


def mentions(message, wanted):
    """Whether the message names a number, a shape, a text or one of several texts."""
    if isinstance(wanted, frozenset):
        return any(mentions(message, one) for one in wanted)
    if isinstance(wanted, tuple):
        numbers = r"(?:, ?|x)".join(str(n) for n in wanted)
        return re.search(rf"[\[(]{numbers},?[\])]", message) is not None
    if isinstance(wanted, int):
        return re.search(rf"(?<![\d.-]){wanted}(?!\d|\.\d)", message) is not None
    return wanted.lower() in message.lower()


CREATION = [
    Case("zeros with a negative size", RuntimeError, lambda t: t.torch.zeros(-1), ("negative",), (-1,)),
    Case("zeros with a negative size among others", RuntimeError, lambda t: t.torch.zeros(2, -3), ("negative",), (-3,)),
    Case("empty with a negative size", RuntimeError, lambda t: t.torch.empty(-2, 3), ("negative", -2)),
    Case("randn with a negative size", RuntimeError, lambda t: t.torch.randn(-1), ("negative", -1)),
    Case("new_zeros with a negative size", RuntimeError, lambda t: t.a.new_zeros(-1), ("negative", -1)),
    Case("a size that is not whole", TypeError, lambda t: t.torch.zeros(2.5), ("size", "float")),
    Case("a size that is no number", TypeError, lambda t: t.torch.ones((2, "a")), ("size", "str")),
    Case("a fill value that is no number", TypeError, lambda t: t.torch.full((2,), "a"), ("fill_value", "str")),
    Case("a dtype that is none", TypeError, lambda t: t.torch.zeros(2, dtype="x"), ("dtype", "str")),
    Case("an unknown device", RuntimeError, lambda t: t.torch.zeros(2, device="abc"), ("abc", "cpu")),
    Case("like what is no tensor", TypeError, lambda t: t.torch.zeros_like(3), ("input", "Tensor", "int")),
    Case("arange with step zero", RuntimeError, lambda t: t.torch.arange(0, 5, 0), ("step", "zero")),
    Case("arange upwards to a lower end", RuntimeError, lambda t: t.torch.arange(5, 0, 1), ("step",), (5, 0, 1)),
    Case("arange downwards to a higher end", RuntimeError, lambda t: t.torch.arange(0, 2, -1), ("step",), (0, 2, -1)),
    Case("arange without end", RuntimeError, lambda t: t.torch.arange(0, float("inf")), ("inf", 0)),
    Case("arange to nan", RuntimeError, lambda t: t.torch.arange(float("nan")), ("nan",)),
    Case("linspace with negative steps", RuntimeError,
         lambda t: t.torch.linspace(0, 1, -1), ("steps", "negative"), (-1,)),
    Case("eye with a negative size", RuntimeError, lambda t: t.torch.eye(-1), (-1,)),
    Case("randperm of a negative number", RuntimeError, lambda t: t.torch.randperm(-1), (-1,)),
    Case("randint with an empty range", RuntimeError, lambda t: t.torch.randint(5, 2, (2,)), (5, 2)),
    Case("a seed that is no number", ValueError, lambda t: t.torch.manual_seed("a"), ("a",)),
    Case("a ragged list", ValueError, lambda t: t.torch.tensor([[1, 2], [3]]), (2, 1), ("dim",)),
    Case("a ragged list, deeper", ValueError, lambda t: t.torch.tensor([[[1], [2]], [[3], [4, 5]]]), (1, 2)),
    Case("a ragged list through as_tensor", ValueError, lambda t: t.torch.as_tensor([[1], [2, 3]]), (1, 2)),
    Case("a list of texts", ValueError, lambda t: t.torch.tensor(["a"]), ("str",)),
    Case("a text", TypeError, lambda t: t.torch.tensor("abc"), ("str",)),
    Case("a list of None", RuntimeError, lambda t: t.torch.tensor([None]), ("NoneType",)),
    Case("any object", RuntimeError, lambda t: t.torch.tensor(object()), ("object",)),
    Case("no data", TypeError, lambda t: t.torch.tensor(), ("data",)),
    Case("a number out of range", RuntimeError,
         lambda t: t.torch.tensor(300, dtype=t.torch.uint8), ("uint8", "overflow"), (300,)),
    Case("integers that require a gradient", RuntimeError, lambda t: t.torch.tensor([1, 2], requires_grad=True),
         ("floating point",), (LONG,)),
    Case("integer zeros that require a gradient", RuntimeError,
         lambda t: t.torch.zeros(2, dtype=t.torch.int64, requires_grad=True), ("floating point",), (LONG,)),
    Case("from_numpy of a list", TypeError, lambda t: t.torch.from_numpy([1, 2]), ("ndarray", "list")),
    Case("from_numpy of texts", TypeError, lambda t: t.torch.from_numpy(np.array(["a"])), ("str", "float32")),
    Case("from_numpy of objects", TypeError, lambda t: t.torch.from_numpy(np.array([None])), ("object", "float32")),
    Case("from_numpy with negative strides", ValueError, lambda t: t.torch.from_numpy(np.arange(4)[::-1]),
         ("negative", "stride", "copy")),
    Case("from_numpy of foreign byte order", ValueError,
         lambda t: t.torch.from_numpy(np.zeros(2, dtype=">f4")), ("byte order",)),
]

SHAPES = [
    Case("view to another size", RuntimeError, lambda t: t.a.view(5), ((5,), 12)),
    Case("view with two unknown sizes", RuntimeError, lambda t: t.a.view(-1, -1), ("inferred",)),
    Case("view with an unknown size that does not divide", RuntimeError, lambda t: t.a.view(5, -1), ((5, -1), 12)),
    Case("view with a negative size", RuntimeError, lambda t: t.a.view(-2, 6), (-2, (-2, 6))),
    Case("view with an ambiguous size", RuntimeError, lambda t: t.none.view(0, -1), ((0, -1), "ambiguous")),
    Case("view of a transposed tensor", RuntimeError,
         lambda t: t.a.t().view(12), ("stride", "reshape"), ((4, 3), (1, 4), (12,))),
    Case("view of a sliced tensor", RuntimeError,
         lambda t: t.a[:, :2].view(-1), ("stride", "reshape"), ((3, 2), (4, 1))),
    Case("reshape to another size", RuntimeError, lambda t: t.a.reshape(5), ((5,), 12)),
    Case("reshape with an unknown size that does not divide", RuntimeError,
         lambda t: t.a.reshape(7, -1), ((7, -1), 12)),
    Case("t of three dimensions", RuntimeError, lambda t: t.batch.t(), (2, "3")),
    Case("transpose of a missing axis", IndexError, lambda t: t.a.transpose(0, 2), (-2, 1, 2)),
    Case("transpose of a missing negative axis", IndexError, lambda t: t.a.transpose(-3, 0), (-2, 1, -3)),
    Case("permute with too few axes", RuntimeError, lambda t: t.a.permute(0), (2, 1)),
    Case("permute with an axis twice", RuntimeError, lambda t: t.a.permute(0, 0), ("dup",), ((0, 0),)),
    Case("permute with a missing axis", IndexError, lambda t: t.a.permute(0, 2), (-2, 1, 2)),
    Case("movedim of a missing axis", IndexError, lambda t: t.a.movedim(0, 5), (-2, 1, 5)),
    Case("expand of an axis longer than one", RuntimeError, lambda t: t.a.expand(3, 5), (5, 4, (3, 5), (3, 4))),
    Case("expand to fewer dimensions", RuntimeError, lambda t: t.a.expand(4), ((3, 4), (4,))),
    Case("expand with an unknown leading size", RuntimeError, lambda t: t.a.expand(-1, 3, 4), (-1, 0)),
    Case("squeeze of a missing axis", IndexError, lambda t: t.a.squeeze(2), (-2, 1, 2)),
    Case("unsqueeze too far", IndexError, lambda t: t.a.unsqueeze(3), (-3, 2, 3)),
    Case("select of a missing axis", IndexError, lambda t: t.a.select(2, 0), (-2, 1, 2)),
    Case("select of a missing row", IndexError, lambda t: t.a.select(0, 3), (3, 0, (3, 4))),
    Case("narrow beyond the end", RuntimeError, lambda t: t.a.narrow(0, 2, 2), (2, 3)),
    Case("narrow to a negative length", RuntimeError, lambda t: t.a.narrow(1, 0, -1), ("length", "negative"), (-1,)),
    Case("narrow before the start", IndexError, lambda t: t.a.narrow(0, -4, 1), (-3, 3, -4)),
    Case("unbind of a missing axis", IndexError, lambda t: t.a.unbind(2), (-2, 1, 2)),
    Case("split into pieces of nothing", RuntimeError, lambda t: t.a.split(0), ("split_size", 0, 3)),
    Case("split into negative pieces", RuntimeError, lambda t: t.a.split(-1), ("split_size", -1)),
    Case("split that leaves a rest", RuntimeError, lambda t: t.a.split([1, 1]), (3, (1, 1))),
    Case("chunk into no pieces", RuntimeError, lambda t: t.a.chunk(0), ("chunk", 0)),
    Case("diagonal of one axis", RuntimeError, lambda t: t.a.diagonal(0, 0, 0), (0,)),
    Case("diagonal of a missing axis", IndexError, lambda t: t.i.diagonal(), (-1, 0, 1)),
    Case("as_strided beyond the storage", RuntimeError, lambda t: t.a.as_strided((20,), (1,)), ((20,), (1,), 48)),
    Case("as_strided with a missing stride", RuntimeError,
         lambda t: t.a.as_strided((2, 2), (1,)), ("stride",), ((2, 2), (1,))),
    Case("as_strided with a negative stride", RuntimeError, lambda t: t.a.as_strided((2,), (-1,)), ("negative", (-1,))),
    Case("as_strided with a negative offset", RuntimeError, lambda t: t.a.as_strided((2,), (1,), -1), ("offset", -1)),
    Case("flatten backwards", RuntimeError, lambda t: t.a.flatten(1, 0), ("start_dim", "end_dim"), (1, 0)),
    Case("flatten of a missing axis", IndexError, lambda t: t.a.flatten(0, 2), (-2, 1, 2)),
    Case("size of a missing axis", IndexError, lambda t: t.a.size(2), (-2, 1, 2)),
    Case("stride of a missing axis", IndexError, lambda t: t.a.stride(2), (-2, 1, 2)),
    Case("assigning a shape", AttributeError, lambda t: setattr(t.a, "shape", (12,)), ("shape",)),
]

INDEXING = [
    Case("an index out of range", IndexError, lambda t: t.a[3], (3, 0)),
    Case("a negative index out of range", IndexError, lambda t: t.a[-4], (-4, 0, 3)),
    Case("a second index out of range", IndexError, lambda t: t.a[0, 4], (4, 1)),
    Case("too many indices", IndexError, lambda t: t.a[0, 0, 0], ("too many", 2), (3,)),
    Case("an index into nothing", IndexError, lambda t: t.torch.tensor(1.0)[0], ("0-dim", "item")),
    Case("a slice of nothing", IndexError, lambda t: t.torch.tensor(1.0)[:], ("slice", "0-dim")),
    Case("a backward slice", ValueError, lambda t: t.a[::-1], ("step",), (-1,)),
    Case("a slice with step zero", ValueError, lambda t: t.a[::0], ("step", "zero")),
    Case("a fractional index", IndexError, lambda t: t.a[1.5], ("integers", "float")),
    Case("an index tensor out of range", IndexError, lambda t: t.a[t.torch.tensor([0, 3])], (3, 0)),
    Case("a negative index tensor out of range", IndexError, lambda t: t.a[t.torch.tensor([0, -4])], (-4, 0, 3)),
    Case("a list of indices out of range", IndexError, lambda t: t.a[[0, 5]], (5, 0, 3)),
    Case("a fractional index tensor", IndexError, lambda t: t.a[t.v], (LONG, "bool"), ("float",)),
    Case("a mask of another length", IndexError, lambda t: t.a[t.torch.tensor([True, False])], ("mask", (2,), (3, 4))),
    Case("a mask of another shape", IndexError, lambda t: t.a[t.torch.ones(3, 5).bool()], ("mask", (3, 5), (3, 4))),
    Case("assigning out of range", IndexError, lambda t: t.a.__setitem__(3, 0.0), (3, 0)),
    Case("assigning out of range in the second axis", IndexError, lambda t: t.a.__setitem__((0, 4), 0.0), (4, 1)),
    Case("assigning through an index tensor out of range", IndexError,
         lambda t: t.a.__setitem__(t.torch.tensor([0, 5]), 0.0), (5, 0, 3), torch_changes=True),
    Case("assigning too long a row", RuntimeError, lambda t: t.a.__setitem__(0, t.torch.ones(5)), (4, 5, (4,), (5,))),
    Case("assigning too many rows", RuntimeError, lambda t: t.a.__setitem__(slice(0, 2), t.torch.ones(3, 4)),
         (2, 3, (2, 4), (3, 4))),
    Case("assigning too many masked values", RuntimeError,
         lambda t: t.a.__setitem__(t.a > 5, t.torch.ones(2)), ((2,), (6,))),
    Case("assigning too many indexed rows", RuntimeError,
         lambda t: t.a.__setitem__(t.torch.tensor([0, 1]), t.torch.ones(3, 4)), ((3, 4), (2, 4))),
    Case("assigning a text", TypeError, lambda t: t.a.__setitem__(0, "x"), ("str",)),
    Case("index_select out of range", IndexError,
         lambda t: t.a.index_select(0, t.torch.tensor([0, 3])), ("out of range",), (3,)),
    Case("index_select of a missing axis", IndexError, lambda t: t.a.index_select(2, t.i), (-2, 1, 2)),
    Case("index_select by a matrix", IndexError,
         lambda t: t.a.index_select(0, t.torch.tensor([[1]])), ("vector",), ((1, 1),)),
    Case("index_select by fractions", RuntimeError, lambda t: t.a.index_select(0, t.v), ("int64",), ("float",)),
    Case("gather out of range", RuntimeError, lambda t: t.a.gather(0, t.torch.tensor([[5, 0, 0, 0]])), (5, 0, 3)),
    Case("gather by another number of dimensions", RuntimeError, lambda t: t.a.gather(0, t.i), ("dimensions",), (1, 2)),
    Case("gather by fractions", RuntimeError, lambda t: t.a.gather(1, t.torch.ones(3, 1)), ("int64",), ("float",)),
    Case("gather by too wide an index", RuntimeError, lambda t: t.a.gather(0, t.torch.zeros(1, 5, dtype=t.torch.int64)),
         ((1, 5), (3, 4))),
]

ELEMENTWISE = [
    Case("add of shapes that do not match", RuntimeError, lambda t: t.a + t.torch.ones(5), (4, 5), ((3, 4), (5,))),
    Case("add of shapes that do not match in the first axis", RuntimeError, lambda t: t.a + t.torch.ones(2, 4),
         (3, 2, 0), ((3, 4), (2, 4))),
    Case("mul of shapes that do not match", RuntimeError,
         lambda t: t.a * t.torch.ones(3, 1, 5), (4, 5, 2), ((3, 1, 5),)),
    Case("maximum of shapes that do not match", RuntimeError, lambda t: t.torch.maximum(t.a, t.torch.ones(5)), (4, 5)),
    Case("comparison of shapes that do not match", RuntimeError, lambda t: t.a == t.torch.ones(5), (4, 5)),
    Case("add_ of a longer tensor", RuntimeError, lambda t: t.v.add_(t.torch.ones(4)), (3, 4)),
    Case("add_ that would grow the tensor", RuntimeError, lambda t: t.v.add_(t.a[:, :3]), ((3,), (3, 3))),
    Case("copy_ of a longer tensor", RuntimeError, lambda t: t.v.copy_(t.torch.ones(4)), (3, 4)),
    Case("add of a text", TypeError, lambda t: t.torch.add(t.a, "x"), ("other", "str")),
    Case("plus a text", TypeError, lambda t: t.a + "x", ("+", "Tensor", "str")),
    Case("plus None", TypeError, lambda t: t.a + None, ("+", "Tensor", "NoneType")),
    Case("plus a dictionary", TypeError, lambda t: t.a + {}, ("+", "Tensor", "dict")),
    Case("exp of a text", TypeError, lambda t: t.torch.exp("x"), ("exp", "input", "Tensor", "str")),
    Case("exp of a number", TypeError, lambda t: t.torch.exp(3.0), ("exp", "input", "Tensor", "float")),
    Case("exp of nothing", TypeError, lambda t: t.torch.exp(), ("exp", "input")),
    Case("exp of two tensors", TypeError, lambda t: t.torch.exp(t.a, t.a), ("exp", 1, 2)),
    Case("a method with an argument too many", TypeError, lambda t: t.a.exp(1), ("exp", 1)),
    Case("where by numbers", RuntimeError, lambda t: t.torch.where(t.a, t.a, t.a), ("condition", "bool", "float")),
    Case("where of shapes that do not match", RuntimeError,
         lambda t: t.torch.where(t.mask, t.torch.ones(4), t.v), (3, 4)),
    Case("masked_fill by numbers", RuntimeError, lambda t: t.a.masked_fill(t.a, 1.0), ("bool", "float")),
    Case("masked_fill by a mask that does not match", RuntimeError, lambda t: t.a.masked_fill(t.mask, 1.0), (3, 4)),
    Case("masked_fill with several values", RuntimeError, lambda t: t.v.masked_fill(t.mask, t.v), ("value", 1)),
    Case("clamp without bounds", RuntimeError, lambda t: t.a.clamp(), ("min", "max")),
    Case("minus between masks", RuntimeError, lambda t: t.mask - t.mask, ("bool", "logical_xor")),
    Case("negative of a mask", RuntimeError, lambda t: -t.mask, ("bool", "logical_not")),
    Case("bitwise and of floats", NotImplementedError, lambda t: t.a & t.a, ("bitwise_and", "float")),
    Case("inverting floats", TypeError, lambda t: ~t.a, ("integer", "bool"), ("float",)),
    Case("integer division by zero", RuntimeError, lambda t: t.i // 0, ("zero",)),
    Case("integer remainder by a zero tensor", RuntimeError, lambda t: t.i % t.torch.zeros_like(t.i), ("zero",)),
    Case("integers to a negative power", RuntimeError, lambda t: t.i ** -1, ("negative", "power"), (-1,)),
    Case("a fractional alpha for integers", RuntimeError, lambda t: t.i.add(t.i, alpha=1.5), ("alpha",), ("1.5",)),
    Case("an unknown rounding mode", RuntimeError,
         lambda t: t.a.div(2, rounding_mode="up"), ("rounding_mode", "trunc", "floor", "up")),
    Case("a fraction into integers", RuntimeError, lambda t: t.i.add_(1.5), ("float", LONG)),
    Case("true division of integers in place", RuntimeError, lambda t: t.i.div_(2), ("float", LONG)),
    Case("exp_ of integers", RuntimeError, lambda t: t.i.exp_(), ("float", LONG)),
    Case("fill_ with a text", TypeError, lambda t: t.v.fill_("x"), ("fill_", "str")),
    Case("fill_ with several values", RuntimeError, lambda t: t.v.fill_(t.torch.ones(2)), ("fill_", 1)),
    Case("uniform_ over a reversed range", RuntimeError, lambda t: t.v.uniform_(2, 1), (2, 1)),
    Case("normal_ with a negative width", RuntimeError, lambda t: t.v.normal_(0, -1), ("std", -1)),
]

REDUCTIONS = [
    *(Case(f"{name} over a missing axis", IndexError, lambda t, name=name: getattr(t.a, name)(2), (-2, 1, 2))
      for name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "any", "all", "std", "var",
                   "logsumexp", "softmax", "log_softmax")),
    Case("sum over a missing negative axis", IndexError, lambda t: t.a.sum(-3), (-2, 1, -3)),
    Case("sum over an axis twice", RuntimeError, lambda t: t.a.sum((0, 0)), (0, "multiple times")),
    Case("sum over a text", TypeError, lambda t: t.a.sum("x"), ("sum", "str")),
    Case("norm over a missing axis", IndexError, lambda t: t.a.norm(dim=2), (-2, 1, 2)),
    Case("mean of integers", RuntimeError, lambda t: t.i.mean(), ("mean", "floating point", LONG)),
    Case("mean of a mask", RuntimeError, lambda t: t.mask.mean(), ("mean", "floating point", "bool")),
    Case("std of integers", RuntimeError, lambda t: t.i.std(), ("std", "floating point"), (LONG,)),
    Case("norm of integers", RuntimeError, lambda t: t.i.norm(), ("floating point", LONG)),
    Case("largest of nothing", RuntimeError, lambda t: t.none.max(), ("max", "dim")),
    Case("place of the largest of nothing", IndexError, lambda t: t.none.argmax(), ("argmax", "dim")),
    Case("largest along an empty axis", IndexError, lambda t: t.none.amax(1), ("amax", 1, "zero"), ((2, 0),)),
    Case("max along an empty axis", IndexError, lambda t: t.none.max(1), ("max", 1, "zero")),
    Case("softmax without an axis", TypeError, lambda t: t.a.softmax(), ("dim",)),
    Case("softmax of integers", NotImplementedError, lambda t: t.i.softmax(0), ("softmax", LONG)),
]

LINEAR_ALGEBRA = [
    Case("product of matrices that do not fit", RuntimeError, lambda t: t.a @ t.a, (frozenset({"3x4", "3, 4"}),)),
    Case("mm of matrices that do not fit", RuntimeError, lambda t: t.a.mm(t.torch.ones(5, 2)),
         (frozenset({"3x4", "3, 4"}), frozenset({"5x2", "5, 2"}))),
    Case("mm with a vector", RuntimeError, lambda t: t.a.mm(t.v), ("mat",), ((3,),)),
    Case("product with a single number", RuntimeError,
         lambda t: t.a.matmul(t.torch.tensor(1.0)), ("matmul", "1"), ("0",)),
    Case("product with a Python number", TypeError, lambda t: t.a @ 2, ("@", "int")),
    Case("product of different types", RuntimeError,
         lambda t: t.a @ t.a.t().double(), ("dtype", "float", frozenset({"double", "float64"}))),
    Case("dot of different lengths", RuntimeError, lambda t: t.v.dot(t.torch.ones(4)), (3, 4)),
    Case("dot with a matrix", RuntimeError, lambda t: t.v.dot(t.a), ("1D", "2D")),
    Case("bmm of matrices that do not fit", RuntimeError, lambda t: t.batch.bmm(t.batch), ((2, 4), (2, 3))),
    Case("bmm with a matrix", RuntimeError, lambda t: t.batch.bmm(t.a), ("3D",), ((3, 4),)),
    Case("batches that do not match", RuntimeError, lambda t: t.batch @ t.torch.ones(5, 4, 2), (2, 5)),
    Case("addmm of an addend that does not fit", RuntimeError, lambda t: t.torch.addmm(t.torch.ones(5), t.a, t.a.t()),
         ((3, 3), (5,))),
    Case("cat of nothing", ValueError, lambda t: t.torch.cat([]), ("non-empty",)),
    Case("cat of shapes that do not match", RuntimeError,
         lambda t: t.torch.cat([t.a, t.torch.ones(2, 5)]), (0, 4, 5, 1)),
    Case("cat of different dimensions", RuntimeError, lambda t: t.torch.cat([t.a, t.v]), (2, 1)),
    Case("cat along a missing axis", IndexError, lambda t: t.torch.cat([t.a, t.a], 2), (-2, 1, 2)),
    Case("cat of a number", TypeError, lambda t: t.torch.cat([t.a, 3]), ("Tensor", 1, "int")),
    Case("cat of a tensor", TypeError, lambda t: t.torch.cat(t.a), ("tuple of Tensors", "Tensor")),
    Case("cat of zero-dimensional tensors", RuntimeError,
         lambda t: t.torch.cat([t.torch.tensor(1.0)]), ("zero-dimensional", 0)),
    Case("stack of nothing", RuntimeError, lambda t: t.torch.stack([]), ("non-empty",)),
    Case("stack of different shapes", RuntimeError, lambda t: t.torch.stack([t.a, t.v]), ((3, 4), (3,), 1)),
    Case("stack along a missing axis", IndexError, lambda t: t.torch.stack([t.a, t.a], 3), (-3, 2, 3)),
    Case("a target out of range", IndexError,
         lambda t: t.torch.nn.functional.cross_entropy(t.a, t.torch.tensor([0, 1, 4])), (4,), needs="nn"),
    Case("too few targets", ValueError,
         lambda t: t.torch.nn.functional.cross_entropy(t.a, t.torch.tensor([0, 1])), (3, 2), needs="nn"),
]

CONVERSIONS = [
    Case("item of several numbers", RuntimeError, lambda t: t.a.item(), (12,)),
    Case("item of nothing", RuntimeError, lambda t: t.none.item(), (0,)),
    Case("float of several numbers", ValueError, lambda t: float(t.a), ("one element",), (12,)),
    Case("int of several numbers", ValueError, lambda t: int(t.v), ("one element",), (3,)),
    Case("truth of several numbers", RuntimeError, lambda t: bool(t.v), ("more than one value", "ambiguous")),
    Case("truth of nothing", RuntimeError, lambda t: bool(t.none), ("no values", "ambiguous")),
    Case("length of a single number", TypeError, lambda t: len(t.torch.tensor(1.0)), ("0-d",)),
    Case("iteration over a single number", TypeError, lambda t: iter(t.torch.tensor(1.0)), ("0-d",)),
    Case("a float as an index", TypeError, lambda t: [0][t.torch.tensor(0.5)], ("integer",)),
    Case("numpy() with a history to lose", RuntimeError, lambda t: t.w.numpy(), ("requires grad", "detach()")),
    Case("an array with a history to lose", RuntimeError, lambda t: np.asarray(t.w * 2), ("requires grad", "detach()")),
    Case("conversion to an unknown device", RuntimeError, lambda t: t.a.to("x"), ("x", "cpu")),
    Case("an unknown attribute", AttributeError, lambda t: t.a.foo, ("Tensor", "foo")),
    Case("an unknown function", AttributeError, lambda t: t.torch.foo, ("foo",)),
]

AUTOGRAD = [
    Case("backward without a graph", RuntimeError, lambda t: t.v.sum().backward(), ("does not require grad",)),
    Case("backward of a comparison", RuntimeError, lambda t: (t.w > 0).sum().backward(), ("does not require grad",)),
    Case("backward of a place", RuntimeError, lambda t: t.w.argmax().backward(), ("does not require grad",)),
    Case("backward of several numbers", RuntimeError, lambda t: (t.w * 2).backward(), ("scalar",), ((3,),)),
    Case("backward of a leaf of several numbers", RuntimeError, lambda t: t.w.backward(), ("scalar",), ((3,),)),
    Case("a gradient of another length", RuntimeError, lambda t: (t.w * 2).backward(t.torch.ones(4)), ((4,), (3,))),
    Case("a gradient of another shape", RuntimeError, lambda t: t.w.sum().backward(t.torch.ones(2)), ((2,), ())),
    Case("too few gradients", RuntimeError,
         lambda t: t.torch.autograd.backward([t.w.sum(), t.w.sum()], [None]), (2, 1)),
    Case("a gradient that is a number", TypeError, lambda t: (t.w * 2).backward([1, 1, 1]), ("Tensor", "int")),
    Case("grad of several numbers", RuntimeError, lambda t: t.torch.autograd.grad(t.w * 2, t.w), ("scalar",), ((3,),)),
    Case("grad with an incoming gradient of another length", RuntimeError,
         lambda t: t.torch.autograd.grad(t.w * 2, t.w, grad_outputs=t.torch.ones(2)), ((2,), (3,))),
    Case("grad for an input without a gradient", RuntimeError, lambda t: t.torch.autograd.grad(t.w.sum(), t.v),
         ("does not require grad",)),
    Case("grad for an unused input", RuntimeError,
         lambda t: t.torch.autograd.grad(t.w.sum(), t.torch.ones(3, requires_grad=True)), (0, "allow_unused")),
    Case("grad of an output without a graph", RuntimeError,
         lambda t: t.torch.autograd.grad(t.v.sum(), t.w), ("does not require grad",)),
    Case("grad for nothing", RuntimeError, lambda t: t.torch.autograd.grad(t.w.sum(), []), ("inputs", "empty")),
    Case("assigning a gradient of another shape", RuntimeError,
         lambda t: setattr(t.w, "grad", t.torch.ones(4)), ((4,), (3,))),
    Case("assigning a gradient of another type", RuntimeError, lambda t: setattr(t.w, "grad", t.v.double()),
         (frozenset({"double", "float64"}), "float")),
    Case("assigning a number as gradient", TypeError, lambda t: setattr(t.w, "grad", 3), ("Tensor", "int")),
    Case("assigning a tensor as its own gradient", RuntimeError, lambda t: setattr(t.w, "grad", t.w), ("own",)),
    Case("writing the history", AttributeError, lambda t: setattr(t.w, "grad_fn", None), ("grad_fn",)),
    Case("requires_grad of integers", RuntimeError, lambda t: t.i.requires_grad_(), ("floating point",), (LONG,)),
    Case("requires_grad = True of integers", RuntimeError,
         lambda t: setattr(t.i, "requires_grad", True), ("floating point",), (LONG,)),
    Case("requires_grad of a result", RuntimeError, lambda t: (t.w * 2).requires_grad_(False), ("leaf", "detach()")),
    Case("requires_grad that is no bool", RuntimeError,
         lambda t: setattr(t.w, "requires_grad", "yes"), ("bool",), ("str",)),
    Case("a hook where no gradient comes", RuntimeError, lambda t: t.v.register_hook(print), ("require",)),
    Case("retain_grad where no gradient comes", RuntimeError, lambda t: t.v.retain_grad(), ("requires_grad",)),
    Case("a mode that is no bool", TypeError, lambda t: t.torch.set_grad_enabled("x"), ("bool", "str")),
    Case("writing to a leaf", RuntimeError, lambda t: t.w.add_(1), ("leaf", "in-place")),
    Case("writing to a view of a leaf", RuntimeError, lambda t: t.w[0].add_(1), ("view of a leaf", "in-place")),
    Case("a subclass of something else", TypeError,
         lambda t: t.torch.Tensor._make_subclass(int, t.v), ("Tensor",), ("int",)),
]

CASES = [*CREATION, *SHAPES, *INDEXING, *ELEMENTWISE, *REDUCTIONS, *LINEAR_ALGEBRA, *CONVERSIONS, *AUTOGRAD]


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_bad_input(torch, backend, case):
    """The exception has PyTorch's type, its message names the facts, and every tensor is as it was."""
    if case.needs:
        pytest.importorskip(f"{backend}.{case.needs}", exc_type=ImportError)
    tensors = operands(torch)
    before = state(tensors)
    with pytest.raises(case.error) as caught:
        case.call(tensors)
    assert type(caught.value) is case.error
    message = str(caught.value)
    wanted = case.says if backend == "torch" else case.says + case.also
    missing = [fact for fact in wanted if not mentions(message, fact)]
    assert not missing, f"the message {message!r} does not name {missing}"
    assert state(tensors) == before or (backend == "torch" and case.torch_changes)
    assert torch.is_grad_enabled()


def test_case_names_are_unique():
    """Each case can be found by its name."""
    assert len({case.what for case in CASES}) == len(CASES)


def test_a_second_backward(torch):
    """The graph was freed: the error says so, names ``retain_graph``, and the gradient of the first pass stays."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (w * w).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time") as caught:
        y.backward()
    assert "retain_graph" in str(caught.value)
    assert w.grad.tolist() == [2.0, 4.0]


def test_an_error_in_place_leaves_the_history(torch):
    """A refused change of a recorded tensor keeps values, version and ``grad_fn``, and backward still works."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    y = w * w
    node = y.grad_fn
    for write in (lambda: y.add_(torch.ones(3)), lambda: y.__setitem__(2, 0.0), lambda: y.copy_(torch.ones(5)),
                  lambda: y.fill_("x"), lambda: y.mul_("x")):
        with pytest.raises((RuntimeError, IndexError, TypeError)):
            write()
    assert y.tolist() == [1.0, 4.0]
    assert y._version == 0
    assert y.grad_fn is node
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_random_numbers_survive_a_refused_call(torch):
    """A refused random call draws nothing: the next numbers are those that would have come anyway."""
    torch.manual_seed(5)
    want = torch.rand(4).tolist()
    torch.manual_seed(5)
    for call in (lambda: torch.rand(-1), lambda: torch.ones(3).uniform_(2, 1), lambda: torch.ones(3).normal_(0, -1),
                 lambda: torch.randint(5, 2, (3,)), lambda: torch.randperm(-3)):
        with pytest.raises(RuntimeError):
            call()
    assert torch.rand(4).tolist() == want


def test_absurd_sizes(torch):
    """Sizes whose product overflows, or that no memory can hold, raise a RuntimeError instead of crashing."""
    for make in (lambda: torch.empty(2**40, 2**40), lambda: torch.zeros(2**62, 4), lambda: torch.ones(2**50),
                 lambda: torch.zeros(1).expand(2**50).contiguous(), lambda: torch.zeros(1).expand(2**40, 2**40)):
        with pytest.raises(RuntimeError):
            make()
    assert torch.zeros(1).expand(2**40).shape == torch.Size([2**40])

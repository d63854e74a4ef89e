"""Bad input, continued: the wrong type, number or shape for every public function, and input that only looks wrong."""
import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest

SPEC = importlib.util.spec_from_file_location("error_cases", Path(__file__).with_name("test_errors.py"))
SHARED = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(SHARED)
LONG, Case, mentions, operands, state = SHARED.LONG, SHARED.Case, SHARED.mentions, SHARED.operands, SHARED.state

HUGE = 2**70

ARGUMENTS = [
    Case("a size beyond 64 bits", TypeError, lambda t: t.torch.zeros(HUGE), ("size",), (HUGE,)),
    Case("a size that is a bool", TypeError, lambda t: t.torch.zeros(True), ("size", "bool")),
    Case("a size that is None among others", TypeError, lambda t: t.torch.zeros((2, None)), ("size", "NoneType")),
    Case("no size", TypeError, lambda t: t.torch.zeros(), ("size", "missing")),
    Case("a fractional size in a list", TypeError, lambda t: t.torch.ones([2.5]), ("size", "float")),
    Case("a dimension beyond 64 bits", ValueError, lambda t: t.a.sum(HUGE), (), ("sum", "dim", HUGE)),
    Case("a dimension that is a bool", TypeError, lambda t: t.a.sum(True), ("sum", "bool"), ("dim",)),
    Case("a dimension that is a fraction", TypeError, lambda t: t.a.select(0.5, 0), ("select", "dim", "float")),
    Case("a dimension that is a mask", TypeError, lambda t: t.a.unbind(t.mask[0]), ("unbind", "dim", "Tensor")),
    Case("several dimensions where one is taken", TypeError, lambda t: t.a.argmax((0, 1)),
         ("argmax", "dim", "int", "tuple")),
    Case("a flag that is a number", TypeError, lambda t: t.a.sum(0, 1), ("keepdim", "bool", "int")),
    Case("a flag that is a text", TypeError, lambda t: t.a.std(0, keepdim="x"), ("keepdim", "str"), ("bool", "std")),
    Case("a dtype that is a number", TypeError, lambda t: t.a.sum(dtype=3), ("dtype", "int")),
    Case("a dtype that is NumPy's", TypeError, lambda t: t.a.to(dtype=np.float32), ("dtype",), ("float32",)),
    Case("a device that is a number", TypeError, lambda t: t.torch.zeros(2, device=3.5), ("device",), ("3.5",)),
    Case("an unknown keyword", TypeError, lambda t: t.torch.zeros(2, size_of=3), ("size_of",)),
    Case("requires_grad that is a text", TypeError, lambda t: t.torch.tensor([1.0], requires_grad="x"),
         ("requires_grad", "bool", "str")),
    Case("requires_grad of zeros that is a number", TypeError, lambda t: t.torch.zeros_like(t.a, requires_grad=1),
         ("requires_grad", "bool", "int")),
    Case("requires_grad_ with None", TypeError, lambda t: t.v.requires_grad_(None), ("requires_grad", "NoneType")),
    Case("random integers that require a gradient", RuntimeError,
         lambda t: t.torch.randint(0, 5, (2,), requires_grad=True), ("floating point",), (LONG, "randint")),
    Case("a generator that is none", TypeError, lambda t: t.torch.rand(2, generator=3), ("generator", "int")),
    Case("no operand", TypeError, lambda t: t.torch.add(t.a), ("add", "other"), ("missing",)),
    Case("no axis to gather along", TypeError, lambda t: t.a.gather(), ("gather", "dim"), ("missing",)),
    Case("no input to gather from", TypeError, lambda t: t.torch.gather(), ("gather", "input"), ("missing",)),
    Case("an operand that is a list", TypeError, lambda t: t.a.mul([1]), ("list",), ("mul", "other", "Tensor")),
    Case("an operand that is None", TypeError, lambda t: t.torch.maximum(t.a, None), ("other", "Tensor", "NoneType")),
    Case("two operands that are numbers", TypeError, lambda t: t.torch.pow("x", t.a), ("str",), ("pow", "Tensor")),
    Case("out that is a number", TypeError, lambda t: t.torch.sqrt(t.a, out="x"), ("out", "Tensor", "str")),
    Case("out of integers for fractions", RuntimeError,
         lambda t: t.torch.sqrt(t.a, out=t.i), ("float", LONG)),
    Case("out that requires a gradient", RuntimeError, lambda t: t.torch.add(t.v, t.v, out=t.w),
         ("out=", "requires grad")),
    Case("a view with None as a size", TypeError, lambda t: t.a.view(-1, None), ("view", "size", "NoneType")),
    Case("reshape to one number", TypeError, lambda t: t.torch.reshape(t.a, 12), ("reshape", "shape", "int")),
    Case("full of one number as a size", TypeError, lambda t: t.torch.full(2, 1), ("full", "size", "int")),
    Case("randint of one number as a size", TypeError, lambda t: t.torch.randint(5, 2), ("randint", "size", "int")),
    Case("split by a fraction", TypeError, lambda t: t.a.split([1, 2.5]), ("float",), ("split",)),
    Case("chunks that are a text", TypeError, lambda t: t.a.chunk("x"), ("chunk", "str")),
    Case("movedim by a text", TypeError, lambda t: t.a.movedim("x", 0), ("movedim", "str"), ("source",)),
    Case("cat of nothing at all", TypeError, lambda t: t.torch.cat(), ("cat", "tensors", "missing")),
    Case("cat of None", TypeError, lambda t: t.torch.cat([t.a, None]), ("Tensor", 1, "NoneType")),
    Case("stack along a text", TypeError, lambda t: t.torch.stack([t.a], "x"), ("stack", "dim", "str")),
    Case("a factor that is a text", TypeError, lambda t: t.a.add(t.a, alpha="x"), ("add", "str"), ("alpha",)),
    Case("a factor that is a tensor", TypeError, lambda t: t.torch.add(t.v, t.v, alpha=t.v), ("alpha", "Tensor")),
    Case("a factor that is a bool", RuntimeError, lambda t: t.a.add(t.a, alpha=False), ("alpha", "bool")),
    Case("a value that is a text", TypeError, lambda t: t.v.addcmul(t.v, t.v, value="x"), ("value", "str")),
    Case("a rounding mode that is a number", TypeError, lambda t: t.a.div(2, rounding_mode=3),
         ("rounding_mode", "int"), ("str",)),
    Case("a correction that is a text", TypeError, lambda t: t.a.std(correction="x"), ("std", "str"), ("correction",)),
    Case("two corrections", TypeError, lambda t: t.a.std(0, unbiased=True, correction=1), ("unbiased",),
         ("correction",)),
    Case("an exponent that is a text", TypeError, lambda t: t.a.pow("x"), ("pow", "str")),
    Case("a norm that does not exist", TypeError, lambda t: t.a.norm([2]), ("list",), ("norm",)),
    Case("bounds that are texts", TypeError, lambda t: t.a.clamp("x"), ("clamp", "str"), ("min",)),
    Case("a tolerance that is negative", RuntimeError, lambda t: t.torch.isclose(t.v, t.v, rtol=-1), ("rtol",), (-1,)),
    Case("closeness to a number", TypeError, lambda t: t.torch.allclose(t.v, 3), ("other", "Tensor", "int")),
    Case("closeness of different types", RuntimeError, lambda t: t.torch.allclose(t.v, t.i), ("float", LONG)),
    Case("the largest along a text", TypeError, lambda t: t.a.max("x"), ("max", "str")),
    Case("softmax to a text", TypeError, lambda t: t.a.softmax(0, "x"), ("dtype",)),
    Case("linspace with a fraction of steps", TypeError, lambda t: t.torch.linspace(0, 1, 2.5), ("linspace", "float"),
         ("steps",)),
    Case("eye of a fraction", TypeError, lambda t: t.torch.eye(2.5), ("eye", "n", "int", "float")),
    Case("randperm of a bool", TypeError, lambda t: t.torch.randperm(True), ("randperm", "n", "int", "bool")),
    Case("arange to a text", TypeError, lambda t: t.torch.arange(0, "x"), ("arange", "str"), ("end",)),
    Case("arange to a vector", TypeError, lambda t: t.torch.arange(t.v), ("arange", "end", "Tensor")),
    Case("a seed that is None", TypeError, lambda t: t.torch.manual_seed(None), ("NoneType",)),
    Case("a seed that is not a number", ValueError, lambda t: t.torch.manual_seed(float("nan")), ("nan",)),
    Case("like nothing", TypeError, lambda t: t.torch.rand_like(None), ("input", "Tensor", "NoneType")),
    Case("new_full without a value", TypeError, lambda t: t.a.new_full((2,)), ("fill_value",)),
    Case("an attribute that cannot be set", AttributeError, lambda t: setattr(t.a, "dtype", t.i.dtype), ("dtype",)),
    Case("deleting an item", TypeError, lambda t: t.a.__delitem__(0), ("delet",)),
]

VALUES = [
    Case("an integer beyond 64 bits", ValueError, lambda t: t.torch.tensor([HUGE]), ("long long",), (HUGE,)),
    Case("an integer beyond int32", RuntimeError, lambda t: t.torch.tensor(2**31, dtype=t.torch.int32),
         ("int32", "overflow"), (2**31,)),
    Case("an integer below int32", RuntimeError, lambda t: t.torch.tensor([-2**31 - 1], dtype=t.torch.int32),
         ("int32", "overflow"), (-2**31 - 1,)),
    Case("nan as an integer", RuntimeError, lambda t: t.torch.tensor(float("nan"), dtype=t.torch.int64),
         ("int64", "overflow"), ("nan",)),
    Case("infinity as an integer", RuntimeError, lambda t: t.torch.tensor([float("inf")], dtype=t.torch.int32),
         ("int32", "overflow"), ("inf",)),
    Case("a negative fraction as a byte", RuntimeError, lambda t: t.torch.tensor(-1.5, dtype=t.torch.uint8),
         ("uint8", "overflow"), ("-1.5",)),
    Case("a fill value that does not fit", RuntimeError, lambda t: t.torch.full((2,), 300, dtype=t.torch.uint8),
         ("uint8", "overflow"), (300,)),
    Case("a fill value beyond float32", RuntimeError, lambda t: t.v.fill_(1e300), ("float", "overflow"), ("1e+300",)),
    Case("a masked value that does not fit", RuntimeError,
         lambda t: t.torch.zeros(3, dtype=t.torch.uint8).masked_fill(t.mask, 300), ("uint8", "overflow"), (300,)),
    Case("a sum with an integer beyond 64 bits", OverflowError, lambda t: t.i + HUGE, (), (HUGE,)),
    Case("a tensor of several numbers in a list", ValueError, lambda t: t.torch.tensor([t.v, t.v]), ("one element",),
         ((3,),)),
    Case("None in a list", RuntimeError, lambda t: t.torch.tensor([1.0, None]), ("NoneType",)),
    Case("None in a list of a dtype", TypeError, lambda t: t.torch.tensor([None], dtype=t.torch.float32),
         ("NoneType",)),
    Case("a dictionary", RuntimeError, lambda t: t.torch.tensor({"a": 1}), ("dict",)),
    Case("bytes in a list", TypeError, lambda t: t.torch.tensor([b"ab"]), ("bytes",)),
    Case("a number among lists", TypeError, lambda t: t.torch.tensor([[1, 2], 3]), ("sequence",), (2, 1, "int")),
    Case("a list among numbers", TypeError, lambda t: t.torch.tensor([1, [2, 3]]), ("list",)),
    Case("an array of unequal rows", ValueError, lambda t: t.torch.tensor([np.arange(2), np.arange(3)]), (2, 3, 1)),
    Case("dates", TypeError, lambda t: t.torch.from_numpy(np.zeros(2, dtype="M8[s]")), ("datetime64", "float32")),
    Case("Tensor of a number", TypeError, lambda t: t.torch.Tensor(2.5), ("sequence", "float"), torch_changes=True),
    Case("Tensor of a text", TypeError, lambda t: t.torch.Tensor("ab"), ("str",)),
    Case("Tensor of a negative size", RuntimeError, lambda t: t.torch.Tensor(2, -1), ("negative", -1)),
    Case("a buffer of no whole elements", ValueError,
         lambda t: t.torch.frombuffer(bytearray(3), dtype=t.torch.float32), (3, 4)),
    Case("a buffer shorter than wanted", ValueError,
         lambda t: t.torch.frombuffer(bytearray(4), dtype=t.torch.float32, count=2), (2, 4)),
    Case("a buffer that is none", ValueError, lambda t: t.torch.frombuffer(3, dtype=t.torch.float32), ("buffer",)),
    Case("a buffer without dtype", TypeError, lambda t: t.torch.frombuffer(bytearray(4)), ("frombuffer", "dtype")),
    Case("integers as the default dtype", TypeError, lambda t: t.torch.set_default_dtype(t.torch.int64),
         ("floating",), (LONG,)),
]

KEYS = [
    Case("an index beyond 64 bits", ValueError, lambda t: t.a[HUGE], (), (HUGE,)),
    Case("an index past the end in a later axis", IndexError, lambda t: t.a[None, 5], (5, 1, 3)),
    Case("an index past the end after ...", IndexError, lambda t: t.a[..., 4], (4, 1)),
    Case("the size itself as an index", IndexError, lambda t: t.a[t.torch.tensor([3])], (3, 0)),
    Case("the size itself, in two indices", IndexError, lambda t: t.a[t.torch.tensor([0]), t.torch.tensor([4])],
         (4, 1)),
    Case("writing at the size itself", IndexError, lambda t: t.a.__setitem__(t.torch.tensor([3]), 0.0), (3, 0),
         torch_changes=True),
    Case("an index into no rows", IndexError, lambda t: t.torch.zeros(0)[t.torch.tensor([0])], (0,)),
    Case("a single index past the end", IndexError, lambda t: t.a[t.torch.tensor(5)], (5, 0, 3)),
    Case("a text as an index", TypeError, lambda t: t.a["x"], ("str",)),
    Case("a dictionary as an index", IndexError, lambda t: t.a[{}], ("dict", "integers")),
    Case("a fraction in a slice", TypeError, lambda t: t.a[1.5:], ("slice",), ("float",)),
    Case("a vector in a slice", TypeError, lambda t: t.a[t.v:], ("integer",)),
    Case("a fractional 0-d index", IndexError, lambda t: t.a[t.torch.tensor(1.0)], ("bool",), ("float",)),
    Case("a mask of too many dimensions", IndexError, lambda t: t.a[(t.a > 3)[None]], ("too many", 2), (3,)),
    Case("two masks that do not fit", IndexError, lambda t: t.a[t.mask, t.mask], ((3,), (3, 4), 1)),
    Case("indices that do not broadcast", IndexError, lambda t: t.a[t.i, t.i[:2]], ((3,), (2,))),
    Case("a single index into a single number", IndexError, lambda t: t.torch.tensor(1.0)[t.i], ("too many", 0)),
    Case("more integers than dimensions in a list key", IndexError, lambda t: t.a[[[0], [0], [0]]], ("too many", 2)),
    Case("an array of texts as an index", TypeError, lambda t: t.a[np.array(["a"])], ("str",)),
    Case("assigning a list", TypeError, lambda t: t.a.__setitem__(0, [1, 2, 3, 4]), ("list",), ("Tensor",)),
    Case("assigning None", TypeError, lambda t: t.a.__setitem__(..., None), ("NoneType",), ("Tensor",)),
    Case("assigning an integer beyond 64 bits", ValueError, lambda t: t.i.__setitem__(0, HUGE), (), (HUGE,)),
    Case("assigning nan to an integer", RuntimeError, lambda t: t.i.__setitem__(0, float("nan")), ("int64", "overflow"),
         ("nan",)),
    Case("assigning another dtype at indices", RuntimeError, lambda t: t.a.__setitem__(t.i, t.a.double()),
         ("float", "dtypes"), ("float64",)),
    Case("assigning one double at indices", RuntimeError,
         lambda t: t.a.__setitem__(t.i, t.torch.tensor(1.0, dtype=t.torch.float64)), ("dtypes",), ("float64",)),
    Case("index_put_ of a tensor", TypeError, lambda t: t.a.index_put_(t.i, t.a), ("indices", "Tensor")),
    Case("index_put_ of a number", TypeError, lambda t: t.a.index_put_((t.i,), 3.0), ("values", "Tensor", "float")),
    Case("index_put_ with too many indices", IndexError, lambda t: t.a.index_put_((t.i, t.i, t.i), t.v),
         ("too many", 2, 3)),
    Case("index_select by a list", TypeError, lambda t: t.a.index_select(0, [0]), ("index", "Tensor", "list")),
    Case("index_select of a negative row", IndexError, lambda t: t.a.index_select(0, t.torch.tensor([-1])), ("index",),
         (-1, 3)),
    Case("index_select by bytes", RuntimeError, lambda t: t.a.index_select(0, t.mask.to(t.torch.uint8)), ("int64",),
         ("uint8",)),
    Case("gather along a fraction", TypeError, lambda t: t.a.gather(0.5, t.i), ("gather", "dim", "float")),
    Case("gather of a negative row", RuntimeError, lambda t: t.a.gather(0, t.torch.tensor([[-1]])), (-1, 0, 3)),
    Case("scatter_ past the end", RuntimeError, lambda t: t.a.scatter_(0, t.torch.tensor([[5]]), 1.0), (5, 0, 3)),
    Case("scatter_ of a text", TypeError, lambda t: t.a.scatter_(0, t.torch.tensor([[0]]), "x"), ("str",), ("src",)),
    Case("scatter of another dtype", RuntimeError,
         lambda t: t.a.scatter(0, t.torch.tensor([[0]]), t.a.double()), ("dtype",), ("float64", "float32")),
    Case("scatter_add_ past the end", RuntimeError,
         lambda t: t.a.scatter_add_(0, t.torch.tensor([[9]]), t.torch.ones(1, 1)), (9, 0, 3)),
    Case("index_add_ past the end", RuntimeError,
         lambda t: t.a.index_add_(0, t.torch.tensor([0, 1, 5]), t.a.clone()), (5, 0, 3), torch_changes=True),
    Case("index_add_ of another shape", RuntimeError, lambda t: t.a.index_add_(0, t.i, t.v), ((3, 4), (3,))),
    Case("index_add_ with too few indices", RuntimeError, lambda t: t.a.index_add_(0, t.i[:2], t.a.clone()), (2, 3)),
    Case("masked_select by numbers", RuntimeError, lambda t: t.a.masked_select(t.a), ("mask", "bool"), ("float32",)),
    Case("masked_fill with a text", TypeError, lambda t: t.a.masked_fill(t.a > 3, "x"), ("masked_fill", "str"),
         ("value",)),
    Case("nonzero with a flag that is a text", TypeError, lambda t: t.torch.nonzero(t.a, as_tuple="x"),
         ("as_tuple", "bool", "str")),
]

MEMORY = [
    Case("adding to memory shared by rows", RuntimeError, lambda t: t.v.expand(2, 3).add_(1),
         ("single memory location",), ((2, 3),)),
    Case("copying to memory shared by rows", RuntimeError, lambda t: t.v.expand(2, 3).copy_(t.torch.ones(2, 3)),
         ("single memory location",), ((2, 3),)),
    Case("random numbers in memory shared by rows", RuntimeError, lambda t: t.v.expand(2, 3).normal_(),
         ("single memory location",), ((2, 3),)),
    Case("limits in memory shared by rows", RuntimeError, lambda t: t.v.expand(2, 3).clamp_(0, 1),
         ("single memory location",), ((2, 3),)),
    Case("assigning to memory shared by rows", RuntimeError,
         lambda t: t.v.expand(2, 3).__setitem__(slice(None), 1), ("single memory location",), ((2, 3),)),
    Case("adding a tensor to itself, shifted", RuntimeError, lambda t: t.v[1:].add_(t.v[:-1]),
         ("single memory location",), ((2,),)),
    Case("as_strided far beyond the storage", RuntimeError, lambda t: t.a.as_strided((2**40,), (2**40,)), (2**40,)),
    Case("as_strided from beyond the storage", RuntimeError, lambda t: t.a.as_strided((1,), (1,), 2**62), (),
         (2**62, 48)),
    Case("writing to a leaf's slice", RuntimeError, lambda t: t.w.__setitem__(0, 1.0), ("view of a leaf", "in-place")),
    Case("writing at indices of a leaf", RuntimeError, lambda t: t.w.index_put_((t.i,), t.v), ("leaf", "in-place")),
    Case("random numbers in a leaf", RuntimeError, lambda t: t.w.uniform_(), ("leaf", "in-place")),
    Case("filling a leaf", RuntimeError, lambda t: t.w.zero_(), ("leaf", "in-place")),
    Case("copying to a leaf", RuntimeError, lambda t: t.w.copy_(t.v), ("leaf", "in-place")),
    Case("cutting a view", RuntimeError, lambda t: t.w[0].detach_(), ("detach", "view")),
    Case("data that is a number", TypeError, lambda t: setattr(t.w, "data", 3), ("Tensor", "int")),
    Case("an integer as a gradient", RuntimeError, lambda t: setattr(t.w, "grad", t.i), (LONG,)),
    Case("no inputs for backward", RuntimeError, lambda t: t.w.sum().backward(inputs=[]), ("inputs", "empty")),
    Case("an input that needs no gradient", RuntimeError, lambda t: t.w.sum().backward(inputs=[t.v]),
         (), ("does not require grad", (3,))),
    Case("a gradient that is a text", TypeError, lambda t: t.w.sum().backward("x"), ("Tensor", "str")),
    Case("backward of a number", TypeError, lambda t: t.torch.autograd.backward(3), ("int",)),
    Case("grad of a number", TypeError, lambda t: t.torch.autograd.grad(3, t.w), ("int",)),
    Case("grad with several incoming gradients", RuntimeError,
         lambda t: t.torch.autograd.grad(t.w.sum(), t.w, [t.v, t.v]), (), (1, 2)),
]

CASES = [*ARGUMENTS, *VALUES, *KEYS, *MEMORY]


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_bad_input(torch, backend, case):
    """The exception has PyTorch's type, its message names the facts, and every tensor is as it was."""
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


# ---- input that looks wrong and is right --------------------------------------------------------------------------

RIGHT = [
    ("a number before a tensor", lambda t: t.torch.add(1, t.i), [1, 2, 3]),
    ("a number divided by a tensor", lambda t: t.torch.div(6, t.v), [6, 3, 2]),
    ("a product with a NumPy number", lambda t: t.torch.mul(np.float32(2), t.v), [2, 4, 6]),
    ("a power of a NumPy number", lambda t: t.v ** np.float32(2), [1, 4, 9]),
    ("filling with a NumPy number", lambda t: t.i.clone().fill_(np.int64(7)), [7, 7, 7]),
    ("copying a number", lambda t: t.v.clone().copy_(5), [5, 5, 5]),
    ("a NumPy integer as a size", lambda t: t.torch.ones(np.int64(2)), [1, 1]),
    ("a tensor as a size", lambda t: t.torch.ones(t.torch.tensor([2])), [1, 1]),
    ("a tensor as an index of a list", lambda t: t.torch.tensor([5, 6][t.torch.tensor([[1]])]), 6),
    ("a negative number as a byte", lambda t: t.torch.tensor([-1, -255], dtype=t.torch.uint8), [255, 1]),
    ("bytes divided by a negative number", lambda t: t.torch.tensor([3], dtype=t.torch.uint8) / -3, [-1]),
    ("a size of zero", lambda t: t.torch.ones(2, 0).sum(1), [0, 0]),
    ("a key of nothing", lambda t: t.torch.tensor(3.0)[()], 3),
    ("an ellipsis twice", lambda t: t.a[..., ...][0], [0, 1, 2, 3]),
    ("an empty list as an index", lambda t: t.a[[]], []),
    ("lists in a list as indices", lambda t: t.a[[[0, 1], [1, 2]]], [1, 6]),
    ("a tuple within a key", lambda t: t.a[(0, 1), 0], [0, 4]),
    ("a bool as an index", lambda t: t.v[True], [[1, 2, 3]]),
    ("bytes as a mask", lambda t: t.v[t.mask.to(t.torch.uint8)], [1, 3]),
    ("a slice far beyond the end", lambda t: t.v[2**70:], []),
    ("a value with leading sizes of one", lambda t: put(t.v.clone(), slice(0, 2), t.torch.ones(1, 1, 2)), [1, 1, 3]),
    ("one value of another dtype behind a mask", lambda t: put(t.v.clone(), t.mask, t.torch.tensor(7)), [7, 2, 7]),
    ("filling memory shared by rows", lambda t: t.v.clone().expand(2, 3).fill_(4), [[4, 4, 4], [4, 4, 4]]),
    ("the places in a single number", lambda t: t.torch.where(t.torch.tensor(3.0))[0], [0]),
    ("quotients rounded to zero", lambda t: t.torch.div(t.torch.tensor([7, -7]), 2, rounding_mode="trunc"), [3, -3]),
    ("quotients rounded down", lambda t: t.torch.div(t.torch.tensor([7.0, -7.0]), 2, rounding_mode="floor"), [3, -4]),
    ("a reduction of a single number", lambda t: t.torch.tensor(3.0).sum(-1), 3),
    ("an out without elements", lambda t: t.torch.add(t.v, t.v, out=t.torch.zeros(0)), [2, 4, 6]),
    ("an index that is out of order", lambda t: t.v[t.torch.tensor([[2, 0], [1, -1]])], [[3, 1], [2, 3]]),
]


def put(x, key, value):
    """``x[key] = value`` as an expression."""
    x[key] = value
    return x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "want"), [case[1:] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_unusual_input(torch, call, want):
    """PyTorch takes it, so it has a result."""
    assert call(operands(torch)).tolist() == want


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_rounded_quotients(torch, mode, leaf):
    """Rounding to zero and rounding down differ for negative quotients; the gradient is zero."""
    numbers = [-9, -7, -1, 0, 1, 7, 9]
    python = {"trunc": lambda q: int(q), "floor": lambda q: int(np.floor(q))}[mode]
    for divisor in (-4, 2, 3):
        want = [python(n / divisor) for n in numbers]
        for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
            x = torch.tensor(numbers, dtype=dtype)
            assert torch.div(x, divisor, rounding_mode=mode).tolist() == want
            assert torch.div(x, divisor, rounding_mode=mode).dtype is dtype
            x.div_(divisor, rounding_mode=mode)
            assert x.tolist() == want
    a, b = leaf(5.0, -5.0), leaf(2.0, 2.0)
    torch.div(a, b, rounding_mode=mode).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [0.0, 0.0]


def test_the_least_integer_over_minus_one(beyond_pytorch, torch):
    """The quotient does not fit and wraps; the processor would trap, and PyTorch lets it."""
    for dtype, bits in ((torch.int32, 31), (torch.int64, 63)):
        least = torch.tensor([-2**bits], dtype=dtype)
        for mode in ("trunc", "floor"):
            assert torch.div(least, -1, rounding_mode=mode).tolist() == [-2**bits]
        assert (least // -1).tolist() == [-2**bits]
        assert (least % -1).tolist() == [0]


# ---- every public name --------------------------------------------------------------------------------------------

JUNK = {"str": "x", "bytes": b"x", "dict": {}, "set": {1}, "object": object(), "ellipsis": ..., "slice": slice(None)}
NO_TENSORS = {"empty_cache", "from_file", "get_default_dtype", "get_num_threads", "get_rng_state", "initial_seed",
              "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled",
              "is_storage", "is_tensor", "seed", "typename"}


def public_functions(module):
    """Names of callables of the module that are neither classes nor private, nor change a setting of the process."""
    return [name for name in dir(module) if not name.startswith(("_", "set_")) and callable(getattr(module, name))
            and not inspect.isclass(getattr(module, name)) and not inspect.ismodule(getattr(module, name))]


def refusal(call, *arguments, **options):
    """Return the message of the error that a call ends in, None if it does not."""
    try:
        call(*arguments, **options)
    except (TypeError, ValueError, RuntimeError, IndexError, AssertionError) as error:  # lobpcg asserts
        return str(error)
    return None


@pytest.mark.parametrize("kind", JUNK)
def test_junk_for_every_function(beyond_pytorch, torch, kind):
    """Every public function says that it cannot use junk as its first argument, and names its type."""
    tensors = operands(torch)
    before = state(tensors)
    options = {"empty_permuted": {"physical_layout": (0,)}, "full_like": {"fill_value": 1},
               "frombuffer": {"dtype": torch.float32},
               "randint": {"size": (2,), "high": 5}, "randint_like": {"high": 5},
               "select_scatter": {"dim": 0, "index": 0}}
    unnamed = {}
    for name in public_functions(torch):
        if name in NO_TENSORS:
            continue
        call = getattr(torch, name)
        message = refusal(call, JUNK[kind], **options.get(name, {}))
        if message is not None and kind not in message:              # it wants more arguments
            message = refusal(call, JUNK[kind], tensors.v)
        if message is not None and kind not in message:
            message = refusal(call, JUNK[kind], tensors.v, tensors.v)
        if message is None or kind not in message:
            unnamed[name] = message
    assert not unnamed
    assert state(tensors) == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("kind", JUNK)
def test_junk_beside_a_tensor(beyond_pytorch, torch, kind):
    """Junk as the second argument of a function, or the first of a method, ends in an ordinary error or a result, and
    what fails changes no tensor.
    """
    methods = [getattr(torch.Tensor, name) for name in dir(torch.Tensor) if not name.startswith("_")]
    calls = [getattr(torch, name) for name in public_functions(torch)] + [m for m in methods if callable(m)]
    assert len(calls) > 200
    for call in calls:
        tensors = operands(torch)
        before = state(tensors)
        if refusal(call, tensors.a, JUNK[kind]) is not None:
            assert state(tensors) == before, call
    assert torch.is_grad_enabled()


# ---- what stays as it was -----------------------------------------------------------------------------------------

def test_refused_random_calls_draw_nothing(beyond_pytorch, torch):
    """Options are checked before the first draw."""
    torch.manual_seed(5)
    want = torch.rand(4).tolist()
    torch.manual_seed(5)
    leaf = torch.ones(3, requires_grad=True)
    for call in (lambda: torch.rand(2, requires_grad="x"), lambda: torch.randn(2, device="nowhere"),
                 lambda: torch.randint(0, 5, (2,), requires_grad=True), lambda: torch.rand(2, dtype=torch.int64),
                 lambda: torch.randperm(3, requires_grad=True), lambda: torch.rand(2, generator=3),
                 lambda: leaf.uniform_(), lambda: torch.ones(3).bernoulli_(2.0), lambda: torch.randn("x"),
                 lambda: torch.ones(1).expand(3).normal_(), lambda: torch.rand_like(torch.tensor([1]))):
        with pytest.raises((RuntimeError, TypeError)):
            call()
    assert torch.rand(4).tolist() == want


@pytest.mark.parametrize("source", ["an array", "a buffer"])
def test_memory_that_may_only_be_read(beyond_pytorch, torch, source):
    """Every way of writing to a tensor over read-only memory is refused, and the memory keeps its bytes."""
    memory = b"\x01\x02\x03\x04"
    x = (torch.from_numpy(np.frombuffer(memory, dtype=np.uint8)) if source == "an array" else
         torch.frombuffer(memory, dtype=torch.uint8))
    for write in (lambda: x.add_(1), lambda: x.zero_(), lambda: x.copy_(x.clone()), lambda: x.__setitem__(0, 5),
                  lambda: x[1:].mul_(2), lambda: x.view(2, 2).t().fill_(3), lambda: x.random_(5),
                  lambda: x.index_put_((torch.tensor([0]),), torch.tensor([9], dtype=torch.uint8)),
                  lambda: x.masked_fill_(x > 1, 0), lambda: x.clamp_(2, 3),
                  lambda: torch.add(x.clone(), x.clone(), out=x)):
        with pytest.raises(RuntimeError, match="read-only"):
            write()
    assert x.tolist() == [1, 2, 3, 4]
    assert memory == b"\x01\x02\x03\x04"


def test_more_dimensions_than_there_are(beyond_pytorch, torch):
    """64 dimensions work, 65 are refused wherever they could arise."""
    x = torch.ones([1] * 64)
    assert x.add(1).sum(tuple(range(64))).item() == 2.0
    for make in (lambda: torch.zeros([1] * 65), lambda: x.unsqueeze(0), lambda: x[None], lambda: x.reshape([1] * 65),
                 lambda: x.expand([2] + [1] * 64), lambda: torch.stack([x]), lambda: x.unfold(0, 1, 1),
                 lambda: torch.ones(1).as_strided([1] * 65, [1] * 65), lambda: x[torch.zeros(1, 1, dtype=torch.int64)]):
        with pytest.raises(RuntimeError, match="64"):
            make()


def test_a_seed_is_whatever_int_takes(torch):
    """Texts and fractions are converted, as by ``int()``."""
    torch.manual_seed(12)
    want = torch.rand(3).tolist()
    for seed in ("12", 12.9, np.int64(12), torch.tensor(12)):
        torch.manual_seed(seed)
        assert torch.rand(3).tolist() == want


@pytest.mark.parametrize(("shift", "want"), [(1, [0, 0, 1, 2, 3, 4]), (2, [0, 1, 0, 1, 2, 3])])
def test_shifted_copies_are_right_or_refused(torch, shift, want):
    """Overlapping source and destination never smear."""
    x = torch.arange(6.0)
    try:
        x[shift:] = x[:-shift]
    except RuntimeError:
        want = [0, 1, 2, 3, 4, 5]
    assert x.tolist() == want


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "argmax", "argmin", "aminmax"])
def test_an_extremum_over_a_dimension_of_no_elements(torch, name):
    """IndexError where the user named the dimension, whatever the others are; RuntimeError of amax and amin of all."""
    for shape, dim in (((0, 3), 0), ((3, 0), -1), ((0,), 0), ((0,), -1), ((0, 0), 1)):
        with pytest.raises(IndexError, match=r"non-zero size|nonzero size"):
            getattr(torch.empty(shape), name)(dim=dim)
    if name in ("amax", "amin"):
        for dims in ((0, 1), (1, 0)):
            with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
                getattr(torch.empty(0, 3), name)(dims)
        for empty in (torch.empty(0), torch.empty(0, 3)):
            with pytest.raises(RuntimeError):
                getattr(empty, name)()
            with pytest.raises(RuntimeError):
                getattr(empty, name)(())
        assert getattr(torch.empty(0, 3), name)(1).shape == (0,)
        assert getattr(torch.empty(0, 3), name)(-1, True).shape == (0, 1)

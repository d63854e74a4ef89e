"""Every dtype against PyTorch's: conversion, promotion, arithmetic that wraps around or rounds, numbers in and out."""

import itertools
import math
import warnings

import numpy as np
import pytest

import cygrad

torch = pytest.importorskip("torch")

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
WIDE_UNSIGNED = ("uint16", "uint32", "uint64")
PYTORCHS = ("bool", *INTEGERS, *FLOATS)
ALL = (*PYTORCHS, *COMPLEX, *WIDE_UNSIGNED)
NUMBERS = [0, 1, -1, 2.5, 100.7, -128, 127, 255, 300, 65504, 65519.9, 65520, 1e-8, -3e-6, 6e-5, -40000, 1e5, 2.0**31]


def pair(values, name):
    """The same tensor in both libraries."""
    theirs = torch.tensor(values, dtype=torch.float64)
    theirs = theirs.abs() if name in WIDE_UNSIGNED else theirs
    theirs = theirs.to(getattr(torch, name))
    if name == "bfloat16":
        return cygrad.from_numpy(theirs.float().numpy()).to(cygrad.bfloat16), theirs
    return cygrad.from_numpy(theirs.numpy().copy()), theirs


def same(ours, theirs, exact=True):
    assert repr(ours.dtype) == repr(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    theirs = theirs.detach().resolve_conj()
    if theirs.dtype == torch.bfloat16:
        ours, theirs = ours.float(), theirs.float()
    a, b = ours.detach().numpy(), theirs.numpy()
    if exact:
        np.testing.assert_array_equal(a, b)
    else:
        eps = {"float16": 1e-3, "float32": 1e-6, "complex64": 2e-6}.get(a.dtype.name, 1e-13)
        eps = 8e-3 if exact is None else eps
        np.testing.assert_allclose(a, b, rtol=2 * eps, atol=eps)


@pytest.mark.parametrize("source, target", list(itertools.product(ALL, ALL)))
def test_conversion(source, target):
    fits = {"int8": 127, "int16": 32767, "uint16": 65535, "uint32": 2**32 - 1}.get(target, 2**31)
    fits = 65504 if source == "float16" else fits
    numbers = [v for v in NUMBERS if source not in FLOATS + COMPLEX or target in FLOATS + COMPLEX or 0 <= v <= fits]
    ours, theirs = pair(numbers * 40, source)
    for cut in (slice(None), slice(1, None, 3), slice(0, 1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same(ours[cut].to(getattr(cygrad, target)), theirs[cut].to(getattr(torch, target)))


@pytest.mark.parametrize("name", PYTORCHS)
@pytest.mark.parametrize("other", [*PYTORCHS, True, 3, 2.5])
def test_sums_and_products_promote_as_pytorchs(name, other):
    ours, theirs = pair([0, 1, 2, 3, 100, 120], name)
    if isinstance(other, str):
        b, their_b = pair([1, 2, 1, 2, 100, 3], other)
    else:
        b = their_b = other
    exact = name not in ("float16", "bfloat16") or isinstance(other, str) or None
    same(ours + b, theirs + their_b, exact)
    same(ours * b, theirs * their_b, exact)
    same(ours.reshape(2, 3).t() * ours.reshape(2, 3).t(), theirs.reshape(2, 3).t() * theirs.reshape(2, 3).t(), exact)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16"])
def test_integers_wrap_around(name):
    low, high = torch.iinfo(getattr(torch, name)).min, torch.iinfo(getattr(torch, name)).max
    numbers = [low, low + 1, -1, 0, 1, 7, high - 1, high]
    numbers = [v for v in numbers if v >= low]
    ours, theirs = (lib.tensor(list(itertools.product(numbers, numbers)), dtype=getattr(lib, name)).t()
                    for lib in (cygrad, torch))
    (a, b), (ta, tb) = ours, theirs
    nonzero, t_nonzero = cygrad.where(b == 0, cygrad.ones_like(b), b), torch.where(tb == 0, torch.ones_like(tb), tb)
    for ours, theirs in (
        (a + b, ta + tb), (a - b, ta - tb), (a * b, ta * tb), (-a, -ta), (abs(a), abs(ta)),
        (a // nonzero, ta // t_nonzero),
        (a % nonzero, ta % t_nonzero), (a < b, ta < tb), (a & b, ta & tb), (a ^ b, ta ^ tb), (~a, ~ta), (a**2, ta**2),
        (a / nonzero, ta / t_nonzero), (a.sum(), ta.sum()), (a.max(), ta.max()), (a.argmin(), ta.argmin()),
        (a.cumsum(0), ta.cumsum(0)), (a.prod(), ta.prod()), (cygrad.maximum(a, b), torch.maximum(ta, tb)),
        (a.any(), ta.any()), (a.clamp(-3, 5), ta.clamp(-3, 5)) if low else (a.clamp(3, 5), ta.clamp(3, 5)),
    ):  # fmt: skip
        same(ours, theirs)


def test_uint64_is_no_int64():
    top = 2**64 - 1
    x = cygrad.tensor([0, 1, 2**63, top], dtype=cygrad.uint64)
    assert x.tolist() == [0, 1, 2**63, top]
    assert (x > 5).tolist() == [False, False, True, True]
    assert (x // 2).tolist() == [0, 0, 2**62, 2**63 - 1]
    assert (x % 10).tolist() == [v % 10 for v in x.tolist()]
    assert (x + 1).tolist() == [1, 2, 2**63 + 1, 0]
    assert x.max().item() == top and x.argmax().item() == 3 and x.amin().item() == 0
    assert x.double().tolist() == [0.0, 1.0, 2.0**63, 2.0**64]
    assert (x == top).tolist() == [False, False, False, True]
    assert x[-1].item() == top and repr(x[-1]) == f"tensor({top}, dtype=torch.uint64)"
    with pytest.raises(RuntimeError, match=r"int64.*uint64|uint64.*int64"):
        x + cygrad.tensor([1])


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_compute_in_float32(name):
    kind, theirs = getattr(cygrad, name), getattr(torch, name)
    ones = cygrad.ones(5000, dtype=kind)
    assert ones.sum().item() == torch.ones(5000, dtype=theirs).sum().item()
    assert ones.mean().item() == 1
    x, tx = pair([math.sin(i) for i in range(600)], name)
    matrix = x.reshape(20, 30), tx.reshape(20, 30)
    for f in (lambda v: v.exp(), lambda v: v.tanh(), lambda v: v.softmax(0), lambda v: v.sum(), lambda v: v.std(),
              lambda v: v.norm(), lambda v: v.argmax(), lambda v: v.dot(v), lambda v: v.cumsum(0), lambda v: v.prod(),
              lambda v: v.log_softmax(0), lambda v: (v / 0).isfinite()):  # fmt: skip
        same(f(x), f(tx), None)
    for f in (lambda v: v.mean(1), lambda v: v.amax(0), lambda v: v @ v.t(), lambda v: v.t().sum(0),
              lambda v: v.logsumexp(1), lambda v: v.max(1)[1], lambda v: v[:, :1].addmm(v, v.t())):  # fmt: skip
        same(f(matrix[0]), f(matrix[1]), None)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves_have_gradients(name):
    found = []
    for lib in (cygrad, torch):
        x = lib.tensor([0.5, -1.0, 2.0, 3.0], dtype=getattr(lib, name), requires_grad=True)
        y = (x * x).sum() + (x.exp() * 2).mean() + x.reshape(2, 2).matmul(x.reshape(2, 2)).sum()
        y.backward()
        found.append(x.grad)
    same(*found, None)


@pytest.mark.parametrize("name", ALL)
def test_movement_is_blind_to_the_dtype(name):
    x, tx = pair([float(i % 7) for i in range(24)], name)
    x, tx = x.reshape(4, 6), tx.reshape(4, 6)
    i, mask = [2, 0, 2], [True, False, True, True]
    index, t_index = cygrad.tensor([[1, 0, 3]] * 4), torch.tensor([[1, 0, 3]] * 4)
    same(x[i], tx[i])
    same(x[:, i], tx[:, i])
    same(x[[0, 1], [2, 3]], tx[[0, 1], [2, 3]])
    same(x[mask], tx[mask])
    same(x.t().contiguous(), tx.t().contiguous())
    same(x.masked_select(cygrad.tensor(mask).reshape(4, 1)), tx[torch.tensor(mask)].reshape(-1))
    same(x.nonzero(), tx.double().nonzero() if name in WIDE_UNSIGNED else tx.nonzero())
    same(cygrad.cat([x, x.t().reshape(4, 6)]), torch.cat([tx, tx.t().reshape(4, 6)]))
    y, ty = x.clone(), tx.clone()
    y[1:3, ::2] = x[:2, 1::2]
    ty[1:3, ::2] = tx[:2, 1::2]
    y[i[:2]] = x[:2]
    ty[2], ty[0] = tx[0], tx[1]
    same(y, ty)
    assert y.gather(1, index).tolist() == [[row[k] for k in (1, 0, 3)] for row in ty.tolist()]
    if name not in WIDE_UNSIGNED:
        same(y.scatter(1, index, x), ty.scatter(1, t_index, tx))
        same(x.index_add(0, cygrad.tensor([1, 1]), x[:2]), tx.index_add(0, torch.tensor([1, 1]), tx[:2]))
        same(x.scatter_add(1, index, x), tx.scatter_add(1, t_index, tx))
    same(cygrad.where(x == 0, x, x), torch.where(tx == 0, tx, tx)) if name not in COMPLEX else None


@pytest.mark.parametrize("name", ALL)
def test_numbers_in_and_out(name):
    kind, theirs = getattr(cygrad, name), getattr(torch, name)
    for make in (lambda lib, d: lib.full((2, 3), 1, dtype=d), lambda lib, d: lib.zeros(3, dtype=d),
                 lambda lib, d: lib.ones(2, dtype=d), lambda lib, d: lib.tensor([[1, 0], [True, 3]], dtype=d),
                 lambda lib, d: lib.ones(2, dtype=d).fill_(True), lambda lib, d: lib.empty(0, dtype=d)):  # fmt: skip
        same(make(cygrad, kind), make(torch, theirs))
    x, t = cygrad.tensor([1, 0], dtype=kind), torch.tensor([1, 0], dtype=theirs)
    assert x.tolist() == t.tolist() and type(x[0].item()) is type(t[0].item())
    assert repr(x) == repr(t)
    assert x.element_size() == t.element_size() and x.is_signed() == t.is_signed()
    if name not in ("bool", *COMPLEX, *WIDE_UNSIGNED):
        same(cygrad.arange(5, dtype=kind), torch.arange(5, dtype=theirs))
        same(cygrad.linspace(0, 100, 6, dtype=kind), torch.linspace(0, 100, 6, dtype=theirs))
        assert x.type() == t.type()
        same(x.type(t.type()), t)
    if name == "bfloat16":
        with pytest.raises(TypeError, match="bfloat16"):
            x.numpy()
    else:
        shared = x.numpy()
        assert shared.dtype.name == name
        x[1] = 1
        assert shared[1] == 1 and cygrad.from_numpy(shared).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("name, value", [
    ("int8", 128), ("int8", -129), ("int8", 1e30), ("int8", math.nan), ("int16", 2**15), ("uint16", 70000),
    ("uint32", 2**32), ("int8", 2**63), ("uint64", -1), ("uint64", 2**64), ("uint64", 1.5), ("float32", 1j),
    ("int16", 1j), ("float16", 10**400), ("bfloat16", 10**400)])
def test_numbers_that_do_not_fit_are_refused(name, value):
    errors = []
    for lib in (cygrad, torch):
        with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)) as error:
            lib.tensor([value], dtype=getattr(lib, name))
        errors.append(error.type)
    assert errors[0] is errors[1]
    if not (name == "uint64" and value in (-1, 1.5)):
        x = cygrad.zeros(2, dtype=getattr(cygrad, name))
        long = isinstance(value, int) and not -(2**63) <= value < 2**64
        with pytest.raises(OverflowError if long else RuntimeError, match="64 bits" if long else name):
            x.fill_(value)
        assert x.tolist() == [0, 0]


BEYOND = [("float16", 1e6), ("float16", 65519.9), ("bfloat16", 3.4e38), ("float32", 1e39)]


@pytest.mark.parametrize("name, value", BEYOND)
def test_numbers_beyond_a_floating_type_become_infinite_in_a_list_only(name, value):
    same(cygrad.tensor([value], dtype=getattr(cygrad, name)), torch.tensor([value], dtype=getattr(torch, name)))
    for lib in (cygrad, torch):
        with pytest.raises(RuntimeError, match="without overflow"):
            lib.zeros(2, dtype=getattr(lib, name)).fill_(value)


@pytest.mark.parametrize("name, value", [
    ("uint8", -1), ("uint16", -200), ("uint32", -1), ("float16", 65504), ("float16", math.inf), ("float16", 1e-8),
    ("bfloat16", 3.38e38), ("bfloat16", 65505), ("int8", 1.5), ("uint64", 2**64 - 1), ("bool", 1j),
    ("complex64", 1 + 2j)])  # fmt: skip
def test_numbers_that_wrap_around_or_round(name, value):
    same(cygrad.tensor([value], dtype=getattr(cygrad, name)), torch.tensor([value], dtype=getattr(torch, name)))
    same(cygrad.zeros(2, dtype=getattr(cygrad, name)).fill_(value),
         torch.zeros(2, dtype=getattr(torch, name)).fill_(value))  # fmt: skip


@pytest.mark.parametrize("default", FLOATS)
def test_the_default_dtype_decides_what_numbers_become(default):
    found = []
    for lib in (cygrad, torch):
        before = lib.get_default_dtype()
        lib.set_default_dtype(getattr(lib, default))
        try:
            made = [lib.tensor(1.5), lib.tensor([1, 2.0]), lib.zeros(2), lib.arange(0, 1, 0.25),
                    lib.tensor([1, 2]) * 0.5, lib.tensor([1, 2]) / 2, lib.full((1,), 2.5), lib.tensor([True]).exp()]
            made += [] if "float16" in default else [lib.tensor(1j)]
            found.append(([repr(x.dtype) for x in made], repr(made[0])))
        finally:
            lib.set_default_dtype(before)
    assert found[0] == found[1]


CASTS = ("bool", "uint8", "int64", "float16", "float64", "complex64")


@pytest.mark.parametrize("source, target", list(itertools.product(CASTS, CASTS)))
def test_can_cast(source, target):
    wanted = torch.can_cast(getattr(torch, source), getattr(torch, target))
    assert cygrad.can_cast(getattr(cygrad, source), getattr(cygrad, target)) is wanted
    if not wanted and source not in COMPLEX:
        x = cygrad.ones(2, dtype=getattr(cygrad, target))
        with pytest.raises(RuntimeError, match="can't be cast"):
            x += cygrad.ones(2, dtype=getattr(cygrad, source))


@pytest.mark.parametrize("name", [*FLOATS, *COMPLEX])
def test_finfo(name):
    ours, theirs = cygrad.finfo(getattr(cygrad, name)), torch.finfo(getattr(torch, name))
    for fact in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"):
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert repr(ours) == repr(theirs) and ours == cygrad.finfo(getattr(cygrad, name))


@pytest.mark.parametrize("name", [*INTEGERS, *WIDE_UNSIGNED])
def test_iinfo(name):
    ours, theirs = cygrad.iinfo(getattr(cygrad, name)), torch.iinfo(getattr(torch, name))
    for fact in ("bits", "max", "min", "dtype"):
        assert getattr(ours, fact) == getattr(theirs, fact), fact
    assert repr(ours) == repr(theirs)


def test_limits_refuse_other_kinds():
    assert cygrad.finfo().dtype == torch.finfo().dtype
    for bad in (cygrad.int32, cygrad.bool, 3, "float32"):
        with pytest.raises(TypeError):
            cygrad.finfo(bad)
    for bad in (cygrad.float32, cygrad.bool, 3):
        with pytest.raises(TypeError):
            cygrad.iinfo(bad)


def test_complex32_is_named_in_the_error():
    for name in ("complex32", "chalf"):
        with pytest.raises(AttributeError, match="complex32"):
            getattr(cygrad, name)

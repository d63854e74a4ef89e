"""Operations that read and write through index tensors, or rearrange, against PyTorch in every dtype and both orders of
gradients; what they refuse; one result for every number of threads."""

import pytest

import cygrad
from cygrad.tools.gradcheck import gradcheck, gradgradcheck

torch = pytest.importorskip("torch")

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")
# x: (4, 3), s: (3, 3), i: three row numbers (one twice), at: (3, 3) row numbers (repeated), m: a mask of (4, 3)
CASES = {
    "index_select": lambda t, x, s, i, at, m: x.index_select(0, i),
    "index_add": lambda t, x, s, i, at, m: x.index_add(0, i, s),
    "index_copy": lambda t, x, s, i, at, m: x.index_copy(0, i[:2], s[:2]),
    "index_fill": lambda t, x, s, i, at, m: x.index_fill(1, i[:2], 1),
    "index_fill by a tensor": lambda t, x, s, i, at, m: x.index_fill(0, i, s[0, 0]),
    "index_put": lambda t, x, s, i, at, m: x.index_put((i[:2],), s[:2]),
    "index_put adding": lambda t, x, s, i, at, m: x.index_put((i,), s, accumulate=True),
    "index_put of one dimension": lambda t, x, s, i, at, m: x.index_put((i[:2], i[:2]), s[0, 1]),
    "gather": lambda t, x, s, i, at, m: x.gather(0, at),
    "scatter": lambda t, x, s, i, at, m: x.scatter(1, at[:2, :1], s[:2, :1]),
    "scatter of a number": lambda t, x, s, i, at, m: x.scatter(0, at, 1),
    "scatter adding": lambda t, x, s, i, at, m: x.scatter(0, at, s.detach(), reduce="add").detach(),
    "scatter multiplying": lambda t, x, s, i, at, m: x.scatter(0, at, s.detach(), reduce="multiply").detach(),
    "scatter_add": lambda t, x, s, i, at, m: x.scatter_add(0, at, s),
    "take": lambda t, x, s, i, at, m: x.take(at - 2),
    "put": lambda t, x, s, i, at, m: x.put(i[:2], s[0, :2]),
    "put adding": lambda t, x, s, i, at, m: x.put(at, s, accumulate=True),
    "take_along_dim": lambda t, x, s, i, at, m: t.take_along_dim(x, at[:1] - 1, 0),
    "take_along_dim of all": lambda t, x, s, i, at, m: t.take_along_dim(x.contiguous(), at),
    "masked_select": lambda t, x, s, i, at, m: x.masked_select(m),
    "masked_scatter": lambda t, x, s, i, at, m: x.masked_scatter(m, s),
    "a mask": lambda t, x, s, i, at, m: x[m],
    "a mask of rows": lambda t, x, s, i, at, m: x[m[:, 0], 1:],
    "two indices": lambda t, x, s, i, at, m: x[at, i],
    "flip": lambda t, x, s, i, at, m: x.flip(0, 1),
    "roll": lambda t, x, s, i, at, m: x.roll((1, -2), (0, 1)),
    "roll of all": lambda t, x, s, i, at, m: x.roll(5),
    "tril": lambda t, x, s, i, at, m: x.tril(-1),
    "triu": lambda t, x, s, i, at, m: x.triu(1),
    "repeat_interleave": lambda t, x, s, i, at, m: x.repeat_interleave(2, 1),
    "repeat_interleave by a tensor": lambda t, x, s, i, at, m: x.repeat_interleave(t.tensor([2, 0, 1, 3]), 0),
    "constant_pad_nd": lambda t, x, s, i, at, m: t.constant_pad_nd(x, (1, -1, 0, 2), 1),
    "unfold": lambda t, x, s, i, at, m: x.unfold(0, 2, 1),
    "diagonal": lambda t, x, s, i, at, m: x.diagonal(-1),
}
REDUCED = {
    f"{op} {reduce}{' anew' * (not keep)}": (
        lambda t, x, s, i, at, m, op=op, reduce=reduce, keep=keep:
            getattr(x, op)(0, i if op == "index_reduce" else at, s, reduce, include_self=keep))
    for op, names in (("index_reduce", "prod mean amax amin"), ("scatter_reduce", "sum prod mean amax amin"))
    for reduce in names.split() for keep in (True, False)
}
LAYOUTS = {
    "plain": lambda t, x: x,
    "transposed": lambda t, x: x.t().contiguous().t(),
    "sliced": lambda t, x: t.stack([x, x], -1)[..., 1],
    "expanded": lambda t, x: x[:1].expand(x.shape),
}
SELECTED = [[0.0, 1, -2], [3, 1, 0], [2, -1, 1], [1, 0, 2]]
SOURCE = [[1.0, 0, 3], [2, 2, -1], [0, 1, 4]]


def operands(lib, dtype):
    kind = getattr(lib, dtype)
    x, s = lib.tensor(SELECTED).abs().to(kind), lib.tensor(SOURCE).abs().to(kind)
    if dtype not in ("bool", "uint8"):
        x, s = lib.tensor(SELECTED).to(kind), lib.tensor(SOURCE).to(kind)
    mask = lib.tensor([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]]).bool()
    return x, s, lib.tensor([2, 0, 2]), lib.tensor([[0, 2, 0], [2, 0, 0], [2, 0, 2]]), mask


def outcome(f, *args):
    try:
        y = f(*args)
    except (RuntimeError, IndexError, TypeError, NotImplementedError) as error:
        return type(error).__name__
    return str(y.dtype), tuple(y.shape), tuple(y.stride()), y.tolist()


def close(got, expected):
    if not isinstance(got, tuple) or not isinstance(expected, tuple) or got[:3] != expected[:3]:
        return got == expected
    return torch.allclose(torch.tensor(got[3]), torch.tensor(expected[3]), rtol=2e-3, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES | REDUCED)
def test_every_dtype_and_layout(name):
    f = (CASES | REDUCED)[name]
    for dtype in DTYPES:
        if not hasattr(cygrad, dtype):
            continue
        for layout in LAYOUTS.values():
            expected, got = (outcome(f, lib, *(
                layout(lib, v) if k < 2 else v for k, v in enumerate(operands(lib, dtype)))) for lib in (torch, cygrad))
            assert expected == "NotImplementedError" or close(got, expected), (dtype, got, expected)


def derivatives(lib, f):
    """First and second gradients of x and s under a nonlinear sum."""
    x, s, *rest = operands(lib, "float64")
    x, s = (x + 0.5).requires_grad_(), (s - 0.25).requires_grad_()
    y = f(lib, x, s, *rest)
    if not y.requires_grad:
        return []
    weights = (lib.arange(y.numel()).reshape(y.shape) + 1).to(y.dtype).sqrt().requires_grad_()
    first = lib.autograd.grad(y, [x, s], weights, create_graph=True, allow_unused=True)
    total = sum((g * g * (k + 1)).sum() for k, g in enumerate(first) if g is not None)
    second = lib.autograd.grad(total, [x, s, weights], allow_unused=True)
    return [None if g is None else g.tolist() for g in (*first, *second)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES | REDUCED)
def test_gradients_of_both_orders(name):
    f = (CASES | REDUCED)[name]
    expected, got = derivatives(torch, f), derivatives(cygrad, f)
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if b is None or a is None:
            assert all(v is None or not torch.tensor(v).any() for v in (a, b))
        else:
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b))


IN_PLACE = {
    "index_add_": lambda x, s, i, at, m: x.index_add_(0, i, s, alpha=2),
    "index_copy_": lambda x, s, i, at, m: x.index_copy_(0, i[:2], s[:2]),
    "index_fill_": lambda x, s, i, at, m: x.index_fill_(0, i, 2.5),
    "index_put_": lambda x, s, i, at, m: x.index_put_((i,), s, accumulate=True),
    "index_reduce_": lambda x, s, i, at, m: x.index_reduce_(0, i, s, "mean"),
    "scatter_": lambda x, s, i, at, m: x.scatter_(0, at, s),
    "scatter_ of a number": lambda x, s, i, at, m: x.scatter_(0, at, 3),
    "scatter_add_": lambda x, s, i, at, m: x.scatter_add_(0, at, s),
    "scatter_reduce_": lambda x, s, i, at, m: x.scatter_reduce_(0, at, s, "prod"),
    "put_": lambda x, s, i, at, m: x.put_(at, s, accumulate=True),
    "masked_fill_": lambda x, s, i, at, m: x.masked_fill_(m, 2),
    "masked_scatter_": lambda x, s, i, at, m: x.masked_scatter_(m, s),
    "tril_": lambda x, s, i, at, m: x.tril_(),
    "triu_": lambda x, s, i, at, m: x.triu_(1),
    "a mask": lambda x, s, i, at, m: x.__setitem__(m, 2.0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("view", [False, True], ids=["tensor", "view"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, view):
    """The value, the version, and gradients through the write, also where it goes through a view."""
    found = []
    for lib in (torch, cygrad):
        x, s, *rest = operands(lib, "float64")
        x, s = (x + 0.5).requires_grad_(), (s - 0.25).requires_grad_()
        base = lib.cat([x, x], 1) * 2
        part = base[:, 1:4] if view else base
        if not view:
            part = base = x * 2
        IN_PLACE[name](part, s, *rest)
        grads = lib.autograd.grad((base * base).sum(), [x, s], allow_unused=True)
        found.append((base.tolist(), [None if g is None else g.tolist() for g in grads]))
        assert part._version == 1
    torch.testing.assert_close(torch.tensor(found[1][0]), torch.tensor(found[0][0]))
    for a, b in zip(found[1][1], found[0][1], strict=True):
        torch.testing.assert_close(torch.tensor(a or 0.0), torch.tensor(b or 0.0))


@pytest.mark.parametrize("name", [n for n in IN_PLACE if n != "a mask"])
def test_memory_that_overlaps_is_refused(name):
    x, s, *rest = operands(cygrad, "float64")
    wide = x[:1].clone().expand(4, 3)
    before = wide.tolist()
    with pytest.raises(RuntimeError, match=r"clone\(\)"):
        IN_PLACE[name](wide, s, *rest)
    assert wide.tolist() == before


@pytest.mark.parametrize("name", ["index_add_", "index_copy_", "index_put_", "index_reduce_", "scatter_",
                                  "scatter_add_", "scatter_reduce_", "put_", "masked_scatter_"])
def test_a_source_in_the_memory_written_to_is_refused(name):
    x, _, *rest = operands(cygrad, "float64")
    before = x.tolist()
    with pytest.raises(RuntimeError, match=r"clone\(\)"):
        IN_PLACE[name](x, x[:3], *rest)
    assert x.tolist() == before


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_one_result_for_every_number_of_threads(dtype, threads):
    kind = getattr(cygrad, dtype)
    generator = cygrad.Generator().manual_seed(0)
    x = (cygrad.rand(300, 500, generator=generator) * 8).to(kind)
    s = (cygrad.rand(400, 500, generator=generator) * 8).to(kind)
    rows = cygrad.randint(0, 300, (400,), generator=generator)
    at = cygrad.randint(0, 300, (400, 500), generator=generator)
    flat = cygrad.randint(0, 150000, (200000,), generator=generator)
    mask = x > 4

    def run():
        y = x.scatter_add(0, at, s).index_put((rows,), s, accumulate=True).put(flat, s.view(-1), accumulate=True)
        return [y, x.index_add(0, rows, s), x.index_copy(0, rows, s), x.scatter(0, at, s), x.gather(0, at[:300]),
                x.t().index_reduce(1, rows, s.t(), "mean"), x.masked_select(mask), mask.nonzero(), x.take(flat),
                x.masked_scatter(mask, s), x[rows, flat[:400] % 500], x[:, flat % 500].sum(0), x.tril(3), x.flip(0)]

    one, two = threads(run)
    assert all(map(cygrad.equal, one, two))


BAD = {
    "index_select: negative": lambda t, x, s, i: x.index_select(0, t.tensor([-1])),
    "index_select: floats": lambda t, x, s, i: x.index_select(0, t.tensor([0.0])),
    "index_select: a matrix": lambda t, x, s, i: x.index_select(0, t.tensor([[0]])),
    "index_add_: too large": lambda t, x, s, i: x.index_add_(0, t.tensor([4, 0, 0]), s),
    "index_add_: another dtype": lambda t, x, s, i: x.index_add_(0, i, s.double()),
    "index_add_: another shape": lambda t, x, s, i: x.index_add_(0, i, s[:, :2]),
    "index_add_: too few": lambda t, x, s, i: x.index_add_(0, i[:2], s),
    "index_copy_: too few": lambda t, x, s, i: x.index_copy_(0, i[:2], s),
    "index_copy_: negative": lambda t, x, s, i: x.index_copy_(0, t.tensor([-1, 0, 0]), s),
    "index_copy_: int32": lambda t, x, s, i: x.index_copy_(0, i.int(), s),
    "index_fill_: too large": lambda t, x, s, i: x.index_fill_(0, t.tensor([0, 4]), 1.0),
    "index_fill_: a vector": lambda t, x, s, i: x.index_fill_(0, i, s[0]),
    "index_reduce_: sum": lambda t, x, s, i: x.index_reduce_(0, i, s, "sum"),
    "gather: too large": lambda t, x, s, i: x.gather(0, t.tensor([[4]])),
    "gather: another rank": lambda t, x, s, i: x.gather(0, t.tensor([0])),
    "gather: too wide": lambda t, x, s, i: x.gather(0, t.zeros(1, 4).long()),
    "scatter_: negative": lambda t, x, s, i: x.scatter_(0, t.tensor([[0, -1]]), s),
    "scatter_: a small source": lambda t, x, s, i: x.scatter_(0, t.zeros(2, 3).long(), s[:1]),
    "scatter_: no reduction": lambda t, x, s, i: x.scatter_(0, t.zeros(1, 3).long(), s, reduce="mean"),
    "scatter_: nothing": lambda t, x, s, i: x.scatter_(0, t.zeros(1, 3).long()),
    "scatter_reduce_: no name": lambda t, x, s, i: x.scatter_reduce_(0, t.zeros(1, 3).long(), s, "median"),
    "take: too large": lambda t, x, s, i: x.take(t.tensor([12])),
    "take: of nothing": lambda t, x, s, i: x[:0].take(t.tensor([0])),
    "put_: too few": lambda t, x, s, i: x.put_(i, s),
    "put_: too large": lambda t, x, s, i: x.put_(t.tensor([0, 12]), s[0, :2]),
    "masked_select: numbers": lambda t, x, s, i: x.masked_select(t.ones(4, 3).long()),
    "masked_scatter_: too few": lambda t, x, s, i: x.masked_scatter_(t.ones(4, 3).bool(), s),
    "masked_scatter_: a large mask": lambda t, x, s, i: x.masked_scatter_(t.ones(2, 4, 3).bool(), s),
    "take_along_dim: another rank": lambda t, x, s, i: t.take_along_dim(x, i, 0),
    "take_along_dim: other sizes": lambda t, x, s, i: t.take_along_dim(x, t.zeros(3, 2).long(), 0),
    "unravel_index: floats": lambda t, x, s, i: t.unravel_index(x, (3, 4)),
    "unravel_index: a negative size": lambda t, x, s, i: t.unravel_index(i, (-3,)),
    "flip: twice": lambda t, x, s, i: x.flip(0, -2),
    "flip: no dimension": lambda t, x, s, i: x.flip(2),
    "roll: too few": lambda t, x, s, i: x.roll((1, 2), 0),
    "tril_: a vector": lambda t, x, s, i: x[0].tril_(),
    "repeat_interleave: negative": lambda t, x, s, i: x.repeat_interleave(-1),
    "repeat_interleave: negative ones": lambda t, x, s, i: x.repeat_interleave(t.tensor([1, -1, 1, 1]), 0),
    "repeat_interleave: too few": lambda t, x, s, i: x.repeat_interleave(i, 0),
    "repeat_interleave: another size": lambda t, x, s, i: x.repeat_interleave(2, 0, output_size=7),
    "constant_pad_nd: one": lambda t, x, s, i: t.constant_pad_nd(x, (1,)),
    "constant_pad_nd: cut off": lambda t, x, s, i: t.constant_pad_nd(x, (-2, -2)),
    "where: floats": lambda t, x, s, i: t.where(x, x, x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_what_pytorch_raises_and_changes_nothing(name):
    types = []
    for lib in (torch, cygrad):
        x, s, i, *_ = operands(lib, "float32")
        before = x.tolist()
        with pytest.raises(Exception) as caught:
            BAD[name](lib, x, s, i)
        types.append(caught.type)
        assert lib is torch or x.tolist() == before
    assert types[1] is types[0]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1)], ids=str)
def test_nothing_and_single_elements(shape):
    for f in (lambda t, x: x.nonzero(), lambda t, x: t.argwhere(x), lambda t, x: x.masked_select(x > 0),
              lambda t, x: x.flip(tuple(range(x.ndim))), lambda t, x: x.take(t.zeros(0).long()),
              lambda t, x: x[x > 0], lambda t, x: x.roll(1), lambda t, x: t.constant_pad_nd(x, ()),
              lambda t, x: x.index_select(0, t.zeros(0 if x.ndim else 1).long()), lambda t, x: x.repeat_interleave(2)):
        assert outcome(f, cygrad, cygrad.ones(shape)) == outcome(f, torch, torch.ones(shape))


def test_numbers_of_elements_as_coordinates():
    for shape in ((3, 4), (2, 3, 5), 12, ()):
        index = [[0, 5, 11], [7, 1, 2]] if shape != () else 0
        expected = torch.unravel_index(torch.tensor(index), shape)
        got = cygrad.unravel_index(cygrad.tensor(index), shape)
        assert [(g.tolist(), g.stride()) for g in got] == [(e.tolist(), e.stride()) for e in expected]


@pytest.mark.parametrize("value", [float("nan"), -0.0, 0.0, 1.0])
def test_what_counts_as_nonzero(value):
    for dtype in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"):
        if hasattr(cygrad, dtype):
            x = cygrad.tensor([value, 0.0], dtype=getattr(cygrad, dtype))
            assert x.nonzero().tolist() == ([[0]] if value else []), dtype


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("op", ["index_reduce", "scatter_reduce"])
def test_gradients_of_complex_products(op, include_self):
    parts = [[1.0 + 2j, 0.5 - 1j, -2j, 1.5], [0.3 + 1j, 2 - 0.5j, -1 + 1j, 0.7 + 0.1j]]
    x, src = (cygrad.view_as_real(cygrad.tensor(p, dtype=cygrad.complex128)).requires_grad_() for p in parts)
    index = cygrad.tensor([0, 2, 2, 0])

    def f(x, src):
        x, src = cygrad.view_as_complex(x), cygrad.view_as_complex(src)
        return cygrad.view_as_real(getattr(x, op)(0, index, src, "prod", include_self=include_self))

    assert gradcheck(f, (x, src))
    assert gradgradcheck(f, (x, src))
    zero = src.detach().clone()
    zero[1] = 0
    assert gradcheck(f, (x, zero.requires_grad_()))


@pytest.mark.parametrize("n", [7, 8, 9, 511, 513, 40_001])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_writing_under_masks_of_any_length_and_density(n, share):
    """What is not under the mask stays; the elements of the source come in order."""
    cygrad.manual_seed(n)
    x, source = cygrad.randn(n, 2)[:, 0], cygrad.randn(n)
    for hit in (cygrad.rand(n) < share, (cygrad.rand(n, 2) < share)[:, 1]):
        values, mask = x.tolist(), hit.tolist()
        taken = iter(source.tolist())
        want = [next(taken) if m else v for m, v in zip(mask, values, strict=True)]
        assert x.clone().masked_scatter_(hit, source).tolist() == want
        target = cygrad.zeros(n, 3)[:, 1].copy_(x)
        target[hit] = source[: sum(mask)]
        assert target.tolist() == want
        target[hit] = 7.0
        assert target.tolist() == [7.0 if m else v for m, v in zip(mask, values, strict=True)]

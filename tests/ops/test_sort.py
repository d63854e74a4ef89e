"""Sorting, selection, search and sets: every layout and length, and the same for any number of threads."""

import numpy as np
import pytest

import cygrad

NAN, INF = float("nan"), float("inf")
DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
)
# either side of insertion, merging and radix sorting, of one thread and several
LENGTHS = (0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 255, 256, 257, 511, 513, 1000)


def make(shape, dtype, seed=0, few=False):
    """A tensor with ties; floats hold both zeros, infinities and NaN."""
    g = np.random.default_rng(seed)
    if dtype == "bool":
        return cygrad.tensor((g.random(shape) < 0.5).tolist(), dtype=cygrad.bool).reshape(shape)
    kind = getattr(cygrad, dtype)
    if kind.is_floating_point:
        x = g.integers(-3, 4, shape) if few else g.normal(size=shape) * 10.0 ** g.integers(-3, 4, shape)
        x = np.asarray(x, "f8")
        special = g.random(shape)
        for k, value in enumerate((NAN, INF, -INF, -0.0, 0.0)):
            x[(special > k * 0.04) & (special < k * 0.04 + 0.03)] = value
        return cygrad.tensor(x.tolist(), dtype=kind).reshape(shape)
    info = cygrad.iinfo(kind)
    low, high = (0, 5) if few else (info.min, min(info.max, 2**63 - 1))
    return cygrad.tensor(
        g.integers(low, high, shape, dtype="uint64" if low >= 0 else "int64").tolist(), dtype=kind
    ).reshape(shape)


def key(x):
    """An array of Python objects in our order: NaN last."""
    return [(v != v, 0 if v != v else v) for v in x]


def order(values, descending=False):
    keys = key(values)
    if descending:
        keys = [(not nan, -value) for nan, value in keys]
    return sorted(range(len(keys)), key=keys.__getitem__)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable(dtype, descending):
    for n in LENGTHS:
        for few in (False, True):
            x = make((n,), dtype, n, few)
            values, indices = x.sort(descending=descending)
            want = order(x.tolist(), descending)
            assert indices.tolist() == want
            assert repr(values.tolist()) == repr([x.tolist()[i] for i in want])  # repr tells -0.0 from 0.0
            assert (values.dtype, indices.dtype) == (x.dtype, cygrad.int64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorted_and_reversed_input(dtype):
    for n in (20, 300, 3000):
        x = make((n,), dtype, n).sort()[0]
        for y in (x, x[cygrad.arange(n - 1, -1, -1)]):
            assert y.sort()[1].tolist() == order(y.tolist())
            if dtype != "bool":
                for largest in (False, True):
                    got = y.topk(min(n, 20), largest=largest)[1]
                    assert got.tolist() == order(y.tolist(), largest)[:20]


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 2),
    "permuted": lambda x: x.permute(1, 2, 0),
    "steps": lambda x: x[::2, :, 1::3],
    "expanded": lambda x: x[:, :1].expand(-1, 4, -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "float64"])
def test_layouts_and_dimensions(dtype, layout):
    x = LAYOUTS[layout](make((5, 7, 9), dtype, 1))
    array = np.asarray(x.tolist())
    for dim in (-3, -2, -1, 0, 1, 2):
        np.testing.assert_array_equal(np.asarray(x.sort(dim)[0].tolist()), np.sort(array, dim))
        np.testing.assert_array_equal(np.asarray(x.argsort(dim).tolist()), np.argsort(array, dim, kind="stable"))
    np.testing.assert_array_equal(np.asarray(x.msort().tolist()), np.sort(array, 0))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_the_first_of_the_sorted(dtype, largest):
    for n in (1, 5, 40, 700):
        for few in (False, True):
            x = make((3, n), dtype, n, few)
            values, indices = x.sort(descending=largest)
            for k in {0, 1, n // 3, n // 2 - 1, n // 2, n - 1, n} & set(range(n + 1)):
                got = x.topk(k, largest=largest)
                assert got.indices.tolist() == indices[:, :k].tolist()
                assert repr(got.values.tolist()) == repr(values[:, :k].tolist())


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_kthvalue(dtype):
    for n in (1, 2, 40, 300):
        x = make((n, 3), dtype, n, True)
        values, indices = x.sort(0)
        for k in {1, n // 2, n} - {0}:
            got = x.kthvalue(k, 0)
            assert repr(got.values.tolist()) == repr(values[k - 1].tolist())
            assert got.indices.tolist() == indices[k - 1].tolist()
            assert x.kthvalue(k, 0, keepdim=True)[0].shape == (1, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
def test_few_of_a_long_line(dtype):
    """Where a sample says what is worth a look; it may mislead."""
    n = 40_000
    sampled = n * np.arange(1024) // 1024
    noise, lone, buried = np.random.default_rng(0).standard_normal(n) * 50, np.zeros(n), np.full(n, 5)
    lone[sampled], buried[sampled] = 7, 1
    for values in (abs(noise), lone, buried, np.full(n, 3), np.arange(n) // 200, np.arange(n)[::-1] // 200):
        x = cygrad.tensor(values.astype(dtype))
        for largest in (True, False):
            places = x.sort(descending=largest, stable=True).indices
            for k in (1, 40, n // 8):
                assert cygrad.equal(x.topk(k, largest=largest).indices, places[:k])
                assert largest or x.kthvalue(k).indices == places[k - 1]


def test_threads_change_nothing():
    cases = [
        make((300_000,), "float32", 1),
        make((200_000,), "int64", 2, True),
        make((50, 4000), "float64", 3),
        make((3, 70_000), "int32", 4).t(),
        make((100_000,), "uint8", 5),
        make((140_000,), "float64", 6)[::2],
        make((70_000,), "float16", 7),
    ]
    before = cygrad.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            cygrad.set_num_threads(threads)
            results.append(
                [
                    (a.numpy().tobytes(), b.numpy().tobytes())
                    for x in cases
                    for a, b in (x.sort(0), x.sort(-1, True), x.topk(2, 0))
                ]
            )
    finally:
        cygrad.set_num_threads(before)
    assert results[0] == results[1] == results[2]
    np.testing.assert_array_equal(cases[0].sort()[1].numpy(), np.argsort(cases[0].numpy(), kind="stable"))
    np.testing.assert_array_equal(cases[1].sort()[1].numpy(), np.argsort(cases[1].numpy(), kind="stable"))


def test_edges():
    zero_d = cygrad.tensor(3.0)
    assert [t.item() for t in zero_d.sort()] == [3.0, 0]
    assert [t.item() for t in zero_d.topk(1)] == [3.0, 0]
    assert [t.item() for t in zero_d.kthvalue(1)] == [3.0, 0]
    assert zero_d.msort().item() == 3.0
    assert cygrad.zeros(3, 0).sort()[0].shape == (3, 0)
    assert cygrad.zeros(0, 3).sort(0)[1].shape == (0, 3)
    assert cygrad.zeros(0, 3).topk(1)[0].shape == (0, 1)
    assert cygrad.zeros(0, 3).kthvalue(2)[0].shape == (0,)
    assert cygrad.zeros(4, 6).t().sort(0)[0].stride() == (1, 6)
    assert cygrad.zeros(4, 6).t().sort(0)[1].stride() == (1, 6)
    assert cygrad.zeros(4, 6).t().topk(2, 0)[0].stride() == (4, 1)
    out = cygrad.empty(0), cygrad.empty(0, dtype=cygrad.int64)
    assert cygrad.sort(cygrad.tensor([2.0, 1.0]), out=out)[0] is out[0]
    assert out[0].tolist() == [1, 2]
    assert out[1].tolist() == [1, 0]


def test_named_results():
    values, indices = got = cygrad.sort(cygrad.tensor([2, 1]), stable=True)
    assert got.values is values
    assert got.indices is indices
    assert repr(got) == "torch.return_types.sort(\nvalues=tensor([1, 2]),\nindices=tensor([1, 0]))"


REFUSED = {
    "dimension": (lambda: cygrad.zeros(3).sort(1), IndexError, "1"),
    "0-d dimension": (lambda: cygrad.tensor(1).sort(1), IndexError, "1"),
    "no tensor": (lambda: cygrad.sort([1, 2]), TypeError, "Tensor, not list"),
    "k too large": (lambda: cygrad.zeros(3).topk(4), RuntimeError, "k=4"),
    "k negative": (lambda: cygrad.zeros(3).topk(-1), RuntimeError, "k=-1"),
    "k float": (lambda: cygrad.zeros(3).topk(1.5), TypeError, "'k' must be int, not float"),
    "k bool": (lambda: cygrad.zeros(3).topk(True), TypeError, "bool"),
    "topk of bool": (lambda: cygrad.tensor([True]).topk(1), RuntimeError, "bool"),
    "rank 0": (lambda: cygrad.zeros(3).kthvalue(0), RuntimeError, "k=0"),
    "rank too large": (lambda: cygrad.zeros(3).kthvalue(4), RuntimeError, "k=4"),
    "rank of nothing": (lambda: cygrad.zeros(3, 0).kthvalue(1), IndexError, "non-zero"),
    "kthvalue of bool": (lambda: cygrad.tensor([True]).kthvalue(1), NotImplementedError, "bool"),
    "huge line": (lambda: cygrad.zeros(1).expand(2**33).kthvalue(1), RuntimeError, f"{2**32 - 1} .*{2**33}"),
    "search dtypes": (lambda: cygrad.searchsorted(cygrad.zeros(3), cygrad.tensor([1])), RuntimeError, "float32.*int64"),
    "search shapes": (
        lambda: cygrad.searchsorted(cygrad.zeros(2, 2), cygrad.zeros(2)),
        RuntimeError,
        r"\[2, 2\].*\[2\]",
    ),
    "search side": (lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, side="x"), RuntimeError, "x"),
    "search sides": (
        lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, side="left", right=True),
        RuntimeError,
        "opposites",
    ),
    "sorter range": (
        lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, sorter=cygrad.tensor([0, 7])),
        RuntimeError,
        "7 of 2",
    ),
    "sorter dtype": (
        lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, sorter=cygrad.zeros(2)),
        RuntimeError,
        "float32",
    ),
    "sorter shape": (
        lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, sorter=cygrad.tensor([0])),
        RuntimeError,
        "same size",
    ),
    "buckets": (lambda: cygrad.bucketize(1.0, cygrad.zeros(2, 2)), RuntimeError, r"dim\(2\)"),
    "search out": (
        lambda: cygrad.searchsorted(cygrad.zeros(2), 1.0, out=cygrad.empty(0, dtype=cygrad.int32)),
        RuntimeError,
        "int64",
    ),
    "search bool": (
        lambda: cygrad.searchsorted(cygrad.tensor([False]), cygrad.tensor([True])),
        NotImplementedError,
        "bool",
    ),
    "unique of 0-d": (lambda: cygrad.tensor(3).unique(dim=0), IndexError, "no dimensions"),
    "unique of empty slices": (lambda: cygrad.zeros(2, 0).unique(dim=0), RuntimeError, "0 sized"),
    "isin of numbers": (lambda: cygrad.isin(1, 2), TypeError, "int"),
    "isin of bool": (lambda: cygrad.isin(cygrad.tensor([True]), cygrad.tensor([1])), RuntimeError, "bool"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


# ---- gradients


@pytest.mark.parametrize(
    ("name", "call"),
    {
        "sort": lambda x: x.sort(1, descending=True)[0],
        "msort": lambda x: x.msort(),
        "topk": lambda x: x.topk(2, 0)[0],
        "kthvalue": lambda x: x.kthvalue(2, 1)[0],
        "kthvalue keepdim": lambda x: x.kthvalue(2, 0, keepdim=True)[0],
    }.items(),
)
def test_gradients(name, call):
    from cygrad.autograd import gradcheck, gradgradcheck

    x = cygrad.tensor(np.random.default_rng(3).permutation(20).reshape(4, 5).astype("f8") / 3, requires_grad=True)
    assert gradcheck(lambda t: call(t) ** 2, (x,))
    assert gradgradcheck(lambda t: call(t) ** 3, (x,))


# ---- search


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("right", [False, True])
def test_search(dtype, right):
    for n in (0, 1, 7, 200):
        bounds = cygrad.tensor(
            [v for v in make((n,), dtype, n).sort()[0].tolist() if v == v] or [], dtype=getattr(cygrad, dtype)
        )
        x = make((30, 4), dtype, 5)
        want = [
            [sum(b <= v if right else b < v for b in bounds.tolist()) if v == v else len(bounds) for v in row]
            for row in x.tolist()
        ]
        assert cygrad.searchsorted(bounds, x, right=right).tolist() == want
        assert cygrad.searchsorted(bounds, x, side="right" if right else "left").tolist() == want
        narrow = cygrad.bucketize(x.t(), bounds, right=right, out_int32=True)
        assert narrow.dtype == cygrad.int32
        assert narrow.t().tolist() == want


def test_search_in_batches_and_by_sorter():
    g = np.random.default_rng(1)
    bounds, values = g.normal(size=(3, 2, 9)), g.normal(size=(3, 2, 5000))
    want = [
        [np.searchsorted(np.sort(b), v) for b, v in zip(bs, vs, strict=True)]
        for bs, vs in zip(bounds, values, strict=True)
    ]
    b, v = cygrad.tensor(bounds), cygrad.tensor(values)
    np.testing.assert_array_equal(cygrad.searchsorted(b.sort()[0], v).numpy(), want)
    np.testing.assert_array_equal(cygrad.searchsorted(b, v, sorter=b.argsort()).numpy(), want)
    assert cygrad.searchsorted(cygrad.tensor([1, 2, 3]), 2.5).item() == 2
    assert cygrad.bucketize(2, cygrad.tensor([1.0, 2.0])).item() == 1


# ---- sets


def test_unique_of_all_elements():
    x = cygrad.tensor([[3, 1, 2], [1, 3, 3]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 3], [[2, 0, 1], [0, 2, 2]], [2, 1, 3])
    values, counts = cygrad.unique(cygrad.tensor([NAN, 0.0, NAN, -0.0]), return_counts=True)
    assert repr(values.tolist()) == "[0.0, nan, nan]"
    assert counts.tolist() == [2, 1, 1]
    assert [t.tolist() for t in cygrad.zeros(0).unique(return_inverse=True, return_counts=True)] == [[], [], []]
    assert [t.tolist() for t in cygrad.tensor(4).unique(return_inverse=True)] == [[4], 0]


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_unique_slices(dim):
    x = np.random.default_rng(2).integers(0, 2, (6, 5, 2))
    want = np.unique(x, axis=dim, return_inverse=True, return_counts=True)
    got = cygrad.unique(cygrad.tensor(x), dim=dim, return_inverse=True, return_counts=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.reshape(a.shape))


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_unique_slices_are_laid_out_as_of_a_row_major_input(dim):
    x = cygrad.arange(24).view(2, 3, 4)
    for f in (cygrad.unique, cygrad.unique_consecutive):
        turned = f(x.permute(2, 1, 0).contiguous().permute(2, 1, 0), dim=dim)
        assert turned.stride() == f(x, dim=dim).stride() and turned.tolist() == x.tolist()


def test_unique_consecutive():
    x = cygrad.tensor([1, 1, 2, 2, 3, 1, 1])
    got = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert [t.tolist() for t in got] == [[1, 2, 3, 1], [0, 0, 1, 1, 2, 3, 3], [2, 2, 1, 2]]
    rows = cygrad.tensor([[1, 1], [1, 1], [2, 1]])
    assert cygrad.unique_consecutive(rows, dim=0).tolist() == [[1, 1], [2, 1]]
    assert cygrad.unique_consecutive(rows, dim=1, return_counts=True)[1].tolist() == [1, 1]


def test_isin():
    x = cygrad.tensor([[1, 2], [3, 4]])
    assert cygrad.isin(x, cygrad.tensor([2, 4, 9])).tolist() == [[False, True], [False, True]]
    assert cygrad.isin(x, cygrad.tensor([2.0, NAN]), invert=True).tolist() == [[True, False], [True, True]]
    assert cygrad.isin(x, 3).tolist() == [[False, False], [True, False]]
    assert cygrad.isin(2, x).item()
    assert not cygrad.isin(cygrad.tensor([NAN]), cygrad.tensor([NAN])).item()
    assert cygrad.isin(x, cygrad.zeros(0)).tolist() == [[False, False], [False, False]]
    assert cygrad.isin(elements=x, test_element=4).tolist() == [[False, False], [False, True]]


# ---- PyTorch


def tuple_of(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


def same(ours, theirs):
    for a, b in zip(tuple_of(ours), tuple_of(theirs), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert a.stride() == b.stride()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_as_pytorch(seed, transposed):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(seed).integers(0, 6, (4, 30)).astype("f4")
    x[x == 5] = NAN
    a, b = cygrad.tensor(x), torch.tensor(x)
    if transposed:
        a, b = a.t(), b.t()
    more = {"return_inverse": True, "return_counts": True}
    for descending in (False, True):
        same(*(t.sort(dim=0, descending=descending, stable=True) for t in (a, b)))
        same(*(t.topk(3, largest=descending)[0] for t in (a, b)))
    same(*(t.kthvalue(2, 1)[0] for t in (a, b)))
    same(*(t.unique_consecutive(**more) for t in (a, b)))
    same(*(t.unique(**more)[::2] for t in (a, b)))  # NaN may be at other places
    same(*(t.nan_to_num().unique(dim=0, **more) for t in (a, b)))
    bounds = np.array([0, 1, 1, 3, NAN], "f4")
    for right in (False, True):
        same(
            cygrad.searchsorted(cygrad.tensor(bounds), a.contiguous(), right=right),
            torch.searchsorted(torch.tensor(bounds), b.contiguous(), right=right),
        )


# ---- other people's memory


def test_the_result_may_go_where_the_input_is():
    x, places = cygrad.tensor([3.0, 1.0, 2.0]), cygrad.tensor([7, 7, 7])
    cygrad.sort(x, out=(x, places))
    assert x.tolist() == [1, 2, 3]
    assert places.tolist() == [1, 2, 0]


def test_read_only_memory_is_read_and_never_written():
    array = np.array([3.0, 1.0, 2.0])
    array.flags.writeable = False
    x = cygrad.frombuffer(memoryview(array), dtype=cygrad.float64)
    assert x.sort()[0].tolist() == [1, 2, 3]
    for write in (
        lambda: x.uniform_(),
        lambda: x.exponential_(),
        lambda: x.bernoulli_(x * 0),
        lambda: x.random_(3),
        lambda: cygrad.sort(x, out=(x, cygrad.tensor([0, 0, 0]))),
        lambda: cygrad.rand(3, out=x),
    ):
        with pytest.raises((RuntimeError, ValueError), match="read-only"):
            write()
    assert array.tolist() == [3, 1, 2]


def test_any_nonzero_byte_is_true():
    memory = bytearray([2, 0, 255, 1, 0])
    x = cygrad.frombuffer(memory, dtype=cygrad.bool)
    assert x.sort()[1].tolist() == [1, 4, 0, 2, 3]
    assert x.unique(return_counts=True)[1].tolist() == [2, 3]

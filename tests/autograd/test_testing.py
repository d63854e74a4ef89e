"""cygrad.testing: what is close, in which words it is told that something is not, and the numbers of make_tensor."""

import collections
import warnings

import pytest

import cygrad

NAN, INF = float("nan"), float("inf")
CLOSE = {
    "floats": lambda lib: (lib.tensor([1.0, 2]), lib.tensor([1.0, 2 + 1e-6])),
    "halves": lambda lib: (lib.tensor([2.0]).bfloat16(), lib.tensor([2.03]).bfloat16()),
    "infinities": lambda lib: (lib.tensor([INF, -INF]), lib.tensor([INF, -INF])),
    "none": lambda lib: (lib.ones(0, 3), lib.ones(0, 3)),
    "strides": lambda lib: (lib.ones(2, 3), lib.ones(3, 2).t()),
    "subclass": lambda lib: (lib.nn.Parameter(lib.ones(2)), lib.ones(2)),
    "numbers": lambda lib: (1.0, 1 + 1e-9),
    "list and tuple": lambda lib: ([1, [2.0, None]], (1, (2.0, None))),
    "mappings": lambda lib: ({"a": 1, "b": True}, collections.OrderedDict(b=True, a=1)),
    "sequences": lambda lib: (range(3), [0, 1, 2]),
}
FAR = {
    "vectors": lambda lib: ((lib.tensor([1.0, 2, 3]), lib.tensor([1.0, 4, 5])), {}),
    "matrices": lambda lib: ((lib.tensor([[1.0, 2, 3], [0, 0, 7]]), lib.tensor([[1.0, 2, 3], [0, 1, 2]])), {}),
    "integers": lambda lib: ((lib.tensor([1, 2]), lib.tensor([1, 4])), {}),
    "bytes": lambda lib: ((lib.tensor([1], dtype=lib.uint8), lib.tensor([200], dtype=lib.uint8)), {}),
    "truth": lambda lib: ((lib.tensor([True, False]), lib.tensor([False, False])), {}),
    "complex": lambda lib: ((lib.tensor([1 + 1j, 2]), lib.tensor([1 + 1j, 2.5])), {}),
    "nan": lambda lib: ((lib.tensor([NAN, 1]), lib.tensor([NAN, 1])), {}),
    "signs": lambda lib: ((lib.tensor([INF, 1]), lib.tensor([-INF, 1])), {}),
    "scalar": lambda lib: ((lib.tensor(1.0), lib.tensor(2.0)), {}),
    "shape": lambda lib: ((lib.ones(2, 3), lib.ones(3, 2)), {}),
    "dtype": lambda lib: ((lib.ones(2), lib.ones(2).double()), {}),
    "other dtype": lambda lib: ((lib.ones(2), lib.zeros(2).int()), {"check_dtype": False}),
    "stride": lambda lib: ((lib.ones(2, 3), lib.ones(3, 2).t()), {"check_stride": True}),
    "number types": lambda lib: ((1.0, 1), {}),
    "exact": lambda lib: ((1e-9, 1e-10), {"rtol": 0, "atol": 0}),
    "one tolerance": lambda lib: ((1.0, 1.0), {"rtol": 0.1}),
    "to zero": lambda lib: ((3, 0), {}),
    "booleans": lambda lib: ((True, False), {}),
    "none": lambda lib: ((None, 1), {}),
    "text": lambda lib: (("a", "a"), {}),
    "length": lambda lib: (([lib.ones(2), [1, 2]], (lib.zeros(2), (1,))), {}),
    "keys": lambda lib: (({"a": 1, "b": 2}, {"a": 1, "c": [3]}), {}),
    "nested": lambda lib: (({"a": {"k": [1, 2]}}, {"a": {"k": [1, 3]}}), {}),
    "message": lambda lib: ((1, 2), {"msg": "no"}),
    "framed": lambda lib: (([1], [2]), {"msg": lambda said: f"<{said}>"}),
    "structure before message": lambda lib: (([1], [1, 2]), {"msg": "no"}),
}


def told(lib, args, kwargs):
    with pytest.raises((AssertionError, TypeError, ValueError)) as raised:
        lib.testing.assert_close(*args, **kwargs)
    return raised.type, str(raised.value)


@pytest.mark.parametrize("case", CLOSE)
def test_close(case):
    cygrad.testing.assert_close(*CLOSE[case](cygrad))


@pytest.mark.parametrize("case", FAR)
def test_differences_are_told_as_by_pytorch(case):
    torch = pytest.importorskip("torch")
    args, kwargs = FAR[case](cygrad)
    wanted_args, wanted_kwargs = FAR[case](torch)
    assert told(cygrad, args, kwargs) == told(torch, wanted_args, wanted_kwargs)


def test_message_names_count_place_and_tolerance():
    with pytest.raises(AssertionError) as raised:
        cygrad.testing.assert_close([cygrad.tensor([[1.0, 2], [3, 4]])], [cygrad.tensor([[1.0, 2], [3, 5]])])
    assert str(raised.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 1.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1, 1) (up to 1.3e-06 allowed)\n\n"
        "The failure occurred for item [0]")


def test_nan_is_close_to_nan_where_asked():
    x = cygrad.tensor([NAN, 1])
    cygrad.testing.assert_close(x, x.clone(), equal_nan=True)
    cygrad.testing.assert_close(NAN, NAN, equal_nan=True)
    with pytest.raises(AssertionError, match="1 / 2"):
        cygrad.testing.assert_close(x, x.clone())


def test_what_is_not_related_is_not_compared():
    numpy = pytest.importorskip("numpy")
    x = cygrad.ones(2)
    cygrad.testing.assert_close(numpy.ones(2), numpy.ones(2))
    cygrad.testing.assert_close(numpy.float32(1.5), 1.5)
    for a, b in [(numpy.ones(2, "float32"), x), (x, [1.0, 1.0]), (cygrad.ones(()), 1.0), (object(), object())]:
        with pytest.raises(TypeError, match="No comparison pair"):
            cygrad.testing.assert_close(a, b)
    with pytest.raises(TypeError, match="Parameter"):
        cygrad.testing.assert_close(cygrad.nn.Parameter(x), x, allow_subclasses=False)


def test_whole_numbers_beyond_every_float():
    cygrad.testing.assert_close(10**400, 10**400)
    with pytest.raises(AssertionError, match="not equal"):
        cygrad.testing.assert_close(10**400, 10**400 + 1)


def test_recorded_tensors_stay_as_they_are():
    x = cygrad.ones(2, requires_grad=True)
    with pytest.raises(AssertionError, match="2 / 2"):
        cygrad.testing.assert_close(x, x.detach() + 1)
    assert x.grad is None and x._version == 0


@pytest.mark.parametrize("bounds", [{}, {"low": -3, "high": 4.5}, {"low": 0, "high": 1e10}, {"low": -INF, "high": INF}])
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "bfloat16", "float32", "float64", "complex64"])
def test_random_numbers_are_those_of_pytorch(dtype, bounds):
    torch = pytest.importorskip("torch")
    for shape, more in [((3, 17), {}), ((2, 3), {"noncontiguous": True}), ((), {"exclude_zero": True})]:
        found = []
        for lib in (torch, cygrad):
            lib.manual_seed(7)
            x = lib.testing.make_tensor(shape, dtype=getattr(lib, dtype), device="cpu", **bounds, **more)
            found.append((x.tolist(), x.stride(), x.storage_offset()))
        assert found[0] == found[1]


def test_wrong_ranges_are_refused():
    make = cygrad.testing.make_tensor
    wrong = [({"low": 3, "high": 1}, "must be less"), ({"low": NAN}, "NaN"),
             ({"low": 300, "high": 400}, "only supports"), ({"requires_grad": True}, "requires_grad"),
             ({"noncontiguous": True, "memory_format": cygrad.contiguous_format}, "mutually exclusive")]
    for kwargs, message in wrong:
        with pytest.raises(ValueError, match=message):
            make(2, 3, dtype=cygrad.uint8, device="cpu", **kwargs)
    with pytest.raises(TypeError, match="dtype"):
        make(2, dtype="float32", device="cpu")
    with pytest.warns(FutureWarning):
        assert make(2, dtype=cygrad.float32, device="cpu", low=1, high=1).tolist() == [1, 1]


def test_zeros_are_left_out_and_gradients_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = cygrad.testing.make_tensor(200, dtype=cygrad.int8, device="cpu", low=0, high=2, exclude_zero=True)
        y = cygrad.testing.make_tensor(2, 3, dtype=cygrad.float64, device="cpu", requires_grad=True, noncontiguous=True)
    assert (x == 1).all() and y.requires_grad and y.is_leaf and not y.is_contiguous()

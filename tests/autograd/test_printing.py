"""repr of tensors: exactly the text that PyTorch prints."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cygrad
from cygrad._tensor_str import get_printoptions, printoptions, set_printoptions, tensor_str

TEXTS = [
    ([[0.0, 1.0], [10.0, 11.0]], "float32", "tensor([[ 0.,  1.],\n        [10., 11.]])"),
    ([1.5, -2.25], "float32", "tensor([ 1.5000, -2.2500])"),
    ([0.1], "float64", "tensor([0.1000], dtype=torch.float64)"),
    ([1.0, 2.0], "float64", "tensor([1., 2.], dtype=torch.float64)"),
    ([1, -20], "int64", "tensor([  1, -20])"),
    ([1, 2], "int32", "tensor([1, 2], dtype=torch.int32)"),
    ([1, 255], "uint8", "tensor([  1, 255], dtype=torch.uint8)"),
    ([True, False], "bool", "tensor([ True, False])"),
    (3.0, "float32", "tensor(3.)"),
    (3.14159, "float32", "tensor(3.1416)"),
    (-7, "int64", "tensor(-7)"),
    ([], "float32", "tensor([])"),
    ([], "int64", "tensor([], dtype=torch.int64)"),
    ([[]], "float32", "tensor([], size=(1, 0))"),
    ([1e-5, 1.0], "float32", "tensor([1.0000e-05, 1.0000e+00])"),
    ([1e9, 1.0], "float32", "tensor([1.0000e+09, 1.0000e+00])"),
    ([123456.0], "float32", "tensor([123456.])"),
    ([math.nan, 0.0], "float32", "tensor([nan, 0.])"),
    ([math.nan, math.inf, -math.inf, 1.0], "float32", "tensor([nan, inf, -inf, 1.])"),
    ([math.inf, 0.5], "float32", "tensor([   inf, 0.5000])"),
    ([-0.0], "float32", "tensor([-0.])"),
    ([0.1], "float32", "tensor([0.1000])"),
    ([1 / 3], "float32", "tensor([0.3333])"),
]


@pytest.mark.parametrize(("data", "dtype", "text"), TEXTS)
def test_values_are_printed_as_written_here(data, dtype, text):
    assert repr(cygrad.tensor(data, dtype=getattr(cygrad, dtype))) == text


def test_str_and_format_are_repr():
    t = cygrad.tensor([1.0, 2.5])
    assert str(t) == f"{t}" == repr(t) == tensor_str(t)


def test_a_recording_tensor_says_so():
    x = cygrad.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(x.detach()) == "tensor([1., 1.])"
    assert repr(cygrad.ones(2, dtype=cygrad.float64, requires_grad=True)) == (
        "tensor([1., 1.], dtype=torch.float64, requires_grad=True)"
    )


def test_printing_records_nothing():
    x = cygrad.ones(2000, requires_grad=True)
    y = x * 2
    before = y._version, y.grad_fn, x.grad
    repr(y)
    assert (y._version, y.grad_fn, x.grad) == before
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 2000


def test_a_long_suffix_goes_to_a_line_of_its_own():
    x = (cygrad.zeros(8) + 0.5).requires_grad_()
    assert repr(x).endswith("5000],\n       requires_grad=True)")


def test_a_large_tensor_is_summarised_from_its_edges():
    t = cygrad.arange(10000).reshape(100, 100)
    lines = repr(t).split("\n")
    assert lines[0] == "tensor([[   0,    1,    2,  ...,   97,   98,   99],"
    assert lines[3] == "        ...,"
    assert lines[-1] == "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])"
    assert len(lines) == 7


def test_only_shown_elements_decide_on_the_format():
    t = cygrad.zeros(2001)
    t[1000] = 1234.5
    assert repr(t) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_a_named_subclass_shows_its_name():
    class Weights(cygrad.Tensor):
        pass

    t = cygrad.Tensor._make_subclass(Weights, cygrad.zeros(2, 2))
    assert repr(t) == "Weights([[0., 0.],\n         [0., 0.]])"


def test_a_parameter_says_what_it_is():
    class Parameter(cygrad.Tensor):
        _is_param = True

    class Scale(Parameter):
        pass

    def made(kind):
        return cygrad.Tensor._make_subclass(kind, cygrad.ones(2), True)

    assert tensor_str(made(Parameter)) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert tensor_str(made(Scale)) == "Parameter containing:\nParameter(Scale([1., 1.], requires_grad=True))"


@pytest.fixture
def default_options():
    with printoptions(profile="default"):
        yield


@pytest.mark.usefixtures("default_options")
class TestOptions:
    def test_each_option_is_kept_until_changed(self):
        set_printoptions(precision=2, linewidth=30)
        assert repr(cygrad.tensor([0.123])) == "tensor([0.12])"
        set_printoptions(precision=6)
        assert repr(cygrad.tensor([0.5])) == "tensor([0.500000])"
        assert get_printoptions().linewidth == 30

    @pytest.mark.parametrize("arguments, error", [
        ({"precision": "4"}, TypeError), ({"precision": 2.5}, TypeError), ({"precision": True}, TypeError),
        ({"precision": -1}, ValueError), ({"threshold": "1000"}, TypeError), ({"threshold": -1.0}, ValueError),
        ({"edgeitems": 1.5}, TypeError), ({"edgeitems": -2}, ValueError), ({"linewidth": []}, TypeError),
        ({"sci_mode": 1}, TypeError), ({"sci_mode": "on"}, TypeError), ({"profile": "long"}, ValueError)])
    def test_options_of_other_types_change_nothing(self, arguments, error):
        before = get_printoptions()
        with pytest.raises(error, match=next(iter(arguments))):
            set_printoptions(**arguments)
        assert get_printoptions() == before

    def test_scientific_mode_is_forgotten_by_the_next_call(self):
        set_printoptions(sci_mode=True)
        assert repr(cygrad.tensor([1.0])) == "tensor([1.0000e+00])"
        set_printoptions(precision=4)
        assert repr(cygrad.tensor([1.0])) == "tensor([1.])"

    def test_the_context_restores_also_after_an_error(self):
        before = get_printoptions()
        with pytest.raises(KeyError), printoptions(precision=1, edgeitems=1, threshold=4):
            assert repr(cygrad.arange(6.0) + 0.5) == "tensor([0.5,  ..., 5.5])"
            raise KeyError
        assert get_printoptions() == before

    def test_the_facade_sets_the_same_options(self):
        cygrad.set_printoptions(threshold=2, edgeitems=1)
        assert repr(cygrad.arange(5)) == "tensor([0,  ..., 4])"

    def test_full_profile_prints_everything(self):
        set_printoptions(profile="full")
        assert "..." not in repr(cygrad.zeros(1500))

    def test_an_unknown_profile_is_refused_and_changes_nothing(self):
        before = get_printoptions()
        with pytest.raises(ValueError, match="'default', 'short', 'full', not 'tiny'"):
            set_printoptions(precision=9, profile="tiny")
        assert get_printoptions() == before


DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


@st.composite
def arrays(draw):
    """An array whose values are of one of the kinds that decide on a format."""
    dims = draw(st.integers(0, 5))
    longest = [60, 1500, 40, 12, 6, 4][dims]
    shape = tuple(draw(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, longest)) for _ in range(dims))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    a = rng.standard_normal(shape)
    kind = draw(st.integers(0, 7))
    if kind == 1:
        a = np.round(a * 10.0 ** draw(st.integers(0, 9)))
    elif kind == 2:
        a = a * 10.0 ** draw(st.integers(-12, 12))
    elif kind == 3:
        a = a * 10.0 ** rng.integers(-5, 6, shape)
    elif kind == 4:
        a = np.where(a > 0.5, np.nan, a)
    elif kind == 5:
        a = np.where(a > 0.5, np.inf, np.where(a < -0.5, -np.inf, np.round(a * 3)))
    elif kind == 6:
        a = np.where(a > 0, np.nan, 0.0)
    elif kind == 7:
        a = np.round(a * 8) / 8
    dtype = draw(st.sampled_from(DTYPES))
    if not dtype.startswith("float"):
        a = np.nan_to_num(a, posinf=5, neginf=-3).clip(-(2**31), 2**31 - 1).astype(np.int64)
    with np.errstate(over="ignore"):
        return np.asarray(a).astype(dtype)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.integers(0, 10),
        "threshold": st.sampled_from([0, 5, 100, 1000, math.inf]),
        "edgeitems": st.integers(0, 5),
        "linewidth": st.sampled_from([1, 10, 20, 40, 60, 80, 120, 200]),
        "profile": st.sampled_from(["default", "short", "full"]),
        "sci_mode": st.sampled_from([None, True, False]),
    },
)


@settings(max_examples=1000, deadline=None)
@given(array=arrays(), options=OPTIONS, records=st.booleans(), flip=st.booleans())
def test_text_equals_that_of_pytorch(array, options, records, flip):
    torch = pytest.importorskip("torch")
    texts = []
    for library, set_options in ((torch, torch.set_printoptions), (cygrad, set_printoptions)):
        t = library.from_numpy(array.copy())
        if flip and t.dim() > 1:
            t = t.transpose(0, -1)
        if records and t.is_floating_point():
            t.requires_grad_()
        set_options(profile="default")
        try:
            set_options(**options)
            texts.append(repr(t) if library is torch else tensor_str(t))
        finally:
            set_options(profile="default")
    assert texts[1] == texts[0]


def test_pairs_are_printed_with_their_names():
    pair = cygrad.tensor([[1.0, 3.0], [2.0, 0.0]]).max(1)
    assert repr(pair) == "torch.return_types.max(\nvalues=tensor([3., 2.]),\nindices=tensor([1, 0]))"
    values, indices = pair
    assert values is pair.values
    assert indices.tolist() == [1, 0]

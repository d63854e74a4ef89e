"""dtype, Size, device: identity, printing, promotion, copying."""

import copy
import itertools
import pickle

import numpy as np
import pytest

import cygrad.storage as storage
from cygrad.storage import Size, device, dtype, dtypes, promote_types
from cygrad.storage.core import dtype_by_name

ALL = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128",
)
UNSIGNED = ("uint16", "uint32", "uint64")


@pytest.mark.parametrize("a, b", list(itertools.product(ALL, ALL)))
def test_promotion_is_pytorchs(a, b):
    torch = pytest.importorskip("torch")
    wanted = torch.promote_types(getattr(torch, a), getattr(torch, b))
    assert repr(promote_types(dtype_by_name(a), dtype_by_name(b))) == repr(wanted)


@pytest.mark.parametrize("a, b", list(itertools.product(ALL + UNSIGNED, UNSIGNED)))
def test_promotion_with_wide_unsigned_types_is_the_array_standards(a, b):
    wanted = {"float16": "float16", "bfloat16": "bfloat16", "complex64": "complex64"}.get(a)
    if wanted is None:
        wanted = np.promote_types(a, b).name
        wanted = a if "float" in a else wanted
    first, second = dtype_by_name(a), dtype_by_name(b)
    if a.startswith("int") and b == "uint64":
        for pair in ((first, second), (second, first)):
            with pytest.raises(RuntimeError, match=f"{a}.*uint64|uint64.*{a}"):
                promote_types(*pair)
    else:
        assert promote_types(first, second) is promote_types(second, first) is dtype_by_name(wanted)


@pytest.mark.parametrize("name", ALL + UNSIGNED)
def test_real_and_complex_counterparts_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = dtype_by_name(name), getattr(torch, name)
    assert repr(ours.to_real()) == repr(theirs.to_real())
    if name == "float16" or not (theirs.is_floating_point or theirs.is_complex):
        with pytest.raises(RuntimeError, match=name):
            ours.to_complex()
    else:
        assert repr(ours.to_complex()) == repr(theirs.to_complex())


@pytest.mark.parametrize("name", ALL + UNSIGNED)
def test_attributes_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    ours, theirs = dtype_by_name(name), getattr(torch, name)
    assert repr(ours) == str(ours) == repr(theirs)
    for fact in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
        assert getattr(ours, fact) == getattr(theirs, fact), fact


def test_names_and_aliases():
    assert storage.float is storage.float32
    assert storage.double is storage.float64
    assert storage.int is storage.int32
    assert storage.long is storage.int64
    assert storage.short is storage.int16 and storage.half is storage.float16
    assert storage.cfloat is storage.complex64 and storage.cdouble is storage.complex128
    aliases = {"short", "int", "long", "half", "float", "double", "cfloat", "cdouble"}
    assert set(dtypes) == {*ALL, *UNSIGNED, *aliases}
    for name, d in dtypes.items():
        assert getattr(storage, name) is d


def test_each_type_exists_once():
    for d in dtypes.values():
        assert pickle.loads(pickle.dumps(d)) is d
        assert copy.copy(d) is d
        assert copy.deepcopy(d) is d
        assert {d: 1}[d] == 1
    with pytest.raises(TypeError):
        dtype()
    with pytest.raises(AttributeError):
        storage.float32.itemsize = 8


def test_types_agree_with_numpys():
    for name in {*ALL, *UNSIGNED} - {"bfloat16"}:
        a = storage.Array(np.zeros(1, name))
        assert a.dtype is dtypes[name]
        assert np.asarray(a).dtype == np.dtype(name)


@pytest.mark.parametrize("given, wanted", [(float, "float64"), (int, "int64"), (bool, "bool"), (complex, "complex128")])
def test_pythons_types_stand_for_pytorchs(given, wanted):
    assert storage.Array.empty(1, dtype=given).dtype is dtypes[wanted]


@pytest.mark.parametrize("given", ["float32", 3, str, np.float32, object()])
def test_what_is_no_dtype_is_refused(given):
    with pytest.raises(TypeError, match=r"dtype must be one of torch\.bool"):
        storage.Array.empty(1, dtype=given)


def test_the_default_dtype_is_a_floating_type():
    before = storage.get_default_dtype()
    try:
        storage.set_default_dtype(storage.float64)
        assert storage.get_default_dtype() is storage.float64
        assert storage.Array.empty(1).dtype is storage.float64
        for bad in (storage.int32, storage.bool, "float32", float):
            with pytest.raises(TypeError, match="floating"):
                storage.set_default_dtype(bad)
        assert storage.get_default_dtype() is storage.float64
    finally:
        storage.set_default_dtype(before)


# ---- Size
def test_a_size_prints_and_counts():
    assert repr(Size([3, 4])) == str(Size([3, 4])) == "torch.Size([3, 4])"
    assert repr(Size()) == "torch.Size([])"
    assert Size([3, 4]).numel() == 12
    assert Size().numel() == 1


def test_a_size_is_a_tuple():
    s = Size([3, 4])
    assert s == (3, 4) and hash(s) == hash((3, 4)) and isinstance(s, tuple)
    assert (s[0], s[-1], *s) == (3, 4, 3, 4)
    with pytest.raises(IndexError):
        s[2]


def test_parts_and_sums_of_sizes_are_sizes():
    s = Size([3, 4, 5])
    six, two = (6,), (2,)
    cases = (
        (s[1:], (4, 5)), (s[::-1], (5, 4, 3)), (s + six, (3, 4, 5, 6)), (two + s, (2, 3, 4, 5)), (s[:1] * 2, (3, 3)),
        (2 * s[:1], (3, 3)), (Size(s), s), (copy.deepcopy(s), s), (pickle.loads(pickle.dumps(s)), s),
    )
    for made, wanted in cases:
        assert type(made) is Size
        assert made == wanted


def test_a_size_beside_what_is_no_tuple():
    """A list that is extended asks the Size before it does so itself."""
    sizes = [1]
    sizes += Size([2, 3])
    assert sizes == [1, 2, 3] and type(sizes) is list
    assert (Size([2, 3]) + np.array([1, 1])).tolist() == (np.array([1, 1]) + Size([2, 3])).tolist() == [3, 4]
    for other in ([1], 1, "1", None):
        for add in (lambda x, y: x + y, lambda x, y: y + x):
            with pytest.raises(TypeError, match="Size"):
                add(Size([2]), other)


@pytest.mark.parametrize("bad", [[1.5], ["a"], [1, None]])
def test_a_size_holds_integers_only(bad):
    with pytest.raises(TypeError, match=f"item {len(bad) - 1} is"):
        Size(bad)
    joined = Size([1])
    with pytest.raises(TypeError):
        joined += bad


def test_a_size_made_in_c_is_the_same():
    s = storage.Array.empty(2, 3).shape
    assert type(s) is Size and s == Size([2, 3]) and s.numel() == 6


# ---- device
def test_devices_are_values():
    assert repr(device("cpu")) == "device(type='cpu')"
    assert repr(device("cpu:0")) == repr(device("cpu", 0)) == "device(type='cpu', index=0)"
    assert (str(device("cpu")), str(device("cpu:0"))) == ("cpu", "cpu:0")
    assert device("cpu") == device("cpu") != device("cpu", 0)
    assert device("cpu") != "cpu"
    assert hash(device("cpu:0")) == hash(device("cpu", 0))
    assert (device("cpu:1").type, device("cpu:1").index, device("cpu").index) == ("cpu", 1, None)
    assert device(device("cpu:1")) == device("cpu:1")
    for d in (device("cpu"), device("cpu:0")):
        assert pickle.loads(pickle.dumps(d)) == copy.deepcopy(d) == d


@pytest.mark.parametrize("args", [("gpu:0",), ("",), ("cpu:x",), ("cpu:",), ("cpu:0", 0), ("cpu:-1",)])
def test_devices_that_do_not_exist_are_refused(args):
    with pytest.raises(RuntimeError):
        device(*args)


def test_the_devices_that_exist_are_named():
    with pytest.raises(RuntimeError, match="no device 'gpu' here; the devices are: 'cpu', 'cuda'"):
        device("gpu")
    assert (device("cuda:1").type, device("cuda:1").index) == ("cuda", 1)     # whether it is there is asked later
    with pytest.raises(TypeError, match="str"):
        device(1.5)


def test_sizes_of_many_shapes():
    """Shapes that were asked for before give the same numbers as new ones."""
    from cygrad.storage.functions import full

    for _ in range(2):
        for sizes in [*((n, m) for n in range(40) for m in (0, 1, 2)), *((1,) * n for n in range(9)), (2, 1, 1, 1, 3)]:
            shape = full(sizes, 0, dtypes["float32"]).shape
            assert type(shape) is Size and shape == sizes
    s = full((3, 4, 5), 0, dtypes["float32"]).shape
    assert (s[0], s[-1], s[True]) == (3, 5, 4) and type(s[1:]) is Size and s[1:] == (4, 5) and s[::-1] == (5, 4, 3)
    for bad, error in ((3, IndexError), (-4, IndexError), (1.0, TypeError), (None, TypeError)):
        with pytest.raises(error):
            s[bad]

    class Doubled(Size):
        def __getitem__(self, index):
            return 2 * tuple.__getitem__(self, index)

    assert Doubled([3, 4])[1] == 8

"""Memory shared with other libraries: no copies, owners kept alive and locked, foreign formats refused."""

import array
import gc
import hashlib
import weakref

import numpy as np
import pytest

from cygrad.storage import float32, float64, int32, uint8
from cygrad.storage.array import Array
from cygrad.storage.interop import storage_from_buffer, storage_from_bytes

NAMES = ("bool", "uint8", "int32", "int64", "float32", "float64")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["matrix", "transposed", "gapped", "repeated", "number", "empty"])
def test_an_array_and_its_tensor_share_memory(name, form):
    base = np.arange(24).reshape(4, 6).astype(name)
    n = {"matrix": base, "transposed": base.T, "gapped": base[::2, 1::3], "number": base[2:3, 3:4].reshape(()),
         "repeated": np.lib.stride_tricks.as_strided(base, (3, 6), (0, base.itemsize)), "empty": base[:0]}[form]
    a = Array(n)
    back = np.asarray(a)
    assert a.shape == n.shape
    assert a.dtype.name == name
    assert back.dtype == n.dtype
    assert np.array_equal(back, n)
    if n.size:
        assert back.strides == n.strides
        assert back.ctypes.data == n.ctypes.data
        n[...] = 0
        assert not np.asarray(a).any()


@pytest.mark.parametrize("code", "lq")
def test_both_names_of_the_long_integer_are_int64(code):
    assert Array(np.zeros(2, code)).dtype.name == "int64"


def test_buffers_other_than_numpys():
    a = array.array("d", [1, 2, 3])
    x = Array(a)
    a[1] = 5
    assert np.asarray(x).tolist() == [1, 5, 3]
    assert Array(b"\x01\x02").dtype is uint8
    assert Array(memoryview(bytearray(8)).cast("i")).dtype is int32


@pytest.mark.parametrize("make, grow", [
    (lambda: bytearray(8), lambda o: o.append(1)),
    (lambda: array.array("d", [1, 2]), lambda o: o.append(1)),
])
def test_an_owner_cannot_move_its_memory_while_it_is_shared(make, grow):
    owner = make()
    a = Array(owner)
    with pytest.raises(BufferError):
        grow(owner)
    v = a.slice(0, 0, 1)
    del a
    with pytest.raises(BufferError):
        grow(owner)
    del v
    grow(owner)


def test_the_owner_lives_as_long_as_the_storage():
    class Owner(np.ndarray):
        pass

    n = np.zeros(4).view(Owner)
    gone = weakref.ref(n)
    s = storage_from_buffer(n)[0]
    del n
    gc.collect()
    assert gone() is not None
    del s
    gc.collect()
    assert gone() is None


def test_read_only_memory_stays_unwritten():
    n = np.arange(3.0)
    n.flags.writeable = False
    a = Array(n)
    assert a.memory._readonly
    writes = (
        lambda: a.fill_(1),
        lambda: a.copy_(a),
        lambda: a.memory.__setitem__(0, 1),
        lambda: a.memory[:4].__setitem__(0, 1),
    )
    for act in writes:
        with pytest.raises(RuntimeError, match="read"):
            act()
    assert not np.asarray(a).flags.writeable
    assert n.tolist() == [0, 1, 2]
    assert a.memory._version == 0


def test_the_storage_covers_what_the_array_reaches():
    s, sizes, strides, d = storage_from_buffer(np.zeros((4, 6))[1:, ::2])
    assert (s.nbytes(), sizes, strides, d) == (8 * (2 * 6 + 4 + 1), (3, 3), (6, 2), float64)


FOREIGN = {
    "negative_stride": (lambda: np.zeros(3)[::-1], ValueError, "negative stride -8 at dimension 0"),
    "byte_order": (lambda: np.zeros(3, ">f4" if np.little_endian else "<f4"), ValueError, "byte order"),
    "between_elements": (lambda: np.zeros(3, "f4, i1")["f0"], ValueError, "multiple of the element byte size 4"),
    "objects": (lambda: np.zeros(3, object), TypeError, "object.*bool, uint8, int8, int16, int32, int64, float16"),
    "text": (lambda: np.zeros(3, "U3"), TypeError, "supported"),
    "bytes": (lambda: np.zeros(3, "S1"), TypeError, "supported"),
    "dates": (lambda: np.zeros(3, "M8[s]"), TypeError, "datetime64"),
    "records": (lambda: np.zeros(3, [("a", "f4")]), TypeError, "supported"),
    "long_double": (lambda: np.zeros(3, np.longdouble), TypeError, "supported"),
    "long_complex": (lambda: np.zeros(3, np.clongdouble), TypeError, "supported"),
    "list": (lambda: [1.0], TypeError, "list"),
    "none": (lambda: None, TypeError, "NoneType"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_tensors_cannot_hold_is_refused_by_name(case):
    make, error, message = FOREIGN[case]
    with pytest.raises(error, match=message):
        Array(make())


def test_consumers_that_cannot_follow_strides_are_refused():
    a = Array(np.zeros((3, 4))).transpose(0, 1)
    with pytest.raises(BufferError, match="not contiguous"):
        hashlib.sha256(a)
    assert b"".join([a.transpose(0, 1)]) == bytes(96)


def test_strides_are_numpys_own_even_where_they_do_not_matter():
    torch = pytest.importorskip("torch")
    for n in (np.zeros((4, 2, 1))[::2].transpose(1, 0, 2), np.zeros((0, 3)), np.zeros((1, 3)).T, np.zeros((5, 1))[:1]):
        assert Array(n).strides == torch.from_numpy(n).stride()


# ---- raw bytes
def test_raw_bytes_are_read_as_elements():
    raw = bytearray(np.arange(4, dtype=np.float32).tobytes())
    s, n = storage_from_bytes(raw, float32)
    assert (s.nbytes(), n) == (16, 4)
    assert np.asarray(Array.over(s, float32)).tolist() == [0, 1, 2, 3]
    s, n = storage_from_bytes(raw, float32, count=2, offset=4)
    assert np.asarray(Array.over(s, float32)).tolist() == [1, 2]
    np.asarray(Array.over(s, float32))[0] = 9
    assert np.frombuffer(raw, np.float32).tolist() == [0, 9, 2, 3]
    with pytest.raises(BufferError):
        raw.append(0)


@pytest.mark.parametrize("args, message", [
    ((b"", int32), "other than 0"),
    ((bytearray(8), int32, 0), "other than 0"),
    ((bytearray(8), int32, -1, 8), "offset 8"),
    ((bytearray(8), int32, -1, -1), "offset -1"),
    ((bytearray(8), int32, -1, 3), "5 bytes follow offset 3"),
    ((bytearray(8), int32, 3), "3 elements of 4 bytes"),
    ((bytearray(8), int32, 2**62), "elements of 4 bytes"),
    (([1], int32), "list does not implement"),
])
def test_bytes_that_do_not_fit_are_refused(args, message):
    with pytest.raises(ValueError, match=message):
        storage_from_bytes(*args)

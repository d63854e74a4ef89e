"""Array and TypedStorage: storage used alone."""

import copy
import pickle

import numpy as np
import pytest

from cygrad.storage import Storage, TypedStorage, bool, float32, float64, functions, int32, int64, memory_stats, uint8
from cygrad.storage.array import Array


def test_an_array_is_built_around_memory_once():
    a = Array(np.arange(6.0).reshape(2, 3))
    with pytest.raises(RuntimeError, match="once"):
        a.__init__(np.zeros(100))
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_values_come_out_as_python_numbers():
    a = Array(np.array([[1, 2], [3, 4]], np.int32))
    assert a.tolist() == [[1, 2], [3, 4]]
    assert type(a.tolist()[0][0]) is int
    assert a.select(0, 1).select(0, 0).item() == 3
    assert repr(a) == "Array([[1, 2], [3, 4]], shape=[2, 2], dtype=torch.int32)"
    assert len(a) == 2
    with pytest.raises(TypeError, match="0-d"):
        len(a.select(0, 0).select(0, 0))
    with pytest.raises(RuntimeError):
        a.item()


def test_over_describes_existing_memory():
    s = Storage(26)
    s[:] = 0
    a = Array.over(s, int32)
    assert (a.shape, a.offset) == ((6,), 0)  # two bytes are left over
    b = Array.over(s, int32, (2, 2), (1, 3), 1)
    b.fill_(7)
    assert a.tolist() == [0, 7, 7, 0, 7, 7]
    assert b.offset == 1
    assert Array.over(s, uint8, offset=20).shape == (6,)
    with pytest.raises(RuntimeError, match="out of bounds"):
        Array.over(s, int32, (7,))


@pytest.mark.parametrize("layout", ["row_major", "transposed", "gapped"])
def test_copies_keep_values_and_dense_layouts(layout):
    n = np.arange(24.0).reshape(4, 6)
    n = {"row_major": n, "transposed": n.T, "gapped": n[:, ::2]}[layout]
    a = Array(n)
    c, r = a.clone(), a.contiguous()
    assert np.array_equal(np.asarray(c), n) and np.array_equal(np.asarray(r), n)
    assert c.memory is not a.memory
    assert c.strides == ((1, 6) if layout == "transposed" else (n.shape[1], 1))
    assert r.is_contiguous()
    assert (r.memory is a.memory) == (layout == "row_major")


def test_reshape_is_a_view_where_strides_allow():
    a = Array(np.arange(24.0).reshape(4, 6))
    assert a.reshape(2, 12).memory is a.memory
    t = a.transpose(0, 1)
    flat = t.reshape(-1)
    assert flat.memory is not a.memory
    assert flat.tolist() == np.arange(24.0).reshape(4, 6).T.ravel().tolist()
    assert t.reshape(3, 2, 4).memory is a.memory


def test_conversion():
    a = Array(np.array([-1.5, 0.0, 2.7]))
    assert a.to(float64) is a
    assert a.to(int64).tolist() == [-1, 0, 2]
    assert a.to(bool).tolist() == [True, False, True]
    assert a.to(float).dtype is float64


def test_writing_counts_versions_and_a_refused_write_does_not():
    a = Array(np.zeros((2, 3)))
    v = a.select(0, 1)
    v.fill_(4)
    a.copy_(Array(np.arange(3, dtype=np.int64)))
    assert a.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert a.memory._version == v.memory._version == 2
    for act in (lambda: a.copy_(Array(np.zeros(4))), lambda: a.expand(5, 2, 3).copy_(a)):
        with pytest.raises(RuntimeError):
            act()
    assert a.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert a.memory._version == 2


@pytest.mark.parametrize("name, dtypes, result", [
    ("add", (int32, int64), int64),
    ("add", (uint8, float32), float32),
    ("add", (bool, bool), bool),
    ("div", (int32, int32), float32),
    ("sigmoid", (int64,), float32),
    ("sigmoid", (float64,), float64),
    ("lt", (float32, int64), bool),
    ("isnan", (float32,), bool),
    ("where", (bool, int32, float64), float64),
    ("masked_fill", (int32, bool, float64), int32),
])
def test_results_have_the_promoted_type(name, dtypes, result):
    arrays = [Array.empty(3, dtype=d).fill_(1) for d in dtypes]
    y = Array.call(name, *arrays)
    assert y.dtype is result
    assert y.shape == (3,)


def test_scalar_arguments_and_their_defaults():
    a, b = Array(np.array([1.0, 2.0])), Array(np.array([10.0, 20.0]))
    assert Array.call("add_scaled", a, b, alpha=0.5).tolist() == [6, 12]
    assert Array.call("addcmul", a, a, b).tolist() == [11, 42]
    assert Array.call("addcmul", a, a, b, value=2).tolist() == [21, 82]


A = Array.empty(2, 3)


@pytest.mark.parametrize("bad", [1.0, 1.5, "a", None], ids=repr)
def test_floats_and_other_things_are_no_integers(bad):
    calls = [
        lambda: Array.empty(bad), lambda: Array.empty((2, bad)), lambda: A.select(0, bad), lambda: A.select(bad, 0),
        lambda: A.slice(0, bad, 1), lambda: A.expand(2, bad), lambda: A.view(6, bad), lambda: A.permute(bad, 0),
        lambda: A.squeeze((bad,)), lambda: A.unsqueeze(bad), lambda: A.narrow(0, 0, bad), lambda: A.unfold(0, bad, 1),
        lambda: A.diagonal(bad), lambda: A.transpose(0, bad), lambda: Array.over(Storage(8), int32, (bad,)),
        lambda: Array.over(Storage(8), int32, (1,), (bad,)), lambda: Array.over(Storage(8), int32, offset=bad),
        lambda: Storage(bad), lambda: Storage(4)[bad],
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_integers_of_other_kinds_are_integers():
    assert Array.empty(np.int32(2), True).shape == (2, 1)
    assert A.select(np.int64(-1), np.uint8(2)).shape == (2,)


def test_integers_beyond_64_bits_are_refused():
    for call in (lambda: Array.empty(2**70), lambda: A.view(-(2**70)), lambda: A.expand(2, 2**64)):
        with pytest.raises((OverflowError, IndexError)):
            call()


def test_arrays_leave_no_memory_behind():
    before = memory_stats()
    for _ in range(50):
        a = Array(np.ones((3, 4, 1, 2, 1, 2)))
        b = Array.call("add", a, a.permute(0, 1, 2, 5, 4, 3)).transpose(0, 1).unsqueeze(0)
        functions.sum(b, 1).clone().tolist()
    del a, b
    after = memory_stats()
    assert (after["live_bytes"], after["live_storages"]) == (before["live_bytes"], before["live_storages"])


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_two_views_share_one_new_memory(again):
    a = Array(np.arange(12.0).reshape(3, 4)).transpose(0, 1)
    v = a.slice(0, 1, 3)
    a2, v2, t2 = again((a, v, TypedStorage(a.memory, float64)))
    assert (a2.tolist(), a2.strides) == (a.tolist(), a.strides)
    assert (v2.tolist(), v2.offset) == (v.tolist(), 1)
    assert a2.memory is v2.memory is t2.untyped()
    assert a2.memory is not a.memory
    v2.fill_(-1)
    assert t2.tolist() == [0, -1, -1, 3, 4, -1, -1, 7, 8, -1, -1, 11]


# ---- TypedStorage
@pytest.fixture
def numbers():
    """Four floats in a storage of 18 bytes."""
    s = Storage(18)
    Array.over(s, float32).copy_(Array(np.array([1, 2.5, -3, 0])))
    return s


def test_a_typed_storage_reads_and_writes_elements(numbers):
    t = TypedStorage(numbers, float32)
    assert (len(t), t.size(), t.nbytes(), t.element_size()) == (4, 4, 18, 4)
    assert t.tolist() == [1, 2.5, -3, 0]
    assert (t[1], t[-2]) == (2.5, -3)
    assert t.dtype is float32 and str(t.device) == "cpu"
    assert t.data_ptr() == numbers.data_ptr()
    assert t.untyped() is numbers
    t[-1] = 9
    assert TypedStorage(numbers, int32)[3] == np.float32(9).view(np.int32)
    assert list(t) == [1, 2.5, -3, 9]
    assert t.fill_(2).tolist() == [2, 2, 2, 2]
    assert numbers._version == 3


def test_a_typed_storage_prints_as_pytorchs(numbers):
    assert repr(TypedStorage(numbers, float32)) == (
        " 1.0\n 2.5\n -3.0\n 0.0\n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 4]"
    )


def test_typed_storages_of_the_same_memory_are_equal(numbers):
    a, b = TypedStorage(numbers, float32), TypedStorage(numbers, float32)
    assert a == b and hash(a) == hash(b)
    assert a != TypedStorage(numbers, int32)
    assert a != TypedStorage(Storage(18), float32)
    assert a != [1, 2.5, -3, 0]


@pytest.mark.parametrize("index", [4, -5, 2**70])
def test_an_index_outside_is_refused(numbers, index):
    t = TypedStorage(numbers, float32)
    with pytest.raises(IndexError, match=f"index {index} is out of range for a storage of size 4"):
        t[index]
    with pytest.raises(IndexError):
        t[index] = 0


@pytest.mark.parametrize("index", [1.5, "a", None, slice(0, 2)])
def test_what_is_no_index_is_refused(numbers, index):
    with pytest.raises(RuntimeError, match="indexed with an int"):
        TypedStorage(numbers, float32)[index]


def test_an_empty_typed_storage():
    t = TypedStorage(Storage(0), float64)
    assert (len(t), t.tolist(), t.nbytes()) == (0, [], 0)

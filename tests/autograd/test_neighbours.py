"""Memory shared with NumPy, other libraries, files and buffers: who sees whose writes, what lives how long."""
import array
import copy
import gc
import math
import mmap
import pickle
import weakref

import pytest

np = pytest.importorskip("numpy")

ARRAY_TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32",
               "float64", "complex64", "complex128"]


@pytest.fixture(params=ARRAY_TYPES)
def kind(request, torch):
    """Names of element types that both libraries have."""
    if not hasattr(torch, request.param):
        pytest.skip(f"no {request.param} yet")
    return request.param


def values(kind, shape=(3, 4)):
    return (np.arange(math.prod(shape)) % 5).reshape(shape).astype(kind)


LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: a.T,
    "steps": lambda a: a[::2, 1::2],
    "empty": lambda a: a[:0],
    "0-d": lambda a: a[1, 2, ...],
    "repeated": lambda a: np.broadcast_to(a[0], (2, 4)).copy()[:, :3],
}


# ---- NumPy

@pytest.mark.parametrize("layout", LAYOUTS)
def test_from_numpy_and_back_share_memory(torch, kind, layout):
    """Shape, strides, type and address survive, and both see writes."""
    a = LAYOUTS[layout](values(kind))
    t = torch.from_numpy(a)
    b = t.numpy()
    assert tuple(t.shape) == a.shape == b.shape and b.dtype == a.dtype and str(t.dtype) == f"torch.{kind}"
    assert (b == a).all()
    if a.size:
        a.flat[0] = 1
        assert t.flatten()[0].item() == 1 and b.flat[0] == 1
        assert b.ctypes.data == a.ctypes.data == t.data_ptr()


def test_arrays_of_any_strides(torch):
    """Large strides, strides of 0, and of many dimensions; the array keeps the memory alive."""
    for make in (lambda: torch.arange(6000.0).reshape(10, 20, 30).permute(2, 0, 1), lambda: torch.arange(900.0)[::300],
                 lambda: torch.ones(3).expand(400, 3), lambda: torch.arange(64.0).reshape(2, 2, 2, 2, 2, 2).mT):
        t = make()
        want, steps, a = t.tolist(), tuple(4 * s for s in t.stride()), t.numpy()
        del t
        gc.collect()
        noise = [torch.zeros(6000) for _ in range(20)]
        assert (a.strides, a.tolist()) == (steps, want) and len(noise) == 20
        back = torch.from_numpy(a)
        assert tuple(4 * s for s in back.stride()) == steps and back.tolist() == want


def test_arrays_that_cannot_be_shared(torch):
    """Negative strides, a foreign byte order and other element types are refused."""
    a = np.arange(4.0)
    with pytest.raises(ValueError, match="negative"):
        torch.from_numpy(a[::-1])
    with pytest.raises(ValueError, match="byte order"):
        torch.from_numpy(a.astype(">f8"))
    for bad in (np.array(["a"]), np.array([object()]), np.zeros(2, "datetime64[s]"), np.zeros(2, "timedelta64[s]"),
                np.zeros(2, "longdouble"), np.zeros(2, "clongdouble"), np.zeros(2, "i4,f4"), np.zeros(2, "V8")):
        with pytest.raises(TypeError):
            torch.from_numpy(bad)
    with pytest.raises(TypeError, match="ndarray"):
        torch.from_numpy([1, 2])


def test_copies_where_sharing_is_impossible(torch, beyond_pytorch):
    """asarray and tensor copy such arrays."""
    a = np.arange(4.0)
    for make in (torch.tensor, torch.asarray):
        assert make(a[::-1]).tolist() == [3, 2, 1, 0]
        assert make(a.astype(">f8")).tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="negative strides"):
        torch.asarray(a[::-1], copy=False)


def test_read_only_arrays_are_not_written(torch, beyond_pytorch):
    """A tensor over read-only memory reads, and refuses every kind of write."""
    a = np.arange(4.0)
    a.flags.writeable = False
    writes = (lambda t: t.add_(1), lambda t: t.zero_(), lambda t: t.__setitem__(0, 5), lambda t: torch.exp(t, out=t),
              lambda t: t.untyped_storage().fill_(0), lambda t: t[1:].copy_(t[1:] * 2))
    for t in (torch.from_numpy(a), torch.from_dlpack(a), torch.frombuffer(b"12345678", dtype=torch.float64)):
        before = t.tolist()
        for write in writes:
            with pytest.raises(RuntimeError, match="read-only"):
                write(t)
        assert t.tolist() == before and not np.asarray(t).flags.writeable
        assert (t + 1).tolist() == [v + 1 for v in before]


def test_misaligned_memory(torch):
    """Elements need not lie at multiples of their size."""
    raw = bytearray(8 * 1000 + 1)
    t = torch.frombuffer(raw, dtype=torch.float64, offset=1)
    t.copy_(torch.arange(1000, dtype=torch.float64))
    assert (t * 2 + t).sum().item() == 3 * 999 * 500 and t.exp()[1].item() == pytest.approx(math.e)
    assert np.frombuffer(raw, dtype=np.float64, offset=1)[7] == 7


def test_array_protocol(torch):
    """np.asarray shares, np.array copies, types convert; gradients are in the way."""
    t = torch.arange(4.0)
    a = np.asarray(t)
    a[0] = 9
    assert t[0].item() == 9 and np.array(t).ctypes.data != t.data_ptr()
    assert np.asarray(t, dtype=np.int64).tolist() == [9, 1, 2, 3]
    assert np.asarray([t, t]).shape == (2, 4)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, requires_grad=True).numpy()
    assert torch.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]
    with torch.no_grad():
        assert np.asarray(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_numpy_functions_return_tensors(torch):
    """Ufuncs take tensors beside arrays and numbers, and give tensors."""
    t = torch.tensor([1.0, 4.0])
    for found, wanted in ((np.sqrt(t), [1, 2]), (np.add(t, np.ones(2)), [2, 5]), (np.multiply(2, t), [2, 8])):
        assert isinstance(found, torch.Tensor) and found.tolist() == wanted
    assert np.add(t, np.ones(2)).dtype is torch.float64
    low, high = np.modf(t)
    assert isinstance(low, torch.Tensor) and high.tolist() == [1, 4]
    out = np.zeros(2)
    assert np.add(t, 1, out=out) is out and out.tolist() == [2, 5]
    assert isinstance(t * np.ones(2), torch.Tensor) and (np.float64(2) * t).tolist() == [2, 8]
    with pytest.raises(RuntimeError, match="requires grad"):
        np.exp(torch.ones(2, requires_grad=True))


def test_equality_with_arrays(torch):
    """Element by element, instead of Python's comparison of two objects."""
    t = torch.arange(3.0)
    assert (t == np.ones(3)).tolist() == [False, True, False] and (t != np.ones(3)).tolist() == [True, False, True]


def test_numpy_comparisons_are_bool(torch, beyond_pytorch):
    """PyTorch makes uint8 of them."""
    assert np.equal(torch.ones(2), 1).dtype is torch.bool


# ---- the buffer protocol

def test_tensors_lend_buffers(torch, kind, beyond_pytorch):
    """memoryview, bytes and struct-like consumers read a tensor's memory, and write it."""
    t = torch.from_numpy(values(kind)).t()
    view = memoryview(t)
    assert view.shape == (4, 3) and view.itemsize == t.itemsize and view.nbytes == t.nbytes and not view.readonly
    assert np.asarray(view).ctypes.data == t.data_ptr()
    assert bytes(t.contiguous()) == t.contiguous().numpy().tobytes()
    with pytest.raises(BufferError):
        memoryview(torch.ones(2, requires_grad=True))


def test_a_lent_buffer_stays_in_place(torch, beyond_pytorch):
    """Whatever happens to the tensor, the buffer's memory stays."""
    t = torch.arange(1000.0)
    view = memoryview(t)
    t.data = torch.zeros(3)
    del t
    gc.collect()
    filler = [torch.full((1000,), -1.0) for _ in range(10)]
    assert view[999] == 999.0 and len(filler) == 10


@pytest.mark.parametrize("make", [lambda: bytearray(16), lambda: array.array("d", [0, 0]), lambda: mmap.mmap(-1, 16)],
                         ids=["bytearray", "array", "mmap"])
def test_owners_stay_alive_and_fixed(torch, make, beyond_pytorch):
    """The owner of borrowed memory cannot be resized or closed under a tensor, nor die before it."""
    owner = make()
    t = torch.frombuffer(owner, dtype=torch.float64)
    t.fill_(2.5)
    assert memoryview(owner).cast("B").tobytes() == np.full(2, 2.5).tobytes()
    with pytest.raises(BufferError):
        owner.close() if isinstance(owner, mmap.mmap) else owner.extend(owner)
    view = t[1:]
    del t, owner
    gc.collect()
    assert view.tolist() == [2.5]


def test_owners_are_released(torch, beyond_pytorch):
    """With the last tensor goes the lock."""
    owner = bytearray(16)
    t = torch.frombuffer(owner, dtype=torch.float64)
    view = t[:1]
    del t
    with pytest.raises(BufferError):
        owner.append(1)
    del view
    gc.collect()
    owner.append(1)
    a = np.ones(3)
    t, seen = torch.from_numpy(a), weakref.ref(a)
    del a
    assert seen() is not None and t.tolist() == [1, 1, 1]
    del t
    gc.collect()
    assert seen() is None


# ---- asarray

def test_asarray_shares_or_copies(torch):
    """Sharing is the rule; a copy is made on request or need, and refused with ``copy=False``."""
    t, a = torch.arange(3.0), np.arange(3.0)
    assert torch.asarray(t).data_ptr() == t.data_ptr() == torch.asarray(t, copy=False).data_ptr()
    assert torch.asarray(t, copy=True).data_ptr() != t.data_ptr()
    assert torch.asarray(t, dtype=torch.int64).tolist() == [0, 1, 2]
    assert torch.asarray(a).data_ptr() == a.ctypes.data and torch.asarray(a, copy=True).data_ptr() != a.ctypes.data
    assert torch.asarray(t.__dlpack__()).data_ptr() == t.data_ptr()
    raw = bytearray(8)
    assert torch.asarray(raw).dtype is torch.float32 and torch.asarray(raw, dtype=torch.uint8).shape == (8,)
    assert torch.asarray(np.float32(3)).dtype is torch.float32 and torch.asarray(True).dtype is torch.bool
    assert torch.asarray([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    for obj in (t, a):
        with pytest.raises(ValueError, match="can't alias"):
            torch.asarray(obj, dtype=torch.int32, copy=False)
    with pytest.raises(ValueError, match="sequence"):
        torch.asarray([1, 2], copy=False)
    with pytest.raises(TypeError, match="copy"):
        torch.asarray(a, copy=3)
    for bad, error in (("ab", TypeError), (None, RuntimeError), ([[1], [2, 3]], ValueError)):
        with pytest.raises(error):
            torch.asarray(bad)


def test_asarray_and_gradients(torch):
    """Tensors keep their history; `requires_grad` makes a leaf of what has none."""
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    assert torch.asarray(x).requires_grad and torch.asarray(y).grad_fn is y.grad_fn
    assert torch.asarray(y, copy=True).grad_fn is not None and torch.asarray(x, dtype=torch.float64).grad_fn is not None
    for obj in ([1.0, 2.0], np.ones(2), torch.ones(2)):
        z = torch.asarray(obj, requires_grad=True)
        assert z.requires_grad and z.is_leaf


# ---- DLPack

@pytest.mark.parametrize("layout", LAYOUTS)
def test_dlpack_with_numpy(torch, kind, layout):
    """Both ways, with every type and layout, over the same memory."""
    a = LAYOUTS[layout](values(kind))
    t = torch.from_dlpack(a)
    assert tuple(t.shape) == a.shape and str(t.dtype) == f"torch.{kind}" and (t.numpy() == a).all()
    b = np.from_dlpack(t)
    assert b.dtype == a.dtype and (b == a).all()
    if a.size:
        assert t.data_ptr() == a.ctypes.data == b.ctypes.data
    if a.size > 1:
        assert b.strides == a.strides


@pytest.mark.parametrize("name", ["torch", "jax.numpy"])
def test_dlpack_with_other_libraries(torch, name, beyond_pytorch):
    """Writes of one side are seen by the other where the other allows it."""
    other = pytest.importorskip(name)
    make = other.asarray
    theirs = make(np.arange(6, dtype=np.float32).reshape(2, 3))
    ours = torch.from_dlpack(theirs)
    assert ours.tolist() == [[0, 1, 2], [3, 4, 5]] and ours.dtype is torch.float32
    back = other.from_dlpack(torch.arange(6, dtype=torch.float32).view(2, 3))
    assert back.tolist() == [[0, 1, 2], [3, 4, 5]]
    if name == "torch":
        ours[0, 0] = 7
        assert theirs[0, 0].item() == 7
        assert other.from_dlpack(ours).data_ptr() == ours.data_ptr() == theirs.data_ptr()
        assert torch.from_dlpack(theirs.t()).stride() == (1, 3)


def test_dlpack_versions_and_flags(torch):
    """Version 1 on request, version 0 else; other devices, streams and gradients are refused."""
    t = torch.arange(3.0)
    assert tuple(t.__dlpack_device__()) == (1, 0)
    assert '"dltensor"' in repr(t.__dlpack__()) and '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(t.__dlpack__(max_version=(0, 8)))
    with pytest.raises(BufferError, match="gradient"):
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(TypeError, match="stream"):
        t.__dlpack__(stream="a")
    with pytest.raises(AssertionError):
        t.__dlpack__(stream=3)
    copied = torch.from_dlpack(t.__dlpack__(copy=True, max_version=(1, 0)))
    assert copied.tolist() == t.tolist() and copied.data_ptr() != t.data_ptr()
    assert torch.from_dlpack(t, copy=True).data_ptr() != t.data_ptr()
    assert torch.from_dlpack(t, copy=False).data_ptr() == t.data_ptr() == torch.from_dlpack(t, device="cpu").data_ptr()


def test_dlpack_refusals(torch, beyond_pytorch):
    """What cannot be shared says so, and nothing is consumed."""
    t = torch.arange(3.0)
    with pytest.raises(BufferError, match="device"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="negative stride"):
        torch.from_dlpack(np.arange(3.0)[::-1])
    with pytest.raises((RuntimeError, TypeError, BufferError)):
        torch.from_dlpack(np.zeros(2, "datetime64[s]"))
    with pytest.raises(RuntimeError, match="capsule"):
        torch.from_dlpack([1, 2])
    locked = torch.frombuffer(b"12345678", dtype=torch.float64)
    with pytest.raises(BufferError, match="read-only"):
        locked.__dlpack__()
    assert not np.from_dlpack(locked).flags.writeable


def test_a_capsule_is_consumed_once(torch):
    """A second use of a capsule would free its memory twice."""
    capsule = torch.arange(3.0).__dlpack__()
    t = torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="once"):
        torch.from_dlpack(capsule)
    assert t.tolist() == [0, 1, 2]
    with pytest.raises((RuntimeError, TypeError)):
        torch.from_dlpack(object())


def test_dlpack_lifetimes(torch, beyond_pytorch):
    """Memory lives until the last holder, consumed or not, is gone."""
    from cygrad.storage import memory_stats
    gc.collect()
    before = memory_stats()["live_storages"]
    for version in (None, (1, 0)):
        t = torch.arange(1000.0)
        capsule = t.__dlpack__(max_version=version)
        kept = np.from_dlpack(t)
        del t
        gc.collect()
        assert memory_stats()["live_storages"] == before + 1 and kept[999] == 999
        del capsule, kept
        gc.collect()
        assert memory_stats()["live_storages"] == before
    a = np.arange(3.0)
    t, seen = torch.from_dlpack(a), weakref.ref(a)
    del a
    gc.collect()
    assert t.tolist() == [0, 1, 2]
    del t
    gc.collect()
    assert seen() is None


# ---- copies and pickles

@pytest.mark.parametrize("again", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_shared_storage_stays_shared(torch, backend, again):
    """Views of one storage in one object are views of one storage in its copy, which is separate from the original."""
    if again is not copy.deepcopy and backend != "cygrad":
        pytest.skip("PyTorch's own pickles keep what is shared, Python's do not")
    base = torch.arange(12.0).view(3, 4)
    parts = {"base": base, "row": base[1], "transposed": base.t(), "again": [base]}
    found = again(parts)
    found["base"].zero_()
    assert found["row"].tolist() == [0] * 4 and found["transposed"].sum().item() == 0
    assert found["again"][0] is found["base"] and found["transposed"].stride() == (1, 4)
    assert base.sum().item() == 66 and found["row"].storage_offset() == 4


def test_a_storage_copies_with_its_tensors(torch):
    """deepcopy knows a storage by whichever name."""
    t = torch.arange(3.0)
    found = copy.deepcopy({"storage": t.untyped_storage(), "t": t})
    assert found["storage"].data_ptr() == found["t"].data_ptr() != t.data_ptr()


def test_borrowed_memory_is_copied_into_own(torch):
    """The copy of a tensor over a read-only buffer can be written."""
    t = torch.frombuffer(bytearray(b"12345678"), dtype=torch.uint8)
    for found in (copy.deepcopy(t), pickle.loads(pickle.dumps(t))):
        found += 1
        assert found.tolist() == [v + 1 for v in t.tolist()]
    assert copy.copy(t).data_ptr() == t.data_ptr()


# ---- storages

def test_storages_of_bytes(torch):
    """An UntypedStorage counts, reads and writes bytes."""
    s = torch.UntypedStorage([1, 2, 255])
    assert s.tolist() == [1, 2, 255] and len(s) == s.nbytes() == 3 and s[2] == 255
    other = s.clone()
    other.fill_(7)
    assert s.tolist() == [1, 2, 255] and s.copy_(other).tolist() == [7, 7, 7]
    with pytest.raises(RuntimeError, match="size"):
        s.copy_(torch.UntypedStorage(2))
    t = torch.ones(2)
    t.untyped_storage()[3] = 0x40
    assert t[0].item() == np.frombuffer(b"\0\0\x80\x40", np.float32)[0]
    assert t.untyped_storage().data_ptr() == t.data_ptr()


def test_storages_resize(torch):
    """They shrink, and grow from nothing; borrowed ones do neither."""
    s = torch.UntypedStorage(0)
    assert s.resize_(9).nbytes() == 9
    s.fill_(3)
    assert s.resize_(4).tolist() == [3] * 4
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.frombuffer(bytearray(8), dtype=torch.uint8).untyped_storage().resize_(9)


def test_tensors_over_a_storage_that_grew_from_nothing(torch):
    """They are still at its start, and what is put over them lies in it."""

    def grown(t, nbytes=64):
        t.untyped_storage().resize_(nbytes).fill_(0)
        return t

    t = grown(torch.empty(0))
    assert t.storage_offset() == t[0:].storage_offset() == t.view(torch.int16).storage_offset() == 0
    assert grown(torch.empty(0).as_strided((0,), (1,), 3)).storage_offset() == 3
    y = t.as_strided((4,), (2,)).fill_(1.0)
    assert y.untyped_storage().data_ptr() == y.data_ptr() == t.untyped_storage().data_ptr()
    t.resize_(16)
    assert t.tolist() == [1, 0, 1, 0, 1, 0, 1] + [0] * 9 and t.data_ptr() == y.data_ptr()
    assert grown(torch.empty(0)).resize_(1000).fill_(2.0).sum() == 2000
    x = grown(torch.empty(0, 3)).share_memory_()
    assert x.storage_offset() == 0 and x.resize_(2, 3).shape == (2, 3)


def test_a_storage_does_not_move_under_tensors(torch, beyond_pytorch):
    """Growing would, and is refused; what a shrunk storage held stays valid memory."""
    t = torch.arange(100.0)
    s = t.untyped_storage()
    with pytest.raises(RuntimeError, match="cannot grow"):
        s.resize_(401)
    s.resize_(8)
    assert t.sum().item() == 4950 and s.resize_(400).nbytes() == 400
    with pytest.raises(RuntimeError, match="negative"):
        s.resize_(-1)
    s.resize_(0)
    del s, t
    gc.collect()


# ---- files

def test_tensors_over_files(torch, tmp_path):
    """A private mapping keeps its writes to itself, a shared one is the file."""
    name = str(tmp_path / "numbers")
    np.arange(6, dtype=np.float32).tofile(name)
    private = torch.from_file(name, size=6)
    private[0] = 9
    assert np.fromfile(name, np.float32)[0] == 0 and private.tolist() == [9, 1, 2, 3, 4, 5]
    shared = torch.from_file(name, shared=True, size=4, dtype=torch.int32)
    shared[1] = 7
    assert np.fromfile(name, np.int32)[1] == 7 and shared.is_shared() and shared.untyped_storage().filename == name
    again = torch.from_file(name, True, 4, dtype=torch.int32)
    assert again[1].item() == 7
    made = torch.from_file(str(tmp_path / "made"), shared=True, size=5)
    assert made.tolist() == [0] * 5 and (tmp_path / "made").stat().st_size == 20
    assert torch.from_file(name, size=0).shape == (0,)
    assert torch.UntypedStorage.from_file(name, False, 8).nbytes() == 8
    del private, shared, again, made


def test_files_that_cannot_be_mapped(torch, tmp_path):
    """Absent and short files are refused by name."""
    name = str(tmp_path / "numbers")
    with pytest.raises(RuntimeError, match="numbers"):
        torch.from_file(name, size=3)
    (tmp_path / "numbers").write_bytes(b"1234")
    with pytest.raises(RuntimeError, match="smaller"):
        torch.from_file(name, size=3)
    with pytest.raises(RuntimeError):
        torch.from_file(name, size=-1)
    with pytest.raises(TypeError, match="filename"):
        torch.from_file(3, size=1)
    assert (tmp_path / "numbers").read_bytes() == b"1234"


def test_a_storage_is_shared_by_its_tensors(torch, beyond_pytorch):
    t = torch.ones(2)
    with pytest.raises(RuntimeError, match="share_memory_\\(\\) of a tensor"):
        t.untyped_storage().share_memory_()
    storage = t.share_memory_().untyped_storage()
    assert storage.share_memory_() is storage and storage.is_shared()


# ---- Python's own protocols

def test_python_protocols(torch):
    """Conversions, iteration and lookups as on PyTorch's tensors."""
    t = torch.tensor(2.5)
    assert (math.floor(t), math.ceil(t), int(t), float(t), complex(t), abs(-t).item()) == (2, 3, 2, 2.5, 2.5 + 0j, 2.5)
    assert f"{t:.3f}" == "2.500" and f"{torch.ones(2)}" == "tensor([1., 1.])"
    assert [1, 2, 3][torch.tensor(1)] == 2 and list(range(3))[torch.tensor(-1)] == 2
    x = torch.arange(3)
    assert [v.item() for v in x] == [0, 1, 2] and len(x) == 3 and 2 in x and 5 not in x
    assert not hasattr(t, "__cuda_array_interface__") and t.__array_priority__ == 1000
    assert "sum" in dir(t)
    for bad in (lambda: len(t), lambda: iter(t), lambda: "a" in x, lambda: float(x), lambda: [1][torch.tensor(1.0)],
                lambda: complex(x), lambda: math.trunc(t), lambda: round(t), lambda: format(x, ".3f")):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            bad()


def test_reversed(torch):
    """The first dimension backwards."""
    if not hasattr(torch.Tensor, "flip"):
        pytest.skip("no flip yet")
    assert reversed(torch.arange(6).view(3, 2)).tolist() == [[4, 5], [2, 3], [0, 1]]
    assert reversed(torch.tensor(3)).item() == 3


# ---- bad neighbours

def test_lies_about_dlpack_are_errors(torch, run_child):
    """Objects that promise an array and give none raise, whatever they give."""
    assert run_child("""
        class Liar:
            def __init__(self, capsule, device=(1, 0)):
                self.capsule, self.device = capsule, device
            def __dlpack_device__(self):
                return self.device
            def __dlpack__(self, **options):
                if isinstance(self.capsule, Exception):
                    raise self.capsule
                return self.capsule
        used = torch.arange(3.0).__dlpack__()
        torch.from_dlpack(used)
        for liar in (Liar(None), Liar(3), Liar(used), Liar(KeyError("no")), Liar(torch.ones(2).__dlpack__(), (7, 0)),
                     Liar(torch.ones(2).__dlpack__(), None), Liar([])):
            try:
                torch.from_dlpack(liar)
            except Exception:
                continue
            raise AssertionError(liar.capsule)
        print("refused")
        """) == "refused"


def test_sharing_from_many_threads(torch, run_child, beyond_pytorch):
    """Capsules, buffers and arrays made, handed on and dropped by several threads at once."""
    assert run_child("""
        import gc, queue, sys, threading
        import numpy as np
        from cygrad.storage import memory_stats
        sys.setswitchinterval(1e-5)
        gc.collect()
        before = memory_stats()["live_storages"]
        work = queue.Queue(50)
        def make():
            for i in range(1500):
                t = torch.full((i % 70,), float(i))
                work.put((i, (lambda: t.__dlpack__(), lambda: t.__dlpack__(max_version=(1, 0)), t.numpy,
                              lambda: memoryview(t), lambda: t.untyped_storage()[:])[i % 5]()))
            work.put(None)
        def take():
            while (item := work.get()) is not None:
                i, thing = item
                if i % 3:
                    continue                       # dropped unused
                x = np.asarray(torch.from_dlpack(thing) if i % 5 < 2 else thing if i % 5 < 4 else thing.tolist())
                assert i % 5 == 4 or (x.shape == (i % 70,) and (x == i).all())
        threads = [threading.Thread(target=f) for f in (make, make, take, take)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        gc.collect()
        assert memory_stats()["live_storages"] == before, memory_stats()
        print("balanced")
        """) == "balanced"

"""Tensors on a device: where they are, how they get there, what is refused; memory, streams, files."""

import copy
import ctypes
import gc
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import cygrad
import cygrad.multiprocessing

pytestmark = pytest.mark.usefixtures("any_devices")


@pytest.mark.usefixtures("imitated_devices")
def test_there_are_devices_when_asked_for(monkeypatch):
    assert cygrad.cuda.is_available() and cygrad.cuda.device_count() in (1, 2)
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "0")
    assert not cygrad.cuda.is_available() and cygrad.cuda.device_count() == 0
    with pytest.raises(RuntimeError, match="no device 'cuda'"):
        cygrad.ones(2).cuda()


@pytest.mark.usefixtures("two_devices")
def test_a_tensor_goes_there_and_back():
    x = cygrad.arange(6.0).reshape(2, 3)
    y = x.to("cuda:1")
    assert y.is_cuda and not y.is_cpu and str(y.device) == "cuda:1" and y.get_device() == 1 and x.get_device() == -1
    assert y.cpu().tolist() == x.tolist() and y.tolist() == x.tolist() and y.device != y.cpu().device
    assert y.to("cuda:1") is y and y.cuda(1) is y and x.cpu() is x
    assert y.to("cuda:0").device.index == 0 and y.to(x).is_cpu
    assert x.cuda().device == cygrad.device("cuda:0") == x.to(0).device


LAYOUTS = [lambda x: x, lambda x: x.t(), lambda x: x[:, 1::2], lambda x: x[1], lambda x: x[:1].expand(5, 6),
           lambda x: x[:0], lambda x: x[1, 2], lambda x: x.t()[::2]]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "float16"])
def test_layouts_and_dtypes_survive_the_way(layout, dtype):
    x = layout(cygrad.arange(24).reshape(4, 6).to(getattr(cygrad, dtype)))
    far = x.cuda()
    assert far.shape == x.shape and far.dtype == x.dtype and far.cpu().tolist() == x.tolist()
    wide = layout(cygrad.arange(24).reshape(4, 6).to(getattr(cygrad, dtype)).cuda())
    assert wide.stride() == x.stride() and wide.tolist() == x.tolist()
    if x.numel() and 0 not in wide.stride():
        wide.copy_(cygrad.zeros(x.shape))
        assert not wide.cpu().any()
    assert far.to("cuda", cygrad.float64).dtype == cygrad.float64


def test_views_lie_where_their_base_does(last_device):
    x = cygrad.zeros(4, 6, device=last_device)
    for view in (x[1], x.t(), x.view(24), x.reshape(2, 12), x.unsqueeze(0), x.expand(2, 4, 6), x.diagonal(),
                 x.unfold(0, 2, 1), x.detach(), x.data, x.as_strided((2,), (3,)), x.view(cygrad.int32),
                 x.narrow(1, 2, 3), x.squeeze(), *x.split(2)):  # fmt: skip
        assert str(view.device) == last_device


@pytest.mark.usefixtures("two_devices")
def test_two_devices_are_refused_in_pytorchs_words():
    a, b = cygrad.ones(3, device="cuda:0"), cygrad.ones(3)
    words = "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    for call in (lambda: a + b, lambda: b * a, lambda: a.add_(b), lambda: cygrad.cat([a, b]),
                 lambda: cygrad.where(a > 0, a, b)):  # fmt: skip
        with pytest.raises(RuntimeError, match=words):
            call()
    with pytest.raises(RuntimeError, match="cuda:1 and cuda:0"):
        a + a.to("cuda:1")
    with pytest.raises(RuntimeError, match="Expected out tensor to have device cuda:0, but got cpu"):
        cygrad.sum(a, 0, out=cygrad.empty(()))
    assert a.tolist() == [1, 1, 1] and b.tolist() == [1, 1, 1]


def test_numbers_may_stand_beside_a_device():
    a = cygrad.ones(3, device="cuda")
    assert (a + 2).tolist() == (a + cygrad.tensor(2.0)).tolist() == (2 + a).tolist() == [3, 3, 3]
    assert (a + cygrad.tensor(2.0)).is_cuda and cygrad.where(a > 0, a, cygrad.tensor(5.0)).is_cuda
    with pytest.raises(RuntimeError, match="two devices"):
        cygrad.tensor(2.0).add_(a[0])


def test_what_a_device_lacks_is_named():
    a = cygrad.ones(3, 3, device="cuda")
    with pytest.raises(NotImplementedError, match=r"linalg\.eig .*cuda:0.*\.cpu\(\)"):
        cygrad.linalg.eig(a)


def test_memory_of_a_device_is_not_lent_to_the_cpu():
    a = cygrad.ones(3, device="cuda")
    for call, error in ((a.numpy, TypeError), (lambda: np.asarray(a), TypeError), (lambda: memoryview(a), BufferError)):
        with pytest.raises(error, match="cpu"):
            call()
    with pytest.raises(RuntimeError, match="cpu"):
        a.untyped_storage()[0]
    assert a.numpy(force=True).tolist() == [1, 1, 1]
    assert a.item.__self__ is a and a[0].item() == 1 and bool(a[0]) and int(a[1]) == 1 and len(a) == 3


@pytest.mark.usefixtures("two_devices")
def test_factories_make_tensors_there():
    there, far = {"device": "cuda:1"}, cygrad.ones(2, device="cuda:1")
    for y in (cygrad.zeros(2, **there), cygrad.empty(2, **there), cygrad.full((2,), 3, **there),
              cygrad.tensor([1, 2], **there), cygrad.zeros_like(cygrad.ones(2), **there), cygrad.zeros_like(far),
              far.new_zeros(2), cygrad.empty_strided((2,), (3,), **there), cygrad.as_tensor([1.0], **there),
              cygrad.asarray([1.0], **there), cygrad.tensor(far), far):  # fmt: skip
        assert str(y.device) == "cuda:1"
    assert cygrad.zeros(2, device="cuda").tolist() == [0, 0] and cygrad.full((2,), 3, device="cuda").tolist() == [3, 3]
    assert cygrad.ones(2, device="cuda", requires_grad=True).requires_grad
    assert cygrad.tensor([1, 2], device=1).device.index == 1


@pytest.mark.usefixtures("two_devices")
def test_the_default_device():
    with cygrad.device("cuda:1"):
        assert cygrad.zeros(2).device.index == 1 and cygrad.tensor([1.0]).is_cuda
        assert cygrad.get_default_device() == cygrad.device("cuda:1")
        with cygrad.device("cpu"):
            assert cygrad.zeros(2).is_cpu
    assert cygrad.zeros(2).is_cpu
    with cygrad.cuda.device(1):
        assert cygrad.cuda.current_device() == 1 and cygrad.zeros(2, device="cuda").device.index == 1
    assert cygrad.cuda.current_device() == 0


def test_gradients_go_over_the_copy():
    x = cygrad.arange(3.0, requires_grad=True)
    y = x.cuda()
    assert y.grad_fn.name() == "ToCopyBackward0" and y.grad_fn._input_metadata[0].device == y.device
    (y * y).sum().backward()
    assert x.grad.is_cpu and x.grad.tolist() == [0, 2, 4]
    w = cygrad.tensor(2.0, requires_grad=True)                  # a number on the CPU beside a device
    (w * cygrad.ones(3, device="cuda")).sum().backward()
    assert w.grad.is_cpu and w.grad.item() == 3
    z = cygrad.ones(2, device="cuda", requires_grad=True)
    z.sum().backward()
    z.sum().backward()
    assert z.grad.is_cuda and z.grad.tolist() == [2, 2]


def test_memory_is_counted_and_comes_back():
    cygrad.cuda.empty_cache()
    gc.collect()
    before = cygrad.cuda.memory_allocated()
    x = cygrad.empty(1000, device="cuda")
    assert cygrad.cuda.memory_allocated() - before == 4096 and cygrad.cuda.memory_reserved() >= 2 << 20
    assert cygrad.cuda.max_memory_allocated() >= before + 4096
    place = x.data_ptr()
    del x
    assert cygrad.cuda.memory_allocated() == before
    assert cygrad.empty(1000, device="cuda").data_ptr() == place
    cygrad.cuda.empty_cache()
    assert cygrad.cuda.memory_reserved() == cygrad.cuda.memory_allocated() or before
    assert cygrad.cuda.memory_stats()["num_ooms"] >= 0 and "reserved_bytes" in cygrad.cuda.memory_summary()
    assert cygrad.cuda.mem_get_info()[0] <= cygrad.cuda.mem_get_info()[1]


def test_running_out_of_memory_says_what_was_asked_for():
    cygrad.cuda.set_per_process_memory_fraction(0.001)
    try:
        words = r"Tried to allocate .* GiB\. GPU 0 .* is free.* is allocated.* is cached"
        with pytest.raises(cygrad.cuda.OutOfMemoryError, match=words):
            cygrad.empty(1 << 30, device="cuda")
        assert issubclass(cygrad.OutOfMemoryError, RuntimeError)
        cygrad.ones(3, device="cuda")
    finally:
        cygrad.cuda.set_per_process_memory_fraction(1)


@pytest.mark.usefixtures("two_devices")
def test_blocks_are_split_and_joined():
    cygrad.cuda.empty_cache()
    blocks = [cygrad.empty(1 << 20, device="cuda:1") for _ in range(4)]        # of 4 MB, in one segment of 20
    reserved = cygrad.cuda.memory_reserved(1)
    assert reserved == 20 << 20
    places = [b.data_ptr() for b in blocks]
    del blocks
    gc.collect()
    whole = cygrad.empty(4 << 20, dtype=cygrad.uint8, device="cuda:1")
    del whole
    assert cygrad.empty(9 << 20, dtype=cygrad.uint8, device="cuda:1").data_ptr() == min(places)
    assert cygrad.cuda.memory_reserved(1) == reserved


def test_streams_and_events():
    s = cygrad.cuda.Stream()
    assert s.query() and s != cygrad.cuda.default_stream() and s.device == cygrad.device("cuda:0")
    with cygrad.cuda.stream(s):
        assert cygrad.cuda.current_stream() == s
        a = cygrad.ones(3, device="cuda") + 1
    assert cygrad.cuda.current_stream() == cygrad.cuda.default_stream()
    cygrad.cuda.current_stream().wait_stream(s)
    a.record_stream(cygrad.cuda.current_stream())
    begin, end = cygrad.cuda.Event(enable_timing=True), cygrad.cuda.Event(enable_timing=True)
    begin.record()
    (a * 2).sum()
    end.record()
    with pytest.raises(RuntimeError, match="elapsed_time"):
        begin.elapsed_time(end)                                 # before anything has waited for them
    end.synchronize()
    assert begin.query() and begin.elapsed_time(end) >= 0 and a.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="enable_timing"):
        cygrad.cuda.Event().elapsed_time(end)
    cygrad.cuda.synchronize()
    with pytest.raises(RuntimeError, match="CUDA device 7"):
        cygrad.cuda.synchronize(7)


def test_pinned_memory():
    x = cygrad.arange(5.0)
    p = x.pin_memory()
    assert p.is_pinned() and not x.is_pinned() and p.tolist() == x.tolist()
    assert p.pin_memory() is p and p[1:].is_pinned()
    y = p.to("cuda", non_blocking=True)
    cygrad.cuda.synchronize()
    assert y.tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="cannot pin"):
        y.pin_memory()


@pytest.mark.usefixtures("two_devices")
def test_pickles_and_checkpoints(tmp_path):
    x = cygrad.arange(4.0).to("cuda:1")
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.device == x.device and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    cygrad.save({"x": x, "view": x[1:]}, tmp_path / "x.pt")
    back = cygrad.load(tmp_path / "x.pt")
    assert back["x"].device == x.device and back["x"].tolist() == x.tolist() and back["view"].tolist() == [1, 2, 3]
    assert cygrad.load(tmp_path / "x.pt", map_location="cpu")["x"].is_cpu
    assert cygrad.load(tmp_path / "x.pt", map_location={"cuda:1": "cuda:0"})["x"].device.index == 0


@pytest.mark.usefixtures("imitated_devices")
def test_a_checkpoint_of_a_missing_device_is_refused(tmp_path, monkeypatch):
    cygrad.save(cygrad.ones(2, device="cuda"), tmp_path / "x.pt")
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "0")
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        cygrad.load(tmp_path / "x.pt")
    assert cygrad.load(tmp_path / "x.pt", map_location="cpu").tolist() == [1, 1]


def test_dlpack_of_misaligned_memory():
    """A device that reads it fails for good; the CPU takes it."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    offset = 8 + 8 + 4 + 4 + 8 + 8                  # data, device, ndim, dtype, shape, strides
    for dtype, step in ((cygrad.float32, 2), (cygrad.complex128, 8)):
        x = cygrad.ones(4, dtype=dtype, device="cuda")
        capsule = x.__dlpack__()
        where = ctypes.c_uint64.from_address(pointer(capsule, b"dltensor") + offset)
        assert where.value == 0
        where.value = step
        with pytest.raises(BufferError, match=f"no multiple of the {x.element_size()} bytes of an element"):
            cygrad.from_dlpack(capsule)
        where.value = x.element_size()
        assert cygrad.from_dlpack(capsule).data_ptr() == x.data_ptr() + x.element_size()


@pytest.mark.usefixtures("two_devices")
def test_dlpack():
    x = cygrad.arange(4.0, device="cuda:1")
    assert x.__dlpack_device__() == (2, 1)
    y = cygrad.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()
    with pytest.raises(BufferError, match="cuda:1"):
        x.__dlpack__(dl_device=(1, 0), copy=False)


@pytest.mark.usefixtures("two_devices")
def test_printing():
    assert repr(cygrad.arange(2.0, device="cuda")) == "tensor([0., 1.], device='cuda:0')"
    assert repr(cygrad.tensor(3, device="cuda:1")) == "tensor(3, device='cuda:1')"


@pytest.mark.usefixtures("two_devices")
def test_generators():
    g = cygrad.Generator(device="cuda:1").manual_seed(7)
    assert g.device == cygrad.device("cuda:1") and g.initial_seed() == 7 and g.get_state().numel() == 16
    state = g.get_state()
    assert pickle.loads(pickle.dumps(g)).get_state().tolist() == state.tolist()
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'cuda'"):
        cygrad.rand(3, generator=g)
    cygrad.manual_seed(3)
    assert cygrad.cuda.initial_seed() == 3 and cygrad.cuda.get_rng_state().numel() == 16
    cygrad.cuda.manual_seed_all(4)
    assert cygrad.cuda.initial_seed() == 4


@pytest.mark.usefixtures("two_devices")
def test_modules_move():
    layer = cygrad.nn.Linear(3, 2)
    before = layer.weight.tolist()
    layer.cuda()
    assert layer.weight.is_cuda and layer.bias.is_cuda and layer.weight.is_leaf and layer.weight.requires_grad
    assert layer.cpu().weight.tolist() == before and layer.to("cuda:1").weight.device.index == 1
    buffer = io.BytesIO()
    cygrad.save(layer.state_dict(), buffer)
    buffer.seek(0)
    assert cygrad.load(buffer)["weight"].device.index == 1


@pytest.mark.usefixtures("two_devices")
def test_memory_of_a_device_is_not_shared_but_sent():
    x = cygrad.arange(3.0).cuda(1)
    assert x.share_memory_() is x and not x.is_shared()
    y = pickle.loads(ForkingPickler.dumps(x))
    assert y.device == x.device and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()


@pytest.mark.usefixtures("two_devices")
def test_storages():
    s = cygrad.ones(2, dtype=cygrad.uint8, device="cuda").untyped_storage()
    assert s.device == cygrad.device("cuda:0") == s.clone().device and s.tolist() == s.cpu().tolist() == [1, 1]
    assert s.to("cuda:1").tolist() == [1, 1] and "device=cuda:0" in repr(s)
    x = cygrad.empty(0, dtype=cygrad.uint8, device="cuda").set_(s)
    assert x.tolist() == [1, 1] and x.resize_(4).shape == (4,) and x[:2].tolist() == [1, 1]


def test_products_may_be_rounded_before_they_are_added_up_where_it_is_allowed():
    assert cygrad.backends.cuda.matmul.allow_tf32 is False and cygrad.get_float32_matmul_precision() == "highest"
    try:
        cygrad.set_float32_matmul_precision("medium")
        assert cygrad.backends.cuda.matmul.allow_tf32 is True and cygrad.get_float32_matmul_precision() == "medium"
        cygrad.set_float32_matmul_precision("highest")
        cygrad.backends.cuda.matmul.allow_tf32 = True
        assert cygrad.get_float32_matmul_precision() == "high"
        a = cygrad.eye(3, device="cuda") @ cygrad.ones(3, 2, device="cuda")
    finally:
        cygrad.set_float32_matmul_precision("highest")
    assert cygrad.backends.cuda.matmul.allow_tf32 is False and a.tolist() == [[1, 1]] * 3

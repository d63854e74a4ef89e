"""What programs ask of torch.cuda and torch.accelerator beyond tensors: streams, events, memory, properties, names."""

import ctypes

import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")
cuda = cygrad.cuda


@pytest.fixture(autouse=True)
def first_device():
    yield
    for k in reversed(range(cuda.device_count())):
        cuda.set_stream(cuda.default_stream(k))


# ---- devices


@pytest.mark.usefixtures("two_devices")
def test_a_number_is_a_cuda_device():
    assert cygrad.device(1) == cygrad.device("cuda:1") and cygrad.device(0).index == 0
    assert str(cygrad.ones(2, device=cygrad.device(1)).device) == "cuda:1"
    for wrong, error in (((-1,), RuntimeError), ((True,), TypeError), ((1.5,), TypeError), ((1, 2), TypeError)):
        with pytest.raises(error):
            cygrad.device(*wrong)


@pytest.mark.usefixtures("two_devices")
def test_a_default_device_without_index_follows_set_device():
    try:
        cygrad.set_default_device("cuda")
        assert cygrad.zeros(1).device.index == 0
        cuda.set_device(1)
        assert cygrad.zeros(1).device.index == 1 and cygrad.get_default_device() == cygrad.device("cuda:1")
        with cygrad.device("cpu"):
            assert cygrad.zeros(1).is_cpu
        with cygrad.device("cuda:0"):
            assert cygrad.zeros(1).device.index == 0
        cuda.set_device(0)
        assert cygrad.zeros(1).device.index == 0                 # what was left is without an index still
        cygrad.set_default_device(1)
        assert cygrad.zeros(1).device.index == 1
    finally:
        cygrad.set_default_device(None)
        cuda.set_device(0)
    with cygrad.device("cuda"), cuda.device(1):
        assert cygrad.ones(1).device.index == 1


def test_devices_that_are_not_there_are_errors_of_pytorchs_kinds():
    for call in (cuda.get_device_name, cuda.get_device_properties, cuda.get_device_capability):
        for wrong in (2, -1, "cuda:7"):
            with pytest.raises(AssertionError, match="Invalid device id"):
                call(wrong)
    with pytest.raises(AssertionError, match="Invalid peer device id"):
        cuda.can_device_access_peer(0, 5)
    for call in (cuda.set_device, cuda.synchronize, cuda.memory_allocated, cuda.Stream):
        with pytest.raises(cygrad.AcceleratorError, match="CUDA error: invalid device ordinal"):
            call(2)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.synchronize("cpu")


@pytest.mark.usefixtures("two_devices")
def test_the_cpu_is_no_cuda_device():
    x = cygrad.ones(2)
    for call in (lambda: x.cuda("cpu"), lambda: x.cuda().cuda(cygrad.device("cpu")),
                 lambda: cygrad.nn.Linear(2, 2).cuda("cpu")):  # fmt: skip
        with pytest.raises(RuntimeError, match="Invalid device, must be cuda device"):
            call()
    assert x.cuda("cuda:1").device.index == 1 and x.cuda(cygrad.device(1)).device.index == 1


@pytest.mark.usefixtures("two_devices")
def test_a_gradient_lies_beside_its_tensor():
    w = cygrad.ones(2, requires_grad=True)
    far = cygrad.ones(2, device="cuda:1", requires_grad=True)
    with pytest.raises(RuntimeError, match="gradient with device type 'cuda' to a tensor with device type 'cpu'"):
        w.grad = cygrad.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="gradient with device type 'cpu' to a tensor with device type 'cuda'"):
        far.grad = cygrad.ones(2)
    with pytest.raises(RuntimeError, match="device with index '0' to a tensor located on device with index '1'"):
        far.grad = cygrad.ones(2, device="cuda:0")
    far.grad = cygrad.ones(2, device="cuda:1")
    assert w.grad is None and far.grad.tolist() == [1, 1]


# ---- page-locked memory

FACTORIES = {
    "empty": lambda **o: cygrad.empty(3, 4, **o), "zeros": lambda **o: cygrad.zeros(3, 4, **o),
    "ones": lambda **o: cygrad.ones(3, **o), "full": lambda **o: cygrad.full((3,), 2.5, **o),
    "tensor": lambda **o: cygrad.tensor([[1.0, 2.0]], **o),
    "of a tensor": lambda **o: cygrad.tensor(cygrad.ones(2), **o),
    "new_tensor": lambda **o: cygrad.ones(1).new_tensor([1, 2], **o), "arange": lambda **o: cygrad.arange(5, **o),
    "linspace": lambda **o: cygrad.linspace(0, 1, 5, **o), "eye": lambda **o: cygrad.eye(3, **o),
    "randperm": lambda **o: cygrad.randperm(5, **o), "rand": lambda **o: cygrad.rand(4, **o),
    "randn": lambda **o: cygrad.randn(4, **o), "randint": lambda **o: cygrad.randint(9, (4,), **o),
    "normal": lambda **o: cygrad.normal(0.0, 1.0, (4,), **o),
    "empty_strided": lambda **o: cygrad.empty_strided((2, 3), (1, 2), **o),
    "empty_permuted": lambda **o: cygrad.empty_permuted((2, 3), (1, 0), **o),
    "hann_window": lambda **o: cygrad.hann_window(6, **o), "new_zeros": lambda **o: cygrad.ones(1).new_zeros(3, **o),
    "many dimensions": lambda **o: cygrad.ones((1, 2, 1, 2, 1, 2, 1), **o),
    "channels_last": lambda **o: cygrad.empty(2, 3, 4, 4, memory_format=cygrad.channels_last, **o),
    **{f"{name}_like": lambda name=name, **o: getattr(cygrad, f"{name}_like")(cygrad.ones(2, 3).t(), **o)
       for name in ("zeros", "ones", "empty", "rand", "randn")},
    "full_like": lambda **o: cygrad.full_like(cygrad.ones(2, 3), 3, **o),
    "randint_like": lambda **o: cygrad.randint_like(cygrad.ones(2, 3), 9, **o),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_make_page_locked_tensors(name):
    make = FACTORIES[name]
    cygrad.manual_seed(3)
    plain = make()
    cygrad.manual_seed(3)
    pinned = make(pin_memory=True)
    assert pinned.is_pinned() and not plain.is_pinned() and not make(pin_memory=False).is_pinned()
    assert pinned.stride() == plain.stride() and pinned.dtype == plain.dtype and pinned.is_cpu
    if not name.startswith(("empty", "channels")):
        assert pinned.tolist() == plain.tolist() == pinned.cuda(non_blocking=True).tolist()


def test_page_locked_tensors_are_ordinary_ones():
    x = cygrad.ones(3, pin_memory=True, requires_grad=True)
    (x * 2).sum().backward()
    assert x.is_leaf and x.grad.tolist() == [2, 2, 2]
    with cygrad.inference_mode():
        assert cygrad.zeros(2, pin_memory=True).is_inference()
    assert cygrad.empty(0, pin_memory=True).shape == (0,)
    out = cygrad.empty(3)
    place = out.data_ptr()
    assert cygrad.rand(3, out=out, pin_memory=True) is out and out.data_ptr() == place and not out.is_pinned()
    for call in (lambda: cygrad.zeros(2, device="cuda", pin_memory=True),
                 lambda: cygrad.zeros_like(cygrad.ones(2, device="cuda"), pin_memory=True)):  # fmt: skip
        with pytest.raises(RuntimeError, match="only tensors on the CPU can be pinned"):
            call()
    with pytest.raises(TypeError, match=r"'pin_memory' .*must be bool"):
        cygrad.tensor([1.0], pin_memory=1)
    with pytest.raises(NotImplementedError, match="vmap"):
        cygrad.vmap(lambda v: cygrad.zeros_like(v, pin_memory=True))(cygrad.ones(2, 3))


@pytest.mark.usefixtures("two_devices")
def test_storages_are_pinned_and_filled():
    s = cygrad.tensor([1.0, 2.0]).untyped_storage()
    p = s.pin_memory()
    assert p.is_pinned() and not s.is_pinned() and p.tolist() == s.tolist() and p.pin_memory() is p
    far = cygrad.ones(3, device="cuda:1").untyped_storage()
    with pytest.raises(TypeError, match="only CPU memory can be pinned"):
        far.pin_memory()
    assert not far.is_pinned() and far.fill_(7).tolist() == [7] * 12
    far[1] = 300
    far[4:6] = 0
    assert far.tolist() == [7, 44, 7, 7, 0, 0, 7, 7, 7, 7, 7, 7]
    wide = cygrad.empty((1 << 20) + 5, dtype=cygrad.uint8, device="cuda")
    wide.untyped_storage().fill_(9)
    assert (wide == 9).all()


def test_saved_tensors_wait_in_page_locked_memory():
    def held():
        return cuda.host_memory_stats()["active_requests.current"]

    x = cygrad.arange(3.0, device="cuda", requires_grad=True)
    cuda.synchronize()
    before = held()
    with cygrad.autograd.graph.save_on_cpu(pin_memory=True):
        y = x.exp()
    assert held() == before + 1
    y.sum().backward()
    cuda.synchronize()
    assert held() == before
    assert x.grad.is_cuda and cygrad.allclose(x.grad.cpu(), x.detach().cpu().exp())


# ---- streams and events


@pytest.mark.usefixtures("two_devices")
def test_a_stream_is_a_context():
    s, far = cuda.Stream(), cygrad.Stream("cuda:1")
    with s as entered:
        assert entered is s and cuda.current_stream() == s
        with far:
            assert cuda.current_device() == 1 and cuda.current_stream() == far
            with s:
                assert cuda.current_device() == 0 and cuda.current_stream() == s
            assert cuda.current_stream() == far
        assert cuda.current_stream() == s and cuda.current_device() == 0
    assert cuda.current_stream() == cuda.default_stream() and cuda.current_stream(1) == cuda.default_stream(1)
    with pytest.raises(ZeroDivisionError), s:
        1 / 0  # noqa: B018
    assert cuda.current_stream() == cuda.default_stream()


@pytest.mark.usefixtures("two_devices")
def test_streams_of_the_top_and_of_cuda():
    assert issubclass(cuda.Stream, cygrad.Stream) and issubclass(cuda.Event, cygrad.Event)
    assert cuda.streams.Stream is cuda.Stream and isinstance(cuda.current_stream(), cuda.Stream)
    s = cygrad.Stream(device="cuda:1", priority=-1)
    assert (s.device, s.device_index, s.device_type, s.priority) == (cygrad.device("cuda:1"), 1, 1, -1)
    assert s.stream_id == s.native_handle == s.cuda_stream and s.__cuda_stream__() == (0, s.cuda_stream)
    assert not s.is_capturing() and isinstance(s._as_parameter_, ctypes.c_void_p)
    again = cuda.Stream(stream_id=s.stream_id, device_index=1, device_type=1)
    assert again == s and hash(again) == hash(s) and again.priority == -1
    assert cuda.get_stream_from_external(s.cuda_stream, 1) == s
    with cuda.stream(s):
        assert cuda.current_stream().priority == -1
    least, greatest = cuda.Stream.priority_range()
    assert least >= greatest and repr(s).startswith("<torch.cuda.Stream device=cuda:1")
    with pytest.raises(TypeError, match="stream_id"):
        cuda.Stream(stream_id=3)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cygrad.Stream("cpu")


@pytest.mark.usefixtures("two_devices")
def test_events_say_where_they_are():
    e = cuda.Event()
    assert e.device is None and e.cuda_event == e.event_id == 0 and repr(e) == "<torch.cuda.Event uninitialized>"
    e.record(cuda.Stream(1))
    assert e.device == cygrad.device("cuda:1") and repr(e) == f"<torch.cuda.Event {e.cuda_event:#x}>" and e.event_id
    assert isinstance(cuda.Event(external=True, blocking=True), cygrad.Event)
    far = cygrad.Event("cuda:1", enable_timing=True)
    assert far.device.index == 1 and "device_index=1" in repr(far)
    far.record()
    end = cygrad.Event(device="cuda:1", enable_timing=True)
    end.record()
    end.synchronize()
    assert far.elapsed_time(end) >= 0 and far.query()
    with cuda.Stream() as s:
        assert s.record_event().device.index == 0
    for call in (lambda: cuda.Event(interprocess=True), e.ipc_handle, lambda: cuda.Event.from_ipc_handle(0, b"")):
        with pytest.raises(NotImplementedError, match="several processes"):
            call()


@pytest.mark.usefixtures("two_devices")
def test_a_chosen_stream_makes_its_device_current():
    s = cuda.Stream(1)
    cuda.set_stream(s)
    assert cuda.current_device() == 1 and cuda.current_stream() == s
    cuda.set_stream(cuda.default_stream(1))
    cuda.set_device(0)


# ---- memory


def test_memory_statistics_have_pytorchs_names():
    x = cygrad.empty(5000, device="cuda")
    stats, nested = cuda.memory_stats(), cuda.memory_stats_as_nested_dict()
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated()
    assert nested["allocated_bytes"]["all"]["current"] == cuda.memory_allocated()
    assert nested["num_ooms"] == stats["num_ooms"] and x.numel() == 5000
    cuda.reset_accumulated_memory_stats()
    cuda.reset_peak_memory_stats()
    assert cuda.memory.memory_stats is cuda.memory_stats and "reserved_bytes.all.peak" in cuda.memory_summary()
    assert cuda.get_allocator_backend() == "native" and cuda.device_memory_used() >= cuda.memory_reserved()
    for call in (cuda.memory_snapshot, lambda: cuda.caching_allocator_enable(False)):
        with pytest.raises(NotImplementedError):
            call()


def test_page_locked_memory_is_counted():
    before = cuda.host_memory_stats()
    x = cygrad.empty(3 << 20, dtype=cygrad.uint8, pin_memory=True)
    during = cuda.host_memory_stats()
    assert during["active_bytes.current"] - before["active_bytes.current"] >= x.numel()
    assert during["active_requests.current"] - before["active_requests.current"] == 1
    del x
    cuda.synchronize()
    after = cuda.host_memory_stats_as_nested_dict()
    assert after["active_bytes"]["current"] == before["active_bytes.current"]
    assert after["allocated_bytes"]["current"] > after["active_bytes"]["current"]
    cygrad.accelerator.empty_host_cache()
    stats = cuda.host_memory_stats()
    assert stats["allocated_bytes.current"] == stats["active_bytes.current"]
    cuda.reset_peak_host_memory_stats()
    cuda.reset_accumulated_host_memory_stats()


@pytest.mark.usefixtures("two_devices")
def test_a_limit_is_in_the_message():
    try:
        assert cuda.get_per_process_memory_fraction() == 1.0
        total = cuda.get_device_properties(0).total_memory
        cuda.set_per_process_memory_fraction(0.25)
        assert cuda.get_per_process_memory_fraction() == 0.25 and cuda.get_per_process_memory_fraction(1) == 1.0
        with pytest.raises(cuda.OutOfMemoryError, match=rf"{total / 4 / 2**30:.2f} GiB allowed"):
            cygrad.empty(total // 3, dtype=cygrad.uint8, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    for wrong, error in (("1", TypeError), (True, TypeError), (1.5, ValueError)):
        with pytest.raises(error):
            cuda.set_per_process_memory_fraction(wrong)


@pytest.mark.usefixtures("two_devices")
def test_memory_for_other_libraries():
    before = cuda.memory_allocated(1)
    s = cuda.Stream(1)
    place = cuda.caching_allocator_alloc(1000, 1, s)
    assert place and cuda.memory_allocated(1) == before + 1024 and cuda.caching_allocator_alloc(0) == 0
    cuda.caching_allocator_delete(place)
    cuda.caching_allocator_delete(0)
    assert cuda.memory_allocated(1) == before
    with pytest.raises(ValueError, match="gave"):
        cuda.caching_allocator_delete(place)
    with pytest.raises(TypeError, match="stream"):
        cuda.caching_allocator_alloc(10, stream="s")


# ---- random numbers


@pytest.mark.usefixtures("two_devices")
def test_a_new_seed_is_for_devices_too():
    def drawn():
        return [cygrad.rand(4, device=f"cuda:{k}").tolist() for k in (0, 1)]

    cygrad.manual_seed(0)
    first = drawn()
    cygrad.manual_seed(0)
    value = cygrad.seed()
    again = drawn()
    assert again[0] != first[0] and again[1] != first[1] and cuda.initial_seed() == value == cygrad.initial_seed()
    cygrad.manual_seed(value)
    assert drawn() == again


@pytest.mark.usefixtures("two_devices")
def test_generators_of_devices_have_an_offset():
    g = cygrad.Generator("cuda:1")
    assert g.get_offset() == 0
    cygrad.rand(10, device="cuda:1", generator=g)
    taken = g.get_offset()
    assert taken >= 10 and taken % 4 == 0
    rest = cygrad.rand(6, device="cuda:1", generator=g).tolist()
    assert g.set_offset(taken) is g and cygrad.rand(6, device="cuda:1", generator=g).tolist() == rest
    for wrong, error in ((3, RuntimeError), (-4, RuntimeError), ("4", TypeError)):
        with pytest.raises(error):
            g.set_offset(wrong)
    for call in (g.graphsafe_get_state, lambda: g.graphsafe_set_state(g)):
        with pytest.raises(NotImplementedError, match="graphs of CUDA"):
            call()
    with pytest.raises(RuntimeError, match="CPU"):
        cygrad.Generator().get_offset()
    assert len(cuda.default_generators) == 2 and isinstance(cuda.default_generators[1], cygrad.Generator)
    state = cuda.get_rng_state(1)
    assert cuda.default_generators[1].get_state().tolist() == state.tolist() and state.dtype == cygrad.uint8
    cuda.random.set_rng_state(state, "cuda:1")


@pytest.mark.usefixtures("two_devices")
def test_fork_rng_looks_after_the_devices_it_is_given():
    def draw():
        return tuple(cygrad.rand(2, device=where).tolist() for where in ("cpu", "cuda:0", "cuda:1"))

    def after(**options):
        cygrad.manual_seed(5)
        with cygrad.random.fork_rng(**options):
            draw()
        return draw()

    cygrad.manual_seed(5)
    first = draw()
    assert after() == first
    one = after(devices=["cuda:1"])
    assert one[0] == first[0] and one[1] != first[1] and one[2] == first[2]
    none = after(devices=iter([]))
    assert none[0] == first[0] and none[1] != first[1] and none[2] != first[2]
    assert after(devices=range(2), device_type="cuda") == first


# ---- other libraries


@pytest.mark.usefixtures("two_devices")
def test_dlpack_goes_to_the_cpu_and_never_copies_in_secret():
    np = pytest.importorskip("numpy")
    x = cygrad.arange(6.0, device="cuda:1").reshape(2, 3)
    with pytest.raises(ValueError, match="without a copy"):
        cygrad.from_dlpack(x, device="cpu", copy=False)
    assert cygrad.from_dlpack(x, device="cpu").tolist() == x.tolist()
    assert cygrad.from_dlpack(x, device="cuda:1", copy=False).data_ptr() == x.data_ptr()
    y = cygrad.from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert y.is_cpu and y.tolist() == x.tolist()
    assert cygrad.from_dlpack(cygrad.ones(2).__dlpack__(dl_device=(2, 1))).device == cygrad.device("cuda:1")
    for call in (lambda: x.__dlpack__(dl_device=(1, 0), copy=False), lambda: x.__dlpack__(dl_device=(2, 7)),
                 lambda: x.__dlpack__(dl_device=(8, 0)), lambda: x.__dlpack__(stream=2)):  # fmt: skip
        with pytest.raises(BufferError):
            call()
    with pytest.raises(AssertionError, match="unsupported stream on CUDA: 0"):
        x.__dlpack__(stream=0)
    if tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1):
        assert np.from_dlpack(x, device="cpu").tolist() == x.tolist()


@pytest.mark.usefixtures("two_devices")
def test_the_interface_of_cuda_arrays():
    x = cygrad.arange(6.0, device="cuda:1").reshape(2, 3)
    assert x.__cuda_array_interface__ == {"typestr": "<f4", "shape": (2, 3), "strides": None, "version": 2,
                                          "data": (x.data_ptr(), False)}  # fmt: skip
    part = x.to(cygrad.int64).t()[1:]
    told = part.__cuda_array_interface__
    assert told["typestr"] == "<i8" and told["strides"] == (8, 24) and told["data"][0] == part.data_ptr()
    assert cygrad.ones(1, dtype=cygrad.bool, device="cuda").__cuda_array_interface__["typestr"] == "|b1"
    assert cygrad.ones(0, device="cuda").__cuda_array_interface__["data"][0] == 0
    assert not hasattr(cygrad.ones(2), "__cuda_array_interface__")
    assert not hasattr(x.bfloat16(), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        x.clone().requires_grad_().__cuda_array_interface__  # noqa: B018


# ---- names


@pytest.mark.usefixtures("two_devices")
def test_the_accelerator_is_cuda():
    a = cygrad.accelerator
    assert a.current_accelerator() == cygrad.device("cuda") and a.device_count() == 2 and a.current_device_index() == 0
    with a.device_index(1):
        assert cuda.current_device() == 1
        with a.device_index(None):
            assert a.current_device_index() == 1
    a.set_device_index("cuda:1")
    assert cuda.current_device() == 1
    a.set_device_index(0)
    s = cygrad.Stream(1)
    a.set_stream(s)
    assert a.current_stream() == s and a.current_device_index() == 1
    a.set_stream(cuda.default_stream(1))
    a.set_device_index(0)
    a.synchronize("cuda:1")
    x = cygrad.ones(1000, device="cuda:1")
    assert a.memory_allocated(1) == cuda.memory_allocated(1) >= 4 * x.numel() and a.max_memory_allocated(1)
    assert a.memory_reserved(1) == cuda.memory_reserved(1) <= a.max_memory_reserved(1)
    assert a.memory_stats(1) == cuda.memory_stats(1) and a.get_memory_info(1) == cuda.mem_get_info(1)
    a.reset_peak_memory_stats(1)
    a.reset_accumulated_memory_stats(1)
    a.empty_cache()
    assert cygrad.bfloat16 in a.get_device_capability()["supported_dtypes"]
    with pytest.warns(FutureWarning, match="current_device_index"):
        a.current_device_idx()


def test_small_names_of_cuda():
    assert cygrad.AcceleratorError is cuda.AcceleratorError and issubclass(cuda.AcceleratorError, RuntimeError)
    assert cygrad.version.cuda is None and cuda.get_arch_list() == [] and cuda.get_gencode_flags() == ""
    assert not cuda.is_tf32_supported() and cuda.has_half and not cuda.has_magma
    cuda.set_sync_debug_mode("default")
    assert cuda.get_sync_debug_mode() == 0
    for mode in ("warn", 2):
        with pytest.raises(NotImplementedError, match="not watched"):
            cuda.set_sync_debug_mode(mode)
    with pytest.raises(RuntimeError, match="mode"):
        cuda.set_sync_debug_mode("loud")
    with pytest.raises(NotImplementedError, match="cuBLAS"):
        cuda.current_blas_handle()
    for module, names in ((cuda, "CUDAGraph graph graphs nccl FloatStorage check_error"), (cuda.memory, "MemPool"),
                          (cygrad.accelerator, "Graph")):  # fmt: skip
        for name in names.split():
            with pytest.raises(AttributeError, match="does not exist: "):
                getattr(module, name)
    assert cuda.cudart().cudaProfilerStart() == 0 and cuda.cudart().cudaMemGetInfo(0) == cuda.mem_get_info(0)
    with cuda.profiler.profile():
        pass
    with pytest.raises(AttributeError, match="cudaHostRegister"):
        cuda.cudart().cudaHostRegister  # noqa: B018


def test_parts_of_a_program_have_names():
    from cygrad.cuda import nvtx

    assert [nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()] == [
        0, 1, 1, 0, -1]  # fmt: skip
    with nvtx.range("step {}", 3):
        assert nvtx.range_push("c") == 1
        nvtx.range_pop()
    nvtx.range_end(nvtx.range_start("d"))
    nvtx.mark("e")


def test_architectures_are_named_as_nvcc_has_them(monkeypatch):
    from cygrad.storage import cuda as devices

    monkeypatch.setattr(devices.extension(), "ARCHITECTURES", ("sm_80", "compute_90"))
    monkeypatch.setattr(devices.extension(), "VERSION", 13000)
    assert cuda.get_arch_list() == ["sm_80", "compute_90"] and cygrad.version.cuda == "13.0"
    assert cuda.get_gencode_flags() == (
        "-gencode compute=compute_80,code=sm_80 -gencode compute=compute_90,code=compute_90")


class Driver:
    """The functions of libcuda that are asked, of one device."""

    calls: list

    def __init__(self):
        self.calls = []

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, value, device):
        value._obj.value = device
        return 0

    def cuDeviceGetAttribute(self, value, number, device):
        value._obj.value = 1000 * number + device.value
        return 0 if number != 84 else 1

    def cuDeviceGetUuid_v2(self, value, device):
        value[:] = range(16)
        return 0

    def cuCtxGetStreamPriorityRange(self, least, greatest):
        least._obj.value, greatest._obj.value = 0, -5
        return 0

    def __getattr__(self, name):
        return lambda *args: self.calls.append(name) or 0


def test_the_driver_is_asked_for_what_only_it_knows(monkeypatch):
    from cygrad.cuda import _devices, _driver

    plain = cuda.get_device_properties(0)
    assert not hasattr(plain, "L2_cache_size") and not hasattr(plain, "uuid") and plain.gcnArchName == plain.name
    driver = Driver()
    monkeypatch.setattr(_driver, "library", lambda: driver)
    p = _devices._Properties(1)
    assert p.L2_cache_size == 38001 and p.max_threads_per_multi_processor == 39001 and p.shared_memory_per_block == 8001
    assert not hasattr(p, "is_multi_gpu_board") and str(p.uuid) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert str(p.uuid) in repr(p)
    assert cuda.Stream.priority_range() == (0, -5)
    assert driver.calls == ["cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                            "cuDevicePrimaryCtxRelease_v2"]  # fmt: skip
    cuda.profiler.start()
    assert driver.calls[-1] == "cuProfilerStart"


def test_loads_are_asked_of_nvidias_library(monkeypatch):
    import sys
    from types import SimpleNamespace

    from cygrad.cuda import _devices, _driver

    monkeypatch.setattr(_driver, "library", Driver)
    monkeypatch.setattr(_devices, "_properties", _devices._Properties)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(ModuleNotFoundError, match="nvidia-ml-py"):
        cuda.utilization()
    assert "nvidia-ml-py" in cuda.list_gpu_processes()
    asked = []
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(
        nvmlInit=lambda: None, nvmlDeviceGetHandleByPciBusId=lambda place: asked.append(place) or "handle",
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=55, memory=44),
        nvmlDeviceGetTemperature=lambda handle, sensor: 33, nvmlDeviceGetPowerUsage=lambda handle: 222000,
        nvmlDeviceGetClockInfo=lambda handle, clock: 1980,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=7, usedGpuMemory=3 << 20)],
    ))  # fmt: skip
    assert (cuda.utilization(), cuda.memory_usage(), cuda.temperature(), cuda.power_draw(), cuda.clock_rate()) == (
        55, 44, 33, 222000, 1980)  # fmt: skip
    assert asked[0] == b"0000c350:80e8:84d0.0" and "3.000 MB" in cuda.list_gpu_processes()


def test_capturable_says_what_is_missing():
    p = cygrad.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="graphs of CUDA"):
        cygrad.optim.Adam([p], capturable=True)

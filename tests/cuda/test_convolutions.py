"""Convolutions by cuDNN: descriptors, room, errors, with a library that imitates NVIDIA's, found where its wheel is."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cygrad
from cygrad.backends import cudnn
from cygrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("any_devices")
SOURCE = Path(__file__).with_name("imitated_cudnn.c")
RESULT, INPUT, WEIGHT = range(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of Python's packages with nvidia/cudnn/lib."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the imitation of cuDNN")
    folder = tmp_path_factory.mktemp("packages")
    target = folder / "nvidia/cudnn/lib/libcudnn.so.9"
    target.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", SOURCE, "-o", target], check=True)
    return folder


@pytest.fixture
def library(folder, imitated_devices, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    loaded = ctypes.CDLL(str(folder / "nvidia/cudnn/lib/libcudnn.so.9"))
    there = ctypes.c_int.in_dll(loaded, "cygrad_imitated")
    there.value = 1
    assert cudnn.is_available() and cudnn.version() == 91234
    yield lambda name: ctypes.c_int.in_dll(loaded, "imitated_" + name)
    for name in ("failure", "lacks", "refuses", "nothing_deterministic", "no_stream"):
        ctypes.c_int.in_dll(loaded, "imitated_" + name).value = 0
    there.value = 0                                     # other tests are without it
    assert not cudnn.is_available()
    cygrad.cuda.empty_cache()                           # the room to measure in is large


def calls(library):
    return list((ctypes.c_int * 3).from_address(ctypes.addressof(library("calls"))))


GEOMETRIES = [  # of the image, of the weight, other arguments
    ((2, 3, 9), (4, 3, 3), {"padding": 1}),
    ((2, 4, 9), (6, 2, 3), {"stride": 2, "groups": 2, "dilation": 2}),
    ((2, 3, 7, 8), (4, 3, 3, 2), {"padding": (1, 2), "stride": (2, 1)}),
    ((1, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((3, 2, 8, 7), (5, 2, 2, 3), {"dilation": (2, 1)}),
    ((2, 3, 5, 5), (4, 3, 1, 1), {}),
    ((2, 2, 5, 6, 4), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("image, weight, options", GEOMETRIES)
@pytest.mark.usefixtures("two_devices")
def test_results_and_gradients_are_those_of_the_cpu(library, image, weight, options, dtype):
    dtype, before = getattr(cygrad, dtype), calls(library)
    cygrad.manual_seed(3)
    convolve = getattr(F, f"conv{len(image) - 2}d")
    x, w, b = (cygrad.randn(size, dtype=cygrad.float64).to(dtype) for size in (image, weight, weight[:1]))
    far = [v.cuda(1).requires_grad_() for v in (x, w, b)]
    near = [v.double().requires_grad_() for v in (x, w, b)]
    y, wanted = convolve(*far, **options), convolve(*near, **options)
    g = cygrad.randn(wanted.shape, dtype=cygrad.float64).to(dtype)
    y.backward(g.cuda(1))
    wanted.backward(g.double())
    error = {2: 2e-2, 4: 1e-5, 8: 1e-12}[dtype.itemsize]
    for found, right in zip([y, *(v.grad for v in far)], [wanted, *(v.grad for v in near)], strict=True):
        assert found.dtype == dtype and found.device.index == 1
        assert cygrad.allclose(found.cpu().double(), right, rtol=error, atol=error * 8)
    assert calls(library) == [n + 1 for n in before]
    assert library("compute").value == (1 if dtype == cygrad.float64 else 0)


def test_transposed_convolutions_and_other_layouts(library):
    x, w = cygrad.randn(2, 4, 5, 6).cuda(), cygrad.randn(4, 3, 3, 3).cuda()
    before = calls(library)
    options = {"stride": 2, "padding": 1, "output_padding": 1}
    y = F.conv_transpose2d(x, w, **options)
    assert cygrad.allclose(y.cpu(), F.conv_transpose2d(x.cpu(), w.cpu(), **options), atol=1e-5)
    assert calls(library)[INPUT] == before[INPUT] + 1
    turned, flipped = x.transpose(2, 3), w.permute(0, 2, 3, 1)[:, :, :1]       # strides that are no matrix's
    y = F.conv2d(turned, cygrad.ones(2, 4, 3, 3).cuda().transpose(2, 3))
    assert cygrad.allclose(y.cpu(), F.conv2d(turned.cpu(), cygrad.ones(2, 4, 3, 3)), atol=1e-5)
    assert F.conv2d(cygrad.ones(1, 3, 4, 4).cuda(), flipped.permute(0, 3, 1, 2)).shape == (1, 4, 2, 4)


def test_which_algorithm_and_which_arithmetic(library):
    x, w = cygrad.randn(1, 2, 5, 5).cuda(), cygrad.randn(2, 2, 3, 3).cuda()
    F.conv2d(x, w)
    assert (library("algorithm").value, library("math").value) == (1, 1)       # the best deterministic one with room
    with cudnn.flags(enabled=True, allow_tf32=False):
        F.conv2d(x, w)
        assert library("math").value == 3                                      # products of whole float32
    measured = library("measured").value
    with cudnn.flags(enabled=True, benchmark=True):
        y = F.conv2d(x, w, cygrad.ones(2).cuda())
        F.conv2d(x, w)
        assert library("algorithm").value == 3 and library("measured").value == measured + 1
    assert cygrad.allclose(y.cpu(), F.conv2d(x.cpu(), w.cpu(), cygrad.ones(2)), atol=1e-5)
    with cudnn.flags(enabled=True, benchmark=True, deterministic=True):
        F.conv2d(x, w)
        assert library("algorithm").value == 1
    cygrad.use_deterministic_algorithms(True)
    try:
        with cudnn.flags(enabled=True, benchmark=True):
            F.conv2d(x, w)
            assert library("algorithm").value == 1
    finally:
        cygrad.use_deterministic_algorithms(False)


@pytest.mark.parametrize("reason", ["refuses", "nothing_deterministic", "disabled", "empty"])
def test_without_an_algorithm_patches_are_multiplied(library, reason):
    sizes = {"refuses": 6, "nothing_deterministic": 7, "disabled": 8, "empty": 9}       # plans are kept for a geometry
    x, w = cygrad.randn(0 if reason == "empty" else 1, 2, sizes[reason], 5), cygrad.randn(2, 2, 3, 3)
    if reason in ("refuses", "nothing_deterministic"):
        library(reason).value = 1
    before = calls(library)
    with cudnn.flags(enabled=reason != "disabled"):
        assert cygrad.allclose(F.conv2d(x.cuda(), w.cuda()).cpu(), F.conv2d(x, w), atol=1e-5)
    assert calls(library) == before


def test_a_failure_is_an_error_that_leaves_nothing_behind(library):
    x, w, b = cygrad.randn(1, 2, 5, 5).cuda(), cygrad.randn(2, 2, 3, 3).cuda(), cygrad.ones(2).cuda()
    F.conv2d(x, w, b)
    before = cygrad.cuda.memory_allocated()
    for _ in range(3):
        library("failure").value = 5000
        with pytest.raises(RuntimeError, match=r"convolution: .* 5000, CUDNN_STATUS_EXECUTION_FAILED"):
            F.conv2d(x, w, b)
    assert cygrad.cuda.memory_allocated() == before
    assert cygrad.allclose(F.conv2d(x, w, b).cpu(), F.conv2d(x.cpu(), w.cpu(), b.cpu()), atol=1e-5)


@pytest.mark.parametrize("call", ("a handle", "an algorithm", "a convolution"))
def test_memory_kept_for_reuse_is_given_back_where_the_library_finds_none(library, call):
    """NVIDIA's libraries take memory beside the allocator's, which may hold all there is."""
    place = {"a handle": 0, "an algorithm": 1, "a convolution": 2}[call]
    x, w = cygrad.randn(1, 2, 5 + place, 9).cuda(), cygrad.randn(2, 2, 3, 2).cuda()
    cygrad.cuda.synchronize()
    if call != "an algorithm":
        F.conv2d(x, w)                                      # its plan is made
    stream = cygrad.cuda.Stream() if call == "a handle" else cygrad.cuda.current_stream()
    stream.wait_stream(cygrad.cuda.current_stream())
    wanted = F.conv2d(x.cpu(), w.cpu())
    with cygrad.cuda.stream(stream):
        cygrad.empty(64 << 20, dtype=cygrad.uint8, device="cuda")
        kept = cygrad.cuda.memory_reserved()
        library("lacks").value = 1
        y = F.conv2d(x, w)
        assert library("lacks").value == 0 and cygrad.cuda.memory_reserved() < kept - (32 << 20)
        library("lacks").value = 2
        with pytest.raises(RuntimeError, match=r"convolution: .* 4004"):
            F.conv2d(x, w)
    stream.synchronize()
    assert cygrad.allclose(y.cpu(), wanted, atol=1e-5)


def test_streams_have_handles_of_their_own(library):
    x, w = cygrad.randn(1, 2, 5, 5).cuda(), cygrad.randn(2, 2, 3, 3).cuda()
    F.conv2d(x, w)
    made, stream = library("handles").value, cygrad.cuda.Stream()
    stream.wait_stream(cygrad.cuda.current_stream())
    with cygrad.cuda.stream(stream):
        y = F.conv2d(x, w)
        F.conv2d(x, w)
    assert library("handles").value <= made + 1
    stream.synchronize()
    assert cygrad.allclose(y.cpu(), F.conv2d(x.cpu(), w.cpu()), atol=1e-5)


def test_a_stream_that_a_handle_refuses(library):
    x, w = cygrad.randn(1, 2, 5, 5).cuda(), cygrad.randn(2, 2, 3, 3).cuda()
    made, stream, other = library("handles").value, cygrad.cuda.Stream(), cygrad.cuda.Stream()
    stream.wait_stream(cygrad.cuda.current_stream())
    library("no_stream").value = 1
    for s in (stream, stream, other, other):
        with cygrad.cuda.stream(s), pytest.raises(RuntimeError, match="cudnnSetStream returned 3000"):
            F.conv2d(x, w)
    assert library("handles").value <= made + 2             # they are kept for the next try
    library("no_stream").value = 0
    with cygrad.cuda.stream(stream):
        y = F.conv2d(x, w)
    library("no_stream").value = 1
    with cygrad.cuda.stream(stream), pytest.raises(RuntimeError, match="cudnnSetStream returned 3000"):
        F.conv2d(x, w)                                      # each use sets it
    stream.synchronize()
    assert cygrad.allclose(y.cpu(), F.conv2d(x.cpu(), w.cpu()), atol=1e-5)


def test_without_a_device_cudnn_is_not_available(library, monkeypatch):
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "0")
    assert not cudnn.is_available() and cudnn.version() == 91234


def test_questions_about_cudnn(library):
    x = cygrad.ones(2).cuda()
    assert all(cudnn.is_acceptable(x.to(d)) for d in (cygrad.float16, cygrad.bfloat16, cygrad.float32, cygrad.float64))
    assert cudnn.is_acceptable(x) and not cudnn.is_acceptable(x.cpu()) and not cudnn.is_acceptable(x.long())
    with cudnn.flags(enabled=False):
        assert not cudnn.is_acceptable(x)
    assert cudnn.enabled
    with pytest.raises(AttributeError, match="fast"):
        getattr(cudnn, "fast")  # noqa: B009

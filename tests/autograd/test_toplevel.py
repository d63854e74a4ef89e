"""Names at cygrad's top, and small methods of tensors, that PyTorch's programs use."""

import math

import pytest

import cygrad
from cygrad import _later


def both():
    return pytest.importorskip("torch"), cygrad


def test_constants():
    assert (cygrad.pi, cygrad.e, cygrad.inf, cygrad.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(cygrad.nan)
    assert cygrad.ones(3)[:, cygrad.newaxis].shape == (3, 1)


@pytest.mark.parametrize("name", sorted(_later.IN_PLACE))
def test_in_place_functions_are_pytorchs_methods(name):
    torch, _ = both()
    assert hasattr(torch, name)
    more = {"addmv_": lambda lib: (lib.ones(2, 2), lib.ones(2)), "as_strided_": lambda lib: ((1,), (1,)),
            "clamp_": lambda lib: (0.2,), "clamp_max_": lambda lib: (0.3,), "clamp_min_": lambda lib: (0.3,),
            "clip_": lambda lib: (0.2,), "gcd_": lambda lib: (lib.tensor([4, 6]),),
            "lcm_": lambda lib: (lib.tensor([4, 6]),), "ldexp_": lambda lib: (lib.tensor([1, 2]),),
            "xlogy_": lambda lib: (lib.tensor([1.0, 2.0]),),
            "index_put_": lambda lib: ((lib.tensor([1]),), lib.tensor(7.0))}
    results = []
    for lib in (torch, cygrad):
        x = lib.tensor([6, 9] if name in ("gcd_", "lcm_") else [1.25, 1.5] if "cosh" in name else [0.25, 0.5])
        y = getattr(lib, name)(x, *more.get(name, lambda lib: ())(lib))
        assert y is x
        results.append(x.tolist())
    assert results[0] == pytest.approx(results[1], rel=1e-6, nan_ok=True)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        getattr(cygrad, name)(3)


SETTINGS = [
    "use_deterministic_algorithms(True)", "are_deterministic_algorithms_enabled()", "get_deterministic_debug_mode()",
    "set_deterministic_debug_mode('warn')", "is_deterministic_algorithms_warn_only_enabled()",
    "set_deterministic_debug_mode(7)", "set_deterministic_debug_mode('x')", "use_deterministic_algorithms(3)",
    "set_deterministic_debug_mode(0)", "are_deterministic_algorithms_enabled()", "get_float32_matmul_precision()",
    "set_float32_matmul_precision('high')", "get_float32_matmul_precision()", "set_float32_matmul_precision('highest')",
    "set_num_interop_threads(0)", "is_warn_always_enabled()", "set_warn_always(1)", "set_flush_denormal(False)",
    "get_default_device()", "set_default_device('cpu')", "set_default_device(None)", "set_default_device('foo')",
    "set_default_tensor_type('torch.DoubleTensor')", "get_default_dtype()",
    "set_default_tensor_type('torch.FloatTensor')", "get_default_dtype()", "set_default_tensor_type('torch.IntTensor')",
]


def test_settings_answer_as_pytorchs():
    answers = []
    for lib in both():
        found = []
        try:
            for call in SETTINGS:
                try:
                    found.append(str(eval("lib." + call, {"lib": lib})))
                except Exception as error:
                    found.append(type(error))
        finally:
            lib.set_default_dtype(lib.float32)
        answers.append(found)
    assert answers[0] == answers[1]


def test_an_unknown_precision_changes_nothing():
    with pytest.warns(UserWarning, match="'foo'"):
        cygrad.set_float32_matmul_precision("foo")
    assert cygrad.get_float32_matmul_precision() == "highest"


def test_device_is_a_context():
    with cygrad.device("cpu") as here:
        assert cygrad.ones(1).device == here
    with pytest.raises(ZeroDivisionError), cygrad.device("cpu"):
        raise ZeroDivisionError


ABSENT = [
    "backends.cudnn.enabled", "backends.cudnn.is_available()", "backends.cudnn.version()", "backends.cudnn.benchmark",
    "backends.cudnn.deterministic", "backends.mps.is_available()", "backends.mps.is_built()",
    "backends.cuda.is_built()", "backends.openmp.is_available()", "backends.cuda.flash_sdp_enabled()", "version.cuda",
    "version.hip", "accelerator.is_available()", "accelerator.current_accelerator()", "accelerator.device_count()",
    "accelerator.synchronize()", "xpu.is_available()", "mps.is_available()", "cpu.is_available()", "cpu.device_count()",
    "cpu.synchronize()", "cpu.current_device()", "compiler.is_compiling()", "compiler.disable(max)(1, 2)",
    "compiler.disable()(max)(1, 2)", "cuda.empty_cache()", "cuda.max_memory_allocated()", "cuda.memory_allocated()",
    "cuda.memory_reserved()", "cuda.is_bf16_supported()", "cuda.is_initialized()", "cuda.get_rng_state_all()",
    "cuda.is_available()", "cuda.device_count()", "OutOfMemoryError.__mro__[1]",
]


@pytest.mark.parametrize("question", ABSENT)
def test_questions_about_what_is_not_there(question):
    answers = []
    for lib in both():
        try:
            answers.append(eval("lib." + question, {"lib": lib, "max": max}))
        except RuntimeError as error:
            answers.append(type(error))
    assert answers[0] == answers[1]


def test_settings_of_back_ends_are_kept():
    import cygrad.backends.cudnn as cudnn

    cudnn.benchmark = True
    try:
        assert cygrad.backends.cudnn.benchmark
        with cudnn.flags(enabled=False, benchmark=False):
            assert not cudnn.benchmark and not cudnn.enabled
        assert cudnn.benchmark and cudnn.enabled
    finally:
        cudnn.benchmark = False
    assert cygrad.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")


@pytest.mark.parametrize("call", ["set_device(0)", "current_device()", "get_device_name()", "synchronize()",
                                  "get_device_properties(0)", "device(0).__enter__()", "set_rng_state_all([1])"])
def test_what_needs_a_cuda_device_says_that_there_is_none(call):
    with pytest.raises(RuntimeError, match="no CUDA device is available"):
        eval("cygrad.cuda." + call)


METHODS = [
    "x.is_sparse", "x.is_quantized", "x.is_meta", "x.is_nested", "x.is_mkldnn", "x.is_xpu", "x.is_mps",
    "x.is_sparse_csr", "x.name", "x.is_pinned()", "x.pin_memory()", "x.new(2, 3).shape", "x.new([1, 2])", "x.new(x)",
    "x.new(torch.Size([2])).shape", "x.new(1.5)", "x.new('a')", "x.apply_(lambda v: v + 1)",
    "torch.ones(2, dtype=torch.int32).apply_(lambda v: v * 2.7)",
    "torch.ones(2, requires_grad=True).apply_(lambda v: v * 2.7)", "x.map_(torch.ones(3), lambda a, b: a + b)",
    "x.map_(torch.ones(2), lambda a, b: a + b)", "x.map_(torch.ones(3).double(), lambda a, b: a + b)",
    "x.map2_(torch.ones(3), x, lambda a, b, c: a + b + c)", "x.is_set_to(x)", "x.is_set_to(x.view(3, 2))",
    "x.is_set_to(x.clone())", "x.dim_order()", "x.t().dim_order()",
    "torch.ones(2, 1, 3).dim_order(ambiguity_check=True)",
    "x.to_dense() is x", "x.to_dense(torch.float64)", "x.dequantize()", "x.nonzero_static(size=4)",
    "torch.nonzero_static(x, size=10, fill_value=-2)", "torch.nonzero_static(x, size=-1)",
    "torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride()", "torch.empty_permuted((2, 3), (1, 1))",
    "torch.empty_permuted((2, 3), (0, 2))", "torch.empty_permuted((2, 3), (0,))", "torch.typename(x)",
    "torch.typename(3)", "torch.typename(int)", "torch.is_storage(x.untyped_storage())", "torch.is_storage(x)",
    "torch.is_same_size(x, x.t())", "torch.is_same_size(x, x)", "torch.is_signed(x)", "torch.is_distributed(x)",
]


@pytest.mark.parametrize("call", METHODS)
def test_small_methods(call):
    answers = []
    for lib in both():
        x = lib.arange(6.0).reshape(2, 3)
        try:
            answers.append(str(eval(call, {"torch": lib, "x": x})))
        except Exception as error:
            answers.append(type(error))
    assert answers[0] == answers[1]


def test_new_shares_the_memory_of_a_tensor():
    x = cygrad.zeros(3)
    x.new(x)[0] = 5
    assert x.tolist() == [5, 0, 0]


def test_cuda_raises():
    with pytest.raises(RuntimeError, match="no device 'cuda'"):
        cygrad.ones(1).cuda()

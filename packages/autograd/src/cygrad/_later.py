"""Names of cygrad whose modules are imported when they are first asked for: ``import cygrad`` stays short."""

MODULES = frozenset((
    "accelerator", "amp", "array_api", "backends", "compiler", "cpu", "cuda", "fft", "func", "linalg", "mps",
    "multiprocessing", "return_types", "settings", "signal", "special", "tensortypes", "testing", "version",
    "xpu"))

# Names of the top that stand in a module -> the module.
ELSEWHERE = {
    "AcceleratorError": "cuda", "Event": "cuda._streams", "GradScaler": "amp", "OutOfMemoryError": "cuda",
    "Stream": "cuda._streams", "load": "serialization", "save": "serialization",
    "to_dlpack": "utils.dlpack", "vmap": "func",
}  # fmt: skip

# Functions of nn that PyTorch has at its top too.
FROM_NN = frozenset((
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_", "avg_pool1d", "batch_norm",
    "bilinear", "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity",
    "ctc_loss", "dropout", "dropout_", "embedding", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_", "group_norm", "gru_cell", "hardshrink", "hinge_embedding_loss",
    "instance_norm", "kl_div", "layer_norm", "lstm_cell", "margin_ranking_loss", "max_pool1d",
    "max_pool1d_with_indices", "max_pool2d", "max_pool3d", "pairwise_distance", "pdist", "pixel_shuffle",
    "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu_", "rms_norm", "rnn_relu_cell", "rnn_tanh_cell", "rrelu",
    "rrelu_", "selu", "selu_", "threshold", "threshold_", "triplet_margin_loss"))

FROM_SETTINGS = frozenset((
    "are_deterministic_algorithms_enabled", "get_default_device", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled", "set_default_device", "set_default_tensor_type", "set_deterministic_debug_mode",
    "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads", "set_warn_always",
    "use_deterministic_algorithms"))

FROM_TYPES = frozenset((
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "is_storage", "typename"))

FROM_AUTOCAST = frozenset((
    "autocast", "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled", "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled", "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"))

# Methods that write in place, which PyTorch has as functions too.
IN_PLACE = frozenset((
    "abs_", "acos_", "acosh_", "addmv_", "arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_",
    "as_strided_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_", "clamp_max_", "clamp_min_", "clip_",
    "conj_physical_", "cos_", "cosh_", "deg2rad_", "detach_", "erf_", "erfc_", "exp2_", "exp_", "expm1_", "fix_",
    "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_", "ldexp_", "log10_", "log1p_", "log2_", "log_", "logit_",
    "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinc_",
    "sinh_", "sqrt_", "square_", "tan_", "tanh_", "trunc_", "xlogy_"))


def in_place(name):
    """The method of that name as a function of the tensor that it writes."""
    from .autograd._core import Tensor

    method = getattr(Tensor, name)

    def function(input, *args, **kwargs):
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"See `Tensor.{name}`."
    return function


class AbsentPart:
    """A finder of modules that finds none, but says why one that PyTorch has is not here, if that is the intention."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("cygrad."):
            from ._absent import why

            reason = why(name.partition(".")[2])
            if reason:
                # Without the name of the module: ``from cygrad import NAME`` would drop the message.
                raise ModuleNotFoundError(reason)


def missing_attribute(module, name):
    """The AttributeError for a name that a module has not; with the reason, if PyTorch's has it."""
    from ._absent import why

    text = f"module {module!r} has no attribute {name!r}"
    reason = why(f"{module}.{name}".partition(".")[2])
    return AttributeError(f"{text}: {reason}" if reason else text)

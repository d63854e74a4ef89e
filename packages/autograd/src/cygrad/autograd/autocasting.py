"""Which operations compute in another dtype inside autocast: PyTorch's lists for the CPU and for CUDA devices.

Rows of the op table say it for the CPU by their key ``autocast``; layers and losses (cygrad.nn.functional) by the
decorator. Lists for devices are by public name, for rows and functions alike. In them `interpolate` stands for all of
PyTorch's ``upsample`` functions (its mode "area", a pooling there, is raised as well), and `special_softmax` for the
softmax that PyTorch calls inside it.
"""

from functools import wraps

from . import _core

__all__ = ["DEVICE_POLICIES", "POLICIES", "autocasts", "lowered", "raised", "watch_devices"]

LOW = "addbmm baddbmm vecdot"
FLOAT32 = """
cdist cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf householder_product inv
inv_ex inverse lobpcg lstsq lu_solve matrix_rank nanquantile orgqr ormqr pinverse polar qr quantile solve stft svd
svdvals tensorinv tensorsolve trace triangular_solve
fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn
"""
POLICIES = dict.fromkeys(LOW.split(), "low") | dict.fromkeys(FLOAT32.split(), "float32")
IN_LINALG_ALONE = {"lu_solve"}          # linalg.lu_solve is not in PyTorch's lists, the older lu_solve is

DEVICE_LOW = """
addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d
conv_transpose3d gru_cell linear lstm_cell matmul mm multi_dot mv prelu rnn_relu_cell rnn_tanh_cell
scaled_dot_product_attention vecdot
"""
DEVICE_FLOAT32 = """
acos arccos asin arcsin cosh erfinv exp expm1 log log10 log1p log2 reciprocal rsqrt sinh tan
cdist dist logsumexp norm nuclear_norm frobenius_norm pdist renorm softplus
cumprod cumsum log_softmax prod softmax special_softmax sum vector_norm matrix_norm
binary_cross_entropy_with_logits cosine_embedding_loss cosine_similarity cross_entropy group_norm hinge_embedding_loss
huber_loss interpolate kl_div l1_loss layer_norm margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss
nll_loss poisson_nll_loss rms_norm smooth_l1_loss soft_margin_loss triplet_margin_loss
"""
DEVICE_WIDEST = "addcdiv addcmul atan2 arctan2 bilinear cross dot grid_sample index_put scatter_add tensordot vdot"
DEVICE_POLICIES = (dict.fromkeys(DEVICE_LOW.split(), "low") | dict.fromkeys(DEVICE_FLOAT32.split(), "float32")
                   | dict.fromkeys(DEVICE_WIDEST.split(), "widest"))


def autocasts(policy, name=None):
    """A decorator for functions of tensors.

    Parameters
    ----------
    policy : {"low", "float32", None}
        Inside autocast for the CPU, tensors among the arguments are cast to the dtype that it was given, or to float32,
        and the function runs without autocast. Tensors of float64, integers and complex numbers stay as they are, and
        so does everything where `out` is given. Of devices, `DEVICE_POLICIES` says the same.
    name : str, optional
        Under which it is looked for there; by default that of the function.
    """

    def decorate(function):
        away = DEVICE_POLICIES.get(name or function.__name__)

        @wraps(function)
        def call(*args, **kwargs):
            if _core._autocasts() and kwargs.get("out") is None:
                chosen = away if _core._autocasts_away(args, kwargs) else policy
                if chosen is not None:
                    return _core._autocast_call(chosen, function, args, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def lowered(*tensors):
    """The tensors as what computes in fewer digits gets them; outside of autocast they stay as they are."""
    return _core._autocast_call("low", lambda *cast: cast, tensors, {}) if _core._autocasts() else tensors


def raised(*tensors):
    """The tensors as what computes in float32 on devices only gets them."""
    if _core._autocasts() and _core._autocasts_away(tensors, {}):
        return _core._autocast_call("float32", lambda *cast: cast, tensors, {})
    return tensors


def watch_devices():
    """Let the public forms of rows look whether autocast is on for devices, from its first use on."""
    from . import _forms

    _forms.cast_on_devices(DEVICE_POLICIES)

"""Operations written in Python that compute in another dtype inside autocast: PyTorch's lists for the CPU.

Rows of the op table say it by their key ``autocast``; layers and losses (cygrad.nn.functional) by the decorator.
"""

from functools import wraps

from . import _core

__all__ = ["POLICIES", "autocasts", "lowered"]

LOW = "addbmm baddbmm vecdot"
FLOAT32 = """
cdist cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf householder_product inv
inv_ex inverse lobpcg lstsq lu_solve matrix_rank nanquantile orgqr ormqr pinverse polar qr quantile solve stft svd
svdvals tensorinv tensorsolve trace triangular_solve
fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn
"""
POLICIES = dict.fromkeys(LOW.split(), "low") | dict.fromkeys(FLOAT32.split(), "float32")
IN_LINALG_ALONE = {"lu_solve"}          # linalg.lu_solve is not in PyTorch's lists, the older lu_solve is


def autocasts(policy):
    """A decorator for functions of tensors.

    Parameters
    ----------
    policy : {"low", "float32"}
        Inside autocast, tensors among the arguments are cast to the dtype that it was given, or to float32, and the
        function runs without autocast. Tensors of float64, integers and complex numbers stay as they are, and so does
        everything where `out` is given.
    """
    low = {"low": True, "float32": False}[policy]

    def decorate(function):
        @wraps(function)
        def call(*args, **kwargs):
            if _core._autocasts() and kwargs.get("out") is None:
                return _core._autocast_call(low, function, args, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate


def lowered(*tensors):
    """The tensors as what computes in fewer digits gets them; outside of autocast they stay as they are."""
    return _core._autocast_call(True, lambda *cast: cast, tensors, {}) if _core._autocasts() else tensors

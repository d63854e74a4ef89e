"""Reductions made of others: sums that skip NaN, pairs of moments, counts, norms of slices."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import dtype_arg

_HALVES = [dtypes[name] for name in ("float16", "bfloat16") if name in dtypes]

def wrapped(dim, ndim, name):
    """A dimension counted from the front; a tensor without dimensions counts as one of one dimension."""
    limit = max(ndim, 1)
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
    dim = dim.__index__()
    if not -limit <= dim < limit:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim % limit


def is_integral(x):
    """Whether the dtype is bool or an integer."""
    return not (x.is_floating_point() or x.is_complex())


def numbers_only(x):
    """`x` with 0 in place of NaN, where gradients end."""
    return _core.masked_fill(x, _core.isnan(x), 0) if x.is_floating_point() else x


@composed("function method out")
def nansum(input: Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """Sum over `dim` (all dimensions when None) of the elements that are not NaN.

    Raises
    ------
    RuntimeError
        The input is complex, as in PyTorch.
    """
    if isinstance(input, Tensor) and input.is_complex():
        raise RuntimeError("nansum does not support complex inputs")
    return _core.sum(numbers_only(input), dim, keepdim, dtype=dtype)


@composed("function method out")
def nanmean(input: Tensor, dim=None, keepdim: bool = False, *, dtype=None) -> Tensor:
    """Mean over `dim` (all dimensions when None) of the elements that are not NaN; NaN where there is none.

    Raises
    ------
    RuntimeError
        The input is bool or an integer.
    """
    if is_integral(input):
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    dtype = None if dtype is None else dtype_arg(dtype)
    if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"nanmean(): dtype must be either a floating point or complex dtype, got {dtype}")
    count = _core.sum(_core.logical_not(_core.isnan(input)), dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / count


def moment_and_mean(moment, name, input, dim, unbiased, keepdim, correction):
    if isinstance(dim, bool):
        if unbiased is not None:
            raise TypeError(f"{name}(): argument 'dim' must be int or tuple of ints, not bool")
        dim, unbiased = None, dim
    if is_integral(input):
        raise RuntimeError(f"{name} only supports floating point and complex dtypes, got {input.dtype}")
    return moment(input, dim, unbiased, keepdim, correction=correction), _core.mean(input, dim, keepdim)


@composed("function")
def std_mean(input: Tensor, dim=None, unbiased=None, keepdim: bool = False, *,
             correction=None) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean over `dim`; see `std`."""
    return moment_and_mean(_core.std, "std_mean", input, dim, unbiased, keepdim, correction)


@composed("function")
def var_mean(input: Tensor, dim=None, unbiased=None, keepdim: bool = False, *,
             correction=None) -> tuple[Tensor, Tensor]:
    """The variance and the mean over `dim`; see `var`."""
    return moment_and_mean(_core.var, "var_mean", input, dim, unbiased, keepdim, correction)


@composed("function method out_same", returns="min max")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element, of all or along `dim`; equal extrema share the gradient evenly.

    Raises
    ------
    RuntimeError, IndexError
        There are no elements (along `dim`).
    """
    if dim is None:
        if input.numel() == 0:
            raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                               f"identity: the input has shape {list(input.shape)}")
        low, high = _core.amin(input), _core.amax(input)
        return (low.reshape((1,) * input.dim()), high.reshape((1,) * input.dim())) if keepdim else (low, high)
    dim = wrapped(dim, input.dim(), "aminmax")
    if input.dim() and input.shape[dim] == 0:
        raise IndexError(f"aminmax: Expected reduction dim {dim} to have non-zero size: the input has shape "
                         f"{list(input.shape)}")
    return _core.amin(input, dim, keepdim), _core.amax(input, dim, keepdim)


@composed("function method")
def count_nonzero(input: Tensor, dim=None) -> Tensor:
    """The number of elements other than 0, of all or over `dim`."""
    return _core.sum(_core.ne(input, 0), dim)


@composed("method")
def sum_to_size(self: Tensor, *size: int) -> Tensor:
    """The sum over the dimensions along which a tensor of shape `size` would be expanded to this one.

    Raises
    ------
    RuntimeError
        `size` does not broadcast to the shape of this tensor.
    """
    if len(size) == 1 and not hasattr(size[0], "__index__"):
        size = tuple(size[0])
    if not size:                         # also the dtype is a sum's
        return _core.sum(self)
    shape = tuple(self.shape)
    lead = len(shape) - len(size)
    if lead < 0 or any(s not in (1, t) for s, t in zip(size, shape[lead:], strict=True)):
        raise RuntimeError(f"size {list(size)} is not expandable to size {list(shape)}")
    dims = tuple(range(lead)) + tuple(lead + i for i, s in enumerate(size) if s == 1 and shape[lead + i] != 1)
    total = _core.sum(self, dims, True) if dims else self
    return total.view(size) if lead else total


@composed("function method")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Raises
    ------
    RuntimeError
        The input is not a matrix.
    """
    if input.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.dim()}")
    if input.dtype is dtypes["bool"]:
        raise NotImplementedError("trace is not implemented for bool")
    return _core.name_node(_core.sum(_core.diagonal(input)), "Trace")


@composed("function method out_same")
def renorm(input: Tensor, p, dim: int, maxnorm) -> Tensor:
    """The slices along `dim`, each with a `p`-norm above `maxnorm` scaled down to it.

    Raises
    ------
    RuntimeError
        `p` is not positive, `maxnorm` is negative, or the input has fewer than two dimensions.
    """
    if not p > 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p={p}")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions")
    dim = wrapped(dim, input.dim(), "renorm")
    others = [d for d in range(input.dim()) if d != dim]
    wide = dtypes["float32"] if input.dtype in _HALVES else None
    norm = _core.norm(input, p, others, True, dtype=wide)
    if input.requires_grad and _core.anywhere(norm.isnan()):  # a slice that is not scaled does without its norm
        norm = _core.norm(_core.where(norm.detach() > maxnorm, input, 0), p, others, True, dtype=wide)
    scale = _core.where(norm > maxnorm, maxnorm / (norm + 1e-7), _core.ones_like(norm))
    return input.contiguous() * scale.to(input.dtype)


@composed("method")
def renorm_(self: Tensor, p, dim: int, maxnorm) -> Tensor:
    """`renorm`, in place."""
    return self.copy_(renorm(self.clone(), p, dim, maxnorm))


@composed("function method")
def dist(input: Tensor, other: Tensor, p=2) -> Tensor:
    """The `p`-norm of the difference of two tensors, which are broadcast."""
    if not isinstance(other, Tensor):
        raise TypeError(f"dist(): argument 'other' must be Tensor, not {type(other).__name__}")
    return _core.norm(input - other, p)


def in_place(scan, self, dim, dtype):
    """A scan written over its input, of which a copy is kept where the gradient reads it."""
    if dtype is not None and dtype is not self.dtype:
        raise RuntimeError(f"Bad in-place call: input tensor dtype {self.dtype} and output tensor dtype {dtype} should "
                           "match")
    return self.copy_(scan(self.clone(), dim, dtype=self.dtype))


@composed("method")
def cumsum_(self: Tensor, dim: int, dtype=None) -> Tensor:
    """`cumsum`, in place."""
    return in_place(_core.cumsum, self, dim, dtype)


@composed("method")
def cumprod_(self: Tensor, dim: int, dtype=None) -> Tensor:
    """`cumprod`, in place."""
    return in_place(_core.cumprod, self, dim, dtype)

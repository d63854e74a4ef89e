"""Order statistics, made of sorting: the middle, the most frequent, quantiles."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import RETURNS, Tensor, deliver, named_results
from ..function import Function
from ..grad_mode import no_grad
from . import composed
from .reductions import wrapped

RETURNS["median"] = RETURNS["nanmedian"] = RETURNS["mode"] = ("values", "indices")
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


# ---- the middle, and what is most frequent

class Median(Function):
    """An element of `input` as a result, whose gradient all elements equal to it share evenly."""

    generate_vmap_rule = True
    _transposed = True

    @staticmethod
    def forward(ctx, input, value):
        ctx.save_for_backward(input, value)
        return value.clone()

    @staticmethod
    def backward(ctx, g):
        input, value = ctx.saved_tensors
        hit = _core.where(_core.isnan(value), _core.isnan(input), input == value)
        return _core.where(hit, g / hit.sum(), _core.zeros_like(g)), None


def no_bool(input, name):
    if input.dtype is dtypes["bool"] and input.numel():
        raise NotImplementedError(f"{name} is not implemented for bool")


def place_of_nan(input, dim, place, keepdim):
    """`place`, but that of the first NaN where a line has one."""
    if not input.is_floating_point():
        return place
    top, first = _core.max(input, dim, keepdim)
    return _core.where(_core.isnan(top), first, place)


def taken(input, dim, place, keepdim, name):
    """The named tuple of the elements at `place` along `dim`, and of `place`; `place` has that dimension."""
    values = _core.gather(input, dim, place) if input.dim() else input.clone()
    if input.dim() and not keepdim:
        values, place = values.squeeze(dim), place.squeeze(dim)
    return named_results(name, (values, place))


def line_of(input, dim, name):
    """The wrapped dimension, along which there are elements."""
    dim = wrapped(dim, input.dim(), name)
    if input.dim() and input.shape[dim] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size: the input has shape "
                         f"{list(input.shape)}")
    return dim


def nothing(input):
    """The median of no elements: NaN, or the integer that it becomes."""
    return _core.full((), float("nan"), dtype=dtypes["float64"], device=input.device).to(input.dtype)


@composed("function method out_same")
def median(input: Tensor, dim: int | None = None, keepdim: bool = False):
    """The element in the middle (the lower one of two), of all or along `dim` with its place; NaN if there is any.

    The gradient of the first goes in equal parts to all elements that equal the median, that of the second to the one
    at ``indices``.

    Raises
    ------
    IndexError
        There are no elements along `dim`.
    """
    if dim is None:
        no_bool(input, "median")
        with no_grad():
            flat = input.detach().reshape(-1)
            n = flat.shape[0]
            value = _core.kthvalue(flat, (n + 1) // 2)[0] if n else nothing(input)
            if n and input.is_floating_point() and _core.anywhere(missing := _core.isnan(_core.amax(flat))):
                value = _core.where(missing, float("nan"), value)
        return Median.apply(input, value) if n else value
    dim = line_of(input, dim, "median")
    no_bool(input, "median")
    with no_grad():
        if input.dim():
            place = _core.kthvalue(input, (input.shape[dim] + 1) // 2, dim, True)[1]
            place = place_of_nan(input, dim, place, True)
        else:
            place = _core.zeros((), dtype=dtypes["int64"], device=input.device)
    return taken(input, dim, place, keepdim, "median")


@composed("function method out_same")
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False):
    """The median of the elements that are not NaN; NaN where there is none. See `median`."""
    if dim is None:
        no_bool(input, "nanmedian")
        with no_grad():
            flat = input.detach().reshape(-1)
            if _core.is_batched(input) and flat.shape[0]:      # how many are NaN differs between the examples
                value = nanmedian(flat, 0)[0]
            else:
                if input.is_floating_point():
                    flat = flat[_core.logical_not(_core.isnan(flat))]
                n = flat.shape[0]
                value = _core.kthvalue(flat, (n + 1) // 2)[0] if n else nothing(input)
        return Median.apply(input, value) if input.numel() else value
    dim = line_of(input, dim, "nanmedian")
    no_bool(input, "nanmedian")
    with no_grad():
        if input.dim():
            order = _core.sort(input, dim=dim, stable=True)[1]          # NaN last
            count = _core.sum(_core.logical_not(_core.isnan(input)), dim, True)
            place = _core.gather(order, dim, ((count - 1) // 2).clamp(0))
        else:
            place = _core.zeros((), dtype=dtypes["int64"], device=input.device)
    return taken(input, dim, place, keepdim, "nanmedian")


@composed("function method out_same")
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent element along `dim`, the least of several, and where it is last.

    Raises
    ------
    IndexError
        There are no elements along `dim`.
    """
    dim = line_of(input, dim, "mode")
    with no_grad():
        if input.dim():
            values, order = _core.sort(input, dim=dim, stable=True)
            n = input.shape[dim]
            shape = [n if d == dim else 1 for d in range(input.dim())]
            at = _core.arange(n, device=input.device).view(shape).expand(input.shape)
            later = values.narrow(dim, 1, n - 1) != values.narrow(dim, 0, n - 1)
            begins = _core.where(later, at.narrow(dim, 1, n - 1), 0)
            begin = _core.cummax(_core.cat([_core.zeros_like(at.narrow(dim, 0, 1)), begins], dim), dim)[0]
            end = _core.argmax(at - begin, dim, True)                   # the first of the longest runs is of the least
            place = _core.gather(order, dim, end)
        else:
            place = _core.zeros((), dtype=dtypes["int64"], device=input.device)
    return taken(input, dim, place, keepdim, "mode")


# ---- quantiles

def fractions(input, q, name, interpolation):
    """`q` as a tensor of the input's dtype, after the checks of all arguments."""
    if not isinstance(input, Tensor) or not isinstance(q, (Tensor, int, float)):
        what, wrong = ("q", q) if isinstance(input, Tensor) else ("input", input)
        raise TypeError(f"{name}(): argument '{what}' must be Tensor{' or number' if what == 'q' else ''}, not "
                        f"{type(wrong).__name__}")
    if input.dtype not in (dtypes["float32"], dtypes["float64"]):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {input.dtype}")
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty, got shape {list(input.shape)}")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                           f"{interpolation}")
    if isinstance(q, Tensor):
        if q.dim() > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got shape {list(q.shape)}")
        if q.dtype is not input.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor, got {q.dtype} and "
                               f"{input.dtype}")
        if not _core.everywhere((q >= 0) & (q <= 1)):
            raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
        return q
    if not 0 <= q <= 1:
        raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
    return _core.tensor(float(q), dtype=input.dtype, device=input.device)


def between(values, ranks, interpolation):
    """Elements of sorted lines at (broken) ranks."""
    def take(places):
        return _core.gather(values, -1, places.to(dtypes["int64"]))

    if interpolation == "nearest":
        return take(ranks.round())
    if interpolation == "higher":
        return take(_core.ceil(ranks))
    below = _core.floor(ranks)
    low = take(below)
    if interpolation == "lower":
        return low
    weight = ranks - below if interpolation == "linear" else _core.full_like(ranks, 0.5)
    result = _core.lerp(low, take(_core.ceil(ranks)), weight)
    return _core.where(ranks == below, low, result)             # infinities have no difference


def quantiles(input, q, dim, keepdim, interpolation, name):
    q = fractions(input, q, name, interpolation)
    ndim = input.dim()
    if dim is not None:
        dim = wrapped(dim, ndim, name)
    lines = _core.movedim(input, dim, -1) if dim is not None and ndim else input.reshape(-1)
    values, n = _core.sort(lines, dim=-1)[0], lines.shape[-1]
    if name == "nanquantile":
        count = _core.sum(_core.logical_not(_core.isnan(lines)), -1, True)
        ranks = q.reshape(-1) * (count - 1).clamp(0).to(input.dtype)
    else:
        ranks = (q.reshape(-1) * (n - 1)).expand([*lines.shape[:-1], q.numel()])
        ranks = _core.masked_fill(ranks, _core.isnan(values.narrow(-1, n - 1, 1)), n - 1)   # NaN is last
    result = _core.movedim(between(values, ranks, interpolation), -1, 0)        # q, then the dimensions that stay
    if keepdim:
        result = result.unsqueeze(dim + 1) if dim is not None and ndim else result.reshape([-1] + [1] * ndim)
    return result if q.dim() else result.squeeze(0)


def given_to(result, out):
    """A new `out` is row-major, which results need not be."""
    return result if out is None else deliver(result.contiguous(), out, True)


@composed("function method")
def quantile(input: Tensor, q, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
             out: Tensor | None = None) -> Tensor:
    """Quantiles of all elements or along `dim`; NaN if there is any.

    Parameters
    ----------
    input : Tensor
        float32 or float64, not empty.
    q : float or Tensor
        Fractions from 0 to 1; those of a 1-d tensor are a first dimension of the result.
    interpolation : {"linear", "lower", "higher", "midpoint", "nearest"}
        What a quantile between two elements is.
    out : Tensor, optional
        Of the dtype of the input.
    """
    return given_to(quantiles(input, q, dim, keepdim, interpolation, "quantile"), out)


@composed("function method")
def nanquantile(input: Tensor, q, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
                out: Tensor | None = None) -> Tensor:
    """Quantiles of the elements that are not NaN; NaN where there is none. See `quantile`."""
    return given_to(quantiles(input, q, dim, keepdim, interpolation, "nanquantile"), out)

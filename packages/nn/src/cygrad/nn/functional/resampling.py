"""Images of other sizes, and images looked at through a grid of places."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import entitled
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import HALVES, formatted, of_sizes, outside, require_tensor
from cygrad.nn.functional.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = ["affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]

DIMS = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
MODES = ("nearest", "linear", "bilinear", "bicubic", "trilinear", "area", "nearest-exact")
CUBIC = -0.75  # the free parameter of Keys' convolution, as in most image libraries
CUBIC_ANTIALIASED = -0.5
Numbers = float | Sequence[float]


# ---- sizes -------------------------------------------------------------------------------------------------------
@autocasts(None)
def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: Numbers | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return sequences, images or volumes in another size.

    Parameters
    ----------
    input : Tensor, shape (N, C, L), (N, C, H, W) or (N, C, D, H, W)
    size : int or sequence of int, optional
        The new sizes; or give `scale_factor`.
    scale_factor : float or sequence of float, optional
        New over old sizes.
    mode : str
        ``"nearest"``, ``"nearest-exact"`` (with places rounded right), ``"linear"``, ``"bilinear"``, ``"trilinear"``,
        ``"bicubic"`` (Keys, "Cubic convolution interpolation for digital image processing", 1981), or ``"area"``.
    align_corners : bool, optional
        Whether the outermost elements keep their places, in place of the outermost edges.
    recompute_scale_factor : bool, optional
        Compute the scale from the rounded size.
    antialias : bool
        Widen the filter where images shrink; for ``"bilinear"`` and ``"bicubic"``.

    Raises
    ------
    ValueError
        If sizes, or options, do not go together.
    NotImplementedError
        If the mode is unknown, or for other dimensions.
    RuntimeError
        If a size is 0.
    """
    require_tensor("interpolate", "input", input)
    dims = input.dim() - 2
    _check_mode(input, mode, align_corners, antialias)
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[dims - 1](input, sizes)
    place = input.shape[2:]
    if 0 in input.shape[1:2]:
        raise RuntimeError(f"Non-empty {input.dim()}D data tensor expected, but got sizes {list(input.shape)}")
    if min(*sizes, *place) < 1:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {tuple(place)} and output {tuple(sizes)}"
        )
    if not input.is_floating_point() and input.dtype != cygrad.uint8:
        raise NotImplementedError(f"interpolate is not implemented for {input.dtype}")
    if input.dtype == cygrad.uint8 and mode in ("bilinear", "bicubic"):
        return formatted(_bytes(input, sizes, scales, mode, bool(align_corners), antialias), input)
    precision = cygrad.float64 if input.dtype == cygrad.float64 else cygrad.float32
    kind: Kind = {"dtype": precision, "device": input.device}
    result = input if mode.startswith("nearest") else input.to(precision)
    for i in range(dims):
        geometry = (place[i], sizes[i], scales[i], bool(align_corners))
        if mode.startswith("nearest"):
            at = _places(_nearest, *geometry[:3], mode == "nearest-exact", kind)
            result = result.index_select(2 + i, at)
        elif place[i] != sizes[i] or not (align_corners or geometry[2] in (None, 1.0)) or mode == "bicubic":
            taps = _antialiased if antialias else _cubic if mode == "bicubic" else _linear
            result = _mixed(result, 2 + i, _places(taps, *geometry, kind, mode))
    if result is input:
        result = input.clone()
    if input.dtype == cygrad.uint8 and not mode.startswith("nearest"):
        result = result.round().clamp(0, 255)
    result = result.to(input.dtype)
    kind = "".join(word.capitalize() for word in mode.split("-"))
    result = formatted(result, input) if dims > 1 else result.contiguous()
    return entitled(result, f"Upsample{kind}{dims}D{'Aa' if antialias else ''}Backward0")


def _bytes(
    input: Tensor, sizes: list[int], scales: list[float | None], mode: str, align: bool, antialias: bool
) -> Tensor:
    """Images of bytes as PyTorch resizes them: a pass for each dimension, the last one first, in whole numbers.

    Weights are multiples of a power of 2, so fine that the largest fits 15 bits; each pass is rounded to bytes.
    """
    filters = _antialiased if antialias else _cubic if mode == "bicubic" else _linear
    kind: Kind = {"dtype": cygrad.float64, "device": input.device}
    result = input
    for dim in (3, 2):
        old, new = input.shape[dim], sizes[dim - 2]
        if old == new:
            continue
        taps = _distinct(filters(old, new, scales[dim - 2], align, kind, mode))
        largest, digits = max(float(weight.max()) for _, weight in taps), 0
        while digits < 22 and int(0.5 + largest * 2 ** (digits + 1)) < 1 << 15:
            digits += 1
        whole = [(at, (w * 2**digits + w.sign() * 0.5).trunc().to(cygrad.int32)) for at, w in taps]
        total = _mixed(result.to(cygrad.int32), dim, whole) + ((1 << digits) >> 1)
        result = (total >> digits).clamp(0, 255).to(cygrad.uint8)
    return input.clone() if result is input else result


def _distinct(taps: Taps) -> Taps:
    """Taps of which no two name the same element, as those beyond an edge do: the first has the weight of all."""
    places, weights = [at for at, _ in taps], [weight.clone() for _, weight in taps]
    for i in range(len(taps)):
        for j in range(i + 1, len(taps)):
            same = places[i] == places[j]
            weights[i] += cygrad.where(same, weights[j], 0)
            weights[j] = cygrad.where(same, 0, weights[j])
    return list(zip(places, weights, strict=True))


def _check_mode(input: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if input.dim() not in (3, 4, 5) or mode not in MODES:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: "
            f"{' | '.join(MODES)} (got {mode})"
        )
    if align_corners is not None and mode not in DIMS:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode in DIMS and DIMS[mode] + 2 != input.dim():
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {DIMS[mode] + 2}D input")


def _sizes(
    input: Tensor, size: int | Sequence[int] | None, factor: Numbers | None, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """The new sizes, and the scales by which places are computed, where they are given."""
    dims = input.dim() - 2
    if size is not None and factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and factor is None:
        raise ValueError("either size or scale_factor should be defined")
    given = size if size is not None else factor
    what = "output size of" if size is not None else "scale_factor of shape"
    values = list(given) if isinstance(given, Sequence) else [given] * dims
    if len(values) != dims:
        raise ValueError(
            f"Input and {what.split()[0]} must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(input.shape[2:])} and {what} {tuple(values)}."
        )
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return [int(v) for v in values], [None] * dims
    sizes = [math.floor(n * float(v)) for n, v in zip(input.shape[2:], values, strict=True)]
    return sizes, [None] * dims if recompute else [float(v) for v in values]


# ---- places: of each new element, old elements and their weights -------------------------------------------------
Kind = dict[str, Any]                # dtype and device of what is made
Taps = list[tuple[Tensor, Tensor]]


def _places(function: Callable, old: int, new: int, scale: float | None, flag: bool, kind: Kind, *mode: str) -> Any:
    return of_sizes(max(old, new), kind["device"], _made, kind["dtype"], function, old, new, scale, flag, *mode)


def _made(
    device: Any, dtype: Any, function: Callable, old: int, new: int, scale: float | None, flag: bool, *mode: str
) -> Any:
    return function(old, new, scale, flag, {"dtype": dtype, "device": device}, *mode)


def _step(old: int, new: int, scale: float | None, align: bool) -> float:
    if align:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / scale if scale is not None and scale > 0 else old / new


def _nearest(old: int, new: int, scale: float | None, exact: bool, kind: Kind) -> Tensor:
    at = cygrad.arange(new, **kind) + (0.5 if exact else 0)
    return (at * _step(old, new, scale, False)).floor().long().clamp(0, old - 1)


def _source(new: int, step: float, align: bool, kind: Kind) -> Tensor:
    at = cygrad.arange(new, **kind)
    return at * step if align else (at + 0.5) * step - 0.5


def _linear(old: int, new: int, scale: float | None, align: bool, kind: Kind, mode: str) -> Taps:
    source = _source(new, _step(old, new, scale, align), align, kind).clamp_min(0)
    low = source.floor().long().clamp_max(old - 1)
    share = (source - low.to(**kind)).clamp(0, 1)
    return [(low, 1 - share), ((low + 1).clamp_max(old - 1), share)]


def _cubic(old: int, new: int, scale: float | None, align: bool, kind: Kind, mode: str) -> Taps:
    source = _source(new, _step(old, new, scale, align), align, kind)
    low = source.floor()
    share = source - low
    return [((low.long() + k).clamp(0, old - 1), _keys((share - k).abs(), CUBIC)) for k in (-1, 0, 1, 2)]


def _keys(x: Tensor, a: float) -> Tensor:
    """Keys' filter at distances from 0 to 2."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return cygrad.where(x <= 1, near, cygrad.where(x < 2, far, cygrad.zeros_like(x)))


def _antialiased(old: int, new: int, scale: float | None, align: bool, kind: Kind, mode: str) -> Taps:
    """The filter as wide as a new element, with weights that sum to 1."""
    step = _step(old, new, scale, align)
    wide = max(step, 1.0)
    reach = (2.0 if mode == "bicubic" else 1.0) * wide
    center = (cygrad.arange(new, **kind) + 0.5) * step
    first = (center - reach + 0.5).floor().long().clamp_min(0)
    last = (center + reach + 0.5).floor().long().clamp_max(old)
    taps, total = [], cygrad.zeros(new, **kind)
    for k in range(math.ceil(reach) * 2 + 1):
        at = first + k
        distance = ((at.to(**kind) - center + 0.5) / wide).abs()
        weight = _keys(distance, CUBIC_ANTIALIASED) if mode == "bicubic" else (1 - distance).clamp_min(0)
        weight = weight.masked_fill(at >= last, 0)
        taps.append((at.clamp_max(old - 1), weight))
        total = total + weight
    return [(at, weight / total) for at, weight in taps]


def _mixed(input: Tensor, dim: int, taps: Taps) -> Tensor:
    shape = [-1 if d == dim else 1 for d in range(input.dim())]
    return sum(input.index_select(dim, at) * weight.view(shape) for at, weight in taps)


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: Numbers | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Numbers | None = None
) -> Tensor:
    """Deprecated form of `interpolate` with ``mode="nearest"``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor)


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Numbers | None = None
) -> Tensor:
    """Deprecated form of `interpolate` with ``mode="bilinear"`` and aligned corners."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "bilinear", True)


# ---- grids -------------------------------------------------------------------------------------------------------
def _corners(align_corners: bool | None, name: str) -> bool:
    if align_corners is None:
        warnings.warn(
            f"{name} without align_corners takes False, as since PyTorch 1.3.0: give align_corners",
            stacklevel=outside(),
        )
    return bool(align_corners)


@autocasts("low")
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid of places that an affine map gives, for `grid_sample`.

    Jaderberg et al., "Spatial transformer networks" (2015).

    Parameters
    ----------
    theta : Tensor, shape (N, 2, 3) or (N, 3, 4)
        The maps.
    size : sequence of int
        (N, C, H, W) or (N, C, D, H, W) of the result of `grid_sample`.
    align_corners : bool, optional
        Whether -1 and 1 are the outermost elements, in place of the outermost edges.

    Returns
    -------
    Tensor, shape (N, H, W, 2) or (N, D, H, W, 3)

    Raises
    ------
    ValueError
        If shapes do not go together, or the maps are not floating point.
    NotImplementedError
        If there are other numbers of dimensions.
    """
    require_tensor("affine_grid", "theta", theta)
    align = _corners(align_corners, "affine_grid")
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    sizes = list(size)
    if len(sizes) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{tuple(sizes)}."
        )
    dims = len(sizes) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {tuple(sizes)}. Got "
            f"{theta.shape}."
        )
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(sizes)}")
    axes = []
    for i, count in enumerate(sizes[2:]):
        kind = {"dtype": theta.dtype, "device": theta.device}
        axis = cygrad.linspace(-1, 1, count, **kind) if count > 1 else cygrad.zeros(1, **kind)
        axis = axis if align else axis * (count - 1) / count
        axes.append(axis.view([-1 if d == i else 1 for d in range(dims)]).expand(sizes[2:]))
    base = cygrad.stack([*reversed(axes), cygrad.ones_like(axes[0])], -1)
    grid = (base.reshape(1, -1, dims + 1) @ theta.mT).view(theta.shape[0], *sizes[2:], dims)
    return entitled(grid, "AffineGridGeneratorBackward0")


@autocasts("float32")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return images as seen through a grid of places.

    Parameters
    ----------
    input : Tensor, shape (N, C, H, W) or (N, C, D, H, W)
    grid : Tensor, shape (N, H', W', 2) or (N, D', H', W', 3)
        Places (x, y) or (x, y, z), from -1 to 1 inside the image.
    mode : str
        ``"bilinear"`` (also for volumes), ``"nearest"`` or ``"bicubic"``.
    padding_mode : str
        What is outside: ``"zeros"``, the ``"border"``, or a ``"reflection"``.
    align_corners : bool, optional
        Whether -1 and 1 are the outermost elements, in place of the outermost edges.

    Returns
    -------
    Tensor, shape (N, C, H', W') or (N, C, D', H', W')

    Raises
    ------
    ValueError
        If a mode is unknown.
    RuntimeError
        If shapes or dtypes do not go together.
    """
    require_tensor("grid_sample", "input", input)
    require_tensor("grid_sample", "grid", grid)
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: {mode!r}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"{padding_mode!r}"
        )
    align = _corners(align_corners, "grid_sample")
    dims = _check_grid(input, grid, mode)
    if input.dtype in HALVES:  # places and weights need the digits of a float32
        wide = grid_sample(input.float(), grid.float(), mode, padding_mode, align)
        return entitled(wide.to(input.dtype), f"GridSampler{dims}DBackward0")
    axes = list(reversed(grid.unbind(-1)))  # as the image's dimensions: (y, x) or (z, y, x)
    options = (padding_mode, align)
    places = [_unscaled(at, size, align) for at, size in zip(axes, input.shape[2:], strict=True)]
    if mode == "bicubic":
        return entitled(_sampled_cubic(input, places, *options), "GridSampler2DBackward0")
    places = [_inside(at, size, *options) for at, size in zip(places, input.shape[2:], strict=True)]
    if mode == "nearest":
        nearest = _looked_up(input, [at.round() for at in places], padding_mode)
        return entitled(nearest, f"GridSampler{dims}DBackward0")
    result = 0
    low = [at.floor() for at in places]
    for corner in range(1 << dims):
        ends = [(corner >> i) & 1 for i in range(dims)]
        weight = 1
        for at, floor, end in zip(places, low, ends, strict=True):
            weight = weight * (at - floor if end else floor + 1 - at)
        found = _looked_up(input, [floor + end for floor, end in zip(low, ends, strict=True)], padding_mode)
        result = result + found * weight.unsqueeze(1)
    return entitled(result, f"GridSampler{dims}DBackward0")


def _check_grid(input: Tensor, grid: Tensor, mode: str) -> int:
    dims = input.dim() - 2
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): input and grid of the same dtype are wanted, got {input.dtype} and {grid.dtype}"
        )
    if dims not in (2, 3) or grid.dim() != input.dim():
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for dim in range(2, input.dim()):
        if input.shape[dim] == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {dim} being empty"
            )
    if mode == "bicubic" and dims != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    return dims


def _unscaled(at: Tensor, size: int, align: bool) -> Tensor:
    """Places from -1 to 1 as numbers of elements."""
    return (at + 1) / 2 * (size - 1) if align else ((at + 1) * size - 1) / 2


def _inside(at: Tensor, size: int, padding: str, align: bool) -> Tensor:
    """Places moved into the image, as the padding says."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return cygrad.zeros_like(at) * at
        away = (at - low).abs()
        flips = (away / span).detach().floor()
        extra = away - flips * span
        at = cygrad.where(flips.remainder(2) == 0, extra + low, span - extra + low)
    return at.clamp(0, size - 1)


def _looked_up(input: Tensor, places: list[Tensor], padding: str) -> Tensor:
    """The elements at whole places, 0 outside: shape (N, C, *)."""
    index, valid = 0, None
    for at, size in zip(places, input.shape[2:], strict=True):
        # NaN and places that no int64 holds are outside.
        inside = (at >= 0) & (at <= size - 1)
        valid = inside if valid is None else valid & inside
        index = index * size + at.detach().nan_to_num(-1).clamp(0, size - 1).long()
    batch, channels = input.shape[:2]
    flat = index.flatten(1).unsqueeze(1).expand(batch, channels, math.prod(index.shape[1:]))
    found = input.flatten(2).gather(2, flat).view(batch, channels, *index.shape[1:])
    return found.masked_fill(~valid.unsqueeze(1), 0)


def _sampled_cubic(input: Tensor, places: list[Tensor], padding: str, align: bool) -> Tensor:
    low = [at.floor() for at in places]
    shares = [at - floor for at, floor in zip(places, low, strict=True)]
    result = 0
    for i in (-1, 0, 1, 2):
        for j in (-1, 0, 1, 2):
            weight = _keys((shares[0] - i).abs(), CUBIC) * _keys((shares[1] - j).abs(), CUBIC)
            corners = [
                _inside(floor + k, size, padding, align)
                for floor, k, size in zip(low, (i, j), input.shape[2:], strict=True)
            ]
            result = result + _looked_up(input, [c.round() for c in corners], padding) * weight.unsqueeze(1)
    return result

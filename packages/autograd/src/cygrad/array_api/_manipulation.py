"""Shapes: joining, splitting and rearranging; and picking by indices."""

import cygrad
from cygrad.autograd._core import Tensor

from ._array import standard
from ._dtypes import result_type

__all__ = ["broadcast_arrays", "broadcast_to", "concat", "diff", "expand_dims", "flip", "matrix_transpose", "moveaxis",
           "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "take", "take_along_axis", "tile",
           "unstack"]


def common(arrays):
    """All in their common dtype."""
    kind = result_type(*arrays)
    return [x.to(kind) for x in arrays]


def axis_in(axis, ndim, name):
    """The axis as a number from 0 on."""
    if not -ndim <= axis < ndim:
        raise IndexError(f"{name}(): axis {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def axes_in(axes, ndim, name):
    """Several of them; None stands for all."""
    if axes is None:
        return list(range(ndim))
    found = [axis_in(a, ndim, name) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]
    if len(set(found)) < len(found):
        raise ValueError(f"{name}(): an axis appears twice in {axes}")
    return found


@standard
def broadcast_arrays(*arrays):
    """The arrays expanded to one shape."""
    shape = cygrad.broadcast_shapes(*(x.shape for x in arrays)) if arrays else ()
    return [x.expand(shape) for x in arrays]


@standard
def broadcast_to(x, /, shape):
    """`x` expanded to a shape."""
    return cygrad.broadcast_to(x, tuple(shape))


@standard
def concat(arrays, /, *, axis=0):
    """The arrays one after another along `axis`; flattened first if it is None."""
    arrays = common(arrays)
    if axis is None:
        return cygrad.cat([x.reshape(-1) for x in arrays])
    axis = axis_in(axis, arrays[0].ndim, "concat")
    for x in arrays[1:]:
        if x.ndim != arrays[0].ndim:
            raise ValueError(f"concat(): arrays of {arrays[0].ndim} and of {x.ndim} dimensions")
    return cygrad.cat(arrays, axis)


@standard
def expand_dims(x, /, axis):
    """A new dimension of size 1 at `axis`."""
    return x.unsqueeze(axis_in(axis, x.ndim + 1, "expand_dims"))


@standard
def flip(x, /, *, axis=None):
    """Reversed along the axes, all by default."""
    return x.flip(axes_in(axis, x.ndim, "flip"))


@standard
def matrix_transpose(x, /):
    """The last two dimensions swapped."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose(): at least two dimensions are wanted, got {x.ndim}")
    return x.mT


@standard
def moveaxis(x, source, destination, /):
    """Dimensions moved to other places."""
    return cygrad.movedim(x, source, destination)


@standard
def permute_dims(x, /, axes):
    """Dimensions in another order."""
    return x.permute(tuple(axes))


@standard
def repeat(x, repeats, /, *, axis=None):
    """Each element `repeats` times."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = axis_in(axis, x.ndim, "repeat")
    if isinstance(repeats, Tensor):
        counts = repeats.to(cygrad.int64).reshape(-1).expand(x.shape[axis])
        return x.index_select(axis, repeated_positions(counts))
    places = cygrad.arange(x.shape[axis]).unsqueeze(1).expand(x.shape[axis], repeats).reshape(-1)
    return x.index_select(axis, places)


def repeated_positions(counts):
    """Position i as often as ``counts[i]`` says."""
    ends = counts.cumsum(0)
    total = int(ends[-1]) if counts.numel() else 0
    return cygrad.searchsorted(ends, cygrad.arange(total), right=True)


@standard
def reshape(x, /, shape, *, copy=None):
    """The same elements in another shape; a view where `copy` is not True and the strides allow it."""
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape(): {error}") from None
    y = x.reshape(tuple(shape))
    return y.clone() if copy else y


@standard
def roll(x, /, shift, *, axis=None):
    """Elements moved along the axes, those that fall off at one end coming back at the other."""
    return cygrad.roll(x, shift) if axis is None else cygrad.roll(x, shift, axis)


@standard
def squeeze(x, /, axis):
    """Without these dimensions, which are of size 1."""
    axes = axes_in(axis, x.ndim, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze(): axis {a} has size {x.shape[a]}, only those of size 1 can go")
    return x.reshape([s for i, s in enumerate(x.shape) if i not in axes]) if axes else x


@standard
def stack(arrays, /, *, axis=0):
    """The arrays side by side along a new axis."""
    arrays = common(arrays)
    return cygrad.stack(arrays, axis_in(axis, arrays[0].ndim + 1, "stack"))


@standard
def tile(x, repetitions, /):
    """Copies of the whole beside one another, so many in each dimension."""
    return cygrad.tile(x, repetitions)


@standard
def unstack(x, /, *, axis=0):
    """The slices along `axis`."""
    return tuple(x.unbind(axis_in(axis, x.ndim, "unstack")))


@standard
def take(x, indices, /, *, axis=None):
    """The slices of `x` at these positions of `axis`."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take(): the axis of an array of {x.ndim} dimensions must be named")
        axis = 0
    axis = axis_in(axis, x.ndim, "take")
    places = indices.to(cygrad.int64)
    places = cygrad.where(places < 0, places + x.shape[axis], places)
    found = x.index_select(axis, places.reshape(-1))
    return found.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]])


@standard
def take_along_axis(x, indices, /, *, axis=-1):
    """Elements of `x` at positions given for each place along `axis`."""
    axis = axis_in(axis, x.ndim, "take_along_axis")
    places = indices.to(cygrad.int64)
    places = cygrad.where(places < 0, places + x.shape[axis], places)
    rest = [cygrad.broadcast_shapes((a,), (b,))[0] if i != axis else None
            for i, (a, b) in enumerate(zip(x.shape, places.shape, strict=True))]
    shapes = [[n if i != axis else t.shape[axis] for i, n in enumerate(rest)] for t in (x, places)]
    return cygrad.gather(x.expand(shapes[0]), axis, places.expand(shapes[1]))


@standard
def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """Differences of neighbours along `axis`, taken `n` times."""
    axis = axis_in(axis, x.ndim, "diff")
    parts = [p for p in (prepend, x, append) if p is not None]
    x = cygrad.cat(common(parts), axis) if len(parts) > 1 else x
    for _ in range(n):
        high, low = x.narrow(axis, 1, max(x.shape[axis] - 1, 0)), x.narrow(axis, 0, max(x.shape[axis] - 1, 0))
        x = high.ne(low) if x.dtype is cygrad.bool else high - low
    return x

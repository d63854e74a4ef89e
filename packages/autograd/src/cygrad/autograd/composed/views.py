"""Views that are made of other views, and copies of a tensor in which a view is replaced."""

from itertools import pairwise

from .. import _core
from .._core import Tensor
from . import composed
from ._args import int_arg, ints_arg, tensor_arg, tensors_arg, wrap_dim, wrong


def of_each(function: str, tensors: tuple, view):
    """`view` of the only tensor, or of each one in a tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return view(tensors[0])
    if len(tensors) == 1:
        tensors = tensors[0]
    return tuple(view(x) for x in tensors_arg(tensors, function))


@composed("function")
def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with one dimension at least, as a view.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensors
        Of any shape and dtype.

    Returns
    -------
    Tensor, or a tuple of Tensors where several were given
    """
    return of_each("atleast_1d", tensors, lambda x: x if x.dim() else x.reshape(1))


@composed("function")
def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with two dimensions at least, as a view: numbers and vectors become a row.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensors

    Returns
    -------
    Tensor, or a tuple of Tensors where several were given
    """

    def view(x):
        return x if x.dim() > 1 else x.unsqueeze(0) if x.dim() else x.reshape(1, 1)

    return of_each("atleast_2d", tensors, view)


@composed("function")
def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with three dimensions at least, as a view: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1).

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensors

    Returns
    -------
    Tensor, or a tuple of Tensors where several were given
    """

    def view(x):
        if x.dim() > 2:
            return x
        if x.dim() == 2:
            return x.unsqueeze(-1)
        return x.unsqueeze(0).unsqueeze(-1) if x.dim() else x.reshape(1, 1, 1)

    return of_each("atleast_3d", tensors, view)


def broadcast_size(shapes, function: str) -> tuple[int, ...]:
    """The shape that all of these shapes stretch to."""
    size = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for i in range(-1, -len(shape) - 1, -1):
            n = shape[i]
            if n < 0:
                raise RuntimeError(f"{function}(): trying to create a shape with the negative dimension {n}: {shape}")
            if n != 1 and size[i] not in (1, n):
                raise RuntimeError(f"{function}(): Shape mismatch: objects cannot be broadcast to a single shape, "
                                   f"{shape} has {n} where another has {size[i]}")
            if n != 1:
                size[i] = n
    return tuple(size)


@composed("function")
def broadcast_shapes(*shapes) -> _core.Size:
    """The shape that tensors of the given shapes broadcast to.

    Parameters
    ----------
    *shapes : tuple of ints, or an int for a shape of one dimension

    Raises
    ------
    RuntimeError
        Sizes that differ, of which none is 1.
    """
    shapes = [ints_arg(s, "broadcast_shapes", "shapes") if isinstance(s, list | tuple)
              else (int_arg(s, "broadcast_shapes", "shapes"),) for s in shapes]
    return _core.Size(broadcast_size(shapes, "broadcast_shapes"))


@composed("function")
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of the tensors expanded to their common shape; several elements may lie at one place in memory.

    Parameters
    ----------
    *tensors : Tensor, or one sequence of Tensors
    """
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        tensors = tensors[0]
    tensors = tensors_arg(tensors, "broadcast_tensors")
    size = broadcast_size([x.shape for x in tensors], "broadcast_tensors")
    return tuple(x.expand(size) for x in tensors)


@composed("function method")
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view where `input` lies row-major, else a copy."""
    return tensor_arg(input, "ravel").contiguous().view(-1)


@composed("function method")
def unflatten(input: Tensor, dim: int, sizes) -> Tensor:
    """A view with dimension `dim` taken apart into dimensions of the given sizes.

    Parameters
    ----------
    input : Tensor
    dim : int
    sizes : tuple of ints
        Their product is the size of `dim`; one may be -1.

    Raises
    ------
    RuntimeError
        `sizes` is empty, or does not multiply to the size of `dim`.
    """
    x = tensor_arg(input, "unflatten")
    dim = wrap_dim(dim, x.dim(), "unflatten")
    sizes = ints_arg(sizes, "unflatten", "sizes")
    if not sizes:
        raise RuntimeError("unflatten(): sizes must be non-empty")
    shape = tuple(x.shape) or (1,)
    sizes = inferred(sizes, shape[dim], dim)
    return x.view(*shape[:dim], *sizes, *shape[dim + 1 :])


def inferred(sizes: tuple[int, ...], length: int, dim: int) -> tuple[int, ...]:
    """`sizes` with -1 replaced by what is left of `length`."""
    product, free = 1, [i for i, n in enumerate(sizes) if n == -1]
    for n in sizes:
        product *= n if n != -1 else 1
    if len(free) == 1 and product and length % product == 0:
        i = free[0]
        return (*sizes[:i], length // product, *sizes[i + 1 :])
    if free or product != length or any(n < 0 for n in sizes):
        raise RuntimeError(f"unflatten(): Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
                           f"({length}) in the input tensor")
    return sizes


@composed("function method")
def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose` under another name."""
    return tensor_arg(input, "swapdims").transpose(dim0, dim1)


@composed("function method")
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """`transpose` under NumPy's name."""
    return tensor_arg(input, "swapaxes").transpose(axis0, axis1)


@composed("function method")
def moveaxis(input: Tensor, source, destination) -> Tensor:
    """`movedim` under NumPy's name."""
    return tensor_arg(input, "moveaxis").movedim(source, destination)


# ---- parts -----------------------------------------------------------------------------------------------------------


def cut(x: Tensor, places, dim: int, function: str) -> tuple[Tensor, ...]:
    """Parts along `dim`: equally long if `places` is their number, else from one index to the next."""
    length = x.shape[dim]
    if isinstance(places, int):
        if places <= 0:
            raise RuntimeError(f"{function}(): number of sections must be larger than 0, got {places}")
        small, longer = divmod(length, places)
        ends = [i * small + min(i, longer) for i in range(1, places)]
    else:
        ends = places
    bounds = [0, *ends, length]
    every = slice(None)
    return tuple(x[(every,) * dim + (slice(a, b if i < len(ends) else None),)]
                 for i, (a, b) in enumerate(pairwise(bounds)))


def places_arg(places, function: str, argument: str = "indices_or_sections"):
    """Where to cut: an int, a tuple of ints, or a tensor of either."""
    if isinstance(places, Tensor):
        if places.dim() > 1 or places.dtype is not _core.Tensor.long(places).dtype:
            raise RuntimeError(f"{function}(): '{argument}' must be a zero-dimensional or one-dimensional tensor of "
                               f"dtype int64, got {places.dim()} dimensions of {places.dtype}")
        places = places.tolist()
    if isinstance(places, list | tuple):
        return ints_arg(places, function, argument)
    return int_arg(places, function, argument)


@composed("function method")
def tensor_split(input: Tensor, indices_or_sections=None, dim: int = 0, *, sections=None, indices=None,
                 tensor_indices_or_sections=None) -> tuple[Tensor, ...]:
    """Parts along `dim`, as views.

    Parameters
    ----------
    input : Tensor
        With one dimension at least.
    indices_or_sections : int, tuple of ints, or Tensor of dtype int64
        A number of parts, of which the first ones may be one longer; or the indices at which to cut. `sections`,
        `indices` and `tensor_indices_or_sections` are other names of it.
    dim : int

    Raises
    ------
    RuntimeError
        No dimension to cut, or no part wanted.
    """
    x = tensor_arg(input, "tensor_split")
    given = [p for p in (indices_or_sections, sections, indices, tensor_indices_or_sections) if p is not None]
    if len(given) != 1:
        raise TypeError("tensor_split(): either sections or indices are wanted, "
                        f"got {'both' if given else 'neither'}")
    if not x.dim():
        raise RuntimeError("tensor_split(): expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, x.dim(), "tensor_split")
    return cut(x, places_arg(given[0], "tensor_split"), dim, "tensor_split")


def cut_along(x: Tensor, places, dim: int, least: int, function: str) -> tuple[Tensor, ...]:
    """Parts along `dim` of a tensor that has `least` dimensions; their number has to divide the size."""
    tensor_arg(x, function)
    if x.dim() < least:
        raise RuntimeError(f"{function}(): requires a tensor with at least {least} dimension(s), but got a tensor with "
                           f"{x.dim()} dimensions")
    if isinstance(places, Tensor):
        raise wrong(function, "indices_or_sections", "int or tuple of ints", places)
    places = places_arg(places, function)
    if isinstance(places, int) and (places <= 0 or x.shape[dim] % places):
        raise RuntimeError(f"{function}(): attempted to split along dimension {dim}, but the size of the dimension "
                           f"{x.shape[dim]} is not divisible by the split_size {places}")
    return cut(x, places, dim, function)


@composed("function method")
def hsplit(input: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """Equal parts, or parts between indices, along the second dimension (of a vector: the only one), as views."""
    dim = 0 if isinstance(input, Tensor) and input.dim() == 1 else 1
    return cut_along(input, indices_or_sections, dim, 1, "hsplit")


@composed("function method")
def vsplit(input: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """Equal parts, or parts between indices, along the first of two or more dimensions, as views."""
    return cut_along(input, indices_or_sections, 0, 2, "vsplit")


@composed("function method")
def dsplit(input: Tensor, indices_or_sections) -> tuple[Tensor, ...]:
    """Equal parts, or parts between indices, along the third of three or more dimensions, as views."""
    return cut_along(input, indices_or_sections, 2, 3, "dsplit")


@composed("function method")
def split_with_sizes(input: Tensor, split_sizes, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along `dim`, as views."""
    return _core.split(tensor_arg(input, "split_with_sizes"), ints_arg(split_sizes, "split_with_sizes", "split_sizes"),
                       dim)


def apart(parts: tuple[Tensor, ...], x: Tensor, dim: int) -> tuple[Tensor, ...]:
    """The parts of a split as views that know nothing of one another, so that each may be written in place."""
    dim = wrap_dim(dim, x.dim(), "split")
    start, views = 0, []
    for part in parts:
        views.append(x.narrow(dim, start, part.shape[dim]))
        start += part.shape[dim]
    return tuple(views)


@composed("function method")
def unsafe_split(input: Tensor, split_size, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`, whose parts may be written in place while gradients are recorded."""
    return apart(_core.split(tensor_arg(input, "unsafe_split"), split_size, dim), input, dim)


@composed("function method")
def unsafe_split_with_sizes(input: Tensor, split_sizes, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes`, whose parts may be written in place while gradients are recorded."""
    return apart(split_with_sizes(input, split_sizes, dim), input, dim)


@composed("function method")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`, whose parts may be written in place while gradients are recorded."""
    return apart(_core.chunk(tensor_arg(input, "unsafe_chunk"), chunks, dim), input, dim)


# ---- diagonals -------------------------------------------------------------------------------------------------------


@composed("function method out_same")
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The matrix with the vector `input` on a diagonal; or a copy of a diagonal of the matrix `input`.

    Parameters
    ----------
    input : Tensor
        (n,) or (m, n).
    diagonal : int
        0: the main one; above it if positive, below it if negative.

    Raises
    ------
    RuntimeError
        `input` has neither one nor two dimensions.
    """
    x = tensor_arg(input, "diag")
    diagonal = int_arg(diagonal, "diag", "diagonal")
    if x.dim() == 1:
        return diag_embed(x, diagonal)
    if x.dim() == 2:
        return x.diagonal(diagonal).clone()
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {x.dim()}D")


@composed("function method")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, zero but for a diagonal, which the last dimension of `input` fills.

    Parameters
    ----------
    input : Tensor
        (..., n).
    offset : int
        0: the main diagonal; above it if positive, below it if negative.
    dim1, dim2 : int
        The dimensions of the result that hold the matrices, n + abs(offset) long.

    Raises
    ------
    RuntimeError
        `dim1` and `dim2` are the same dimension.
    """
    x = tensor_arg(input, "diag_embed")
    offset = int_arg(offset, "diag_embed", "offset")
    ndim = x.dim() + 1
    first, second = wrap_dim(dim1, ndim, "diag_embed", "dim1"), wrap_dim(dim2, ndim, "diag_embed", "dim2")
    if first == second:
        raise RuntimeError(f"diag_embed(): diagonal dimensions cannot be identical {dim1}, {dim2}")
    if not x.dim():
        raise RuntimeError("diag_embed(): expected a tensor with one dimension at least, got one without")
    shape = list(x.shape[:-1])
    n = x.shape[-1] + abs(offset)
    for dim in sorted((first, second)):
        shape.insert(dim, n)
    y = x.new_zeros(shape)
    y.diagonal(offset, first, second).copy_(x)
    return y


@composed("function method")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input`, in row-major order, on a diagonal."""
    return diag_embed(tensor_arg(input, "diagflat").reshape(-1), int_arg(offset, "diagflat", "offset"))


# ---- copies with a view replaced -------------------------------------------------------------------------------------


def copied(x: Tensor) -> Tensor:
    """A copy with the strides of `x`, gaps included; without them where elements share a place."""
    pairs = [(n, s) for n, s in zip(x.shape, x.stride(), strict=True) if n > 1]
    extent = 1 + sum((n - 1) * s for n, s in pairs)
    if extent <= x.numel() or any(s == 0 for _, s in pairs):
        return x.clone()
    return x.as_strided((extent,), (1,)).clone().as_strided(x.shape, x.stride(), 0)


def replaced(x: Tensor, src: Tensor, view, function: str) -> Tensor:
    """A copy of `x` in which `view` of it is overwritten by `src`, of the same shape."""
    y = _core.with_room(copied(x), tensor_arg(src, function, "src"))
    target = view(y)
    if target.shape != src.shape:
        raise RuntimeError(f"{function}(): expected src to have a size equal to the slice of self. src size = "
                           f"{list(src.shape)}, slice size = {list(target.shape)}")
    target.copy_(src)
    return y


@composed("function method out_same")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` in place of ``input.select(dim, index)``."""
    return replaced(tensor_arg(input, "select_scatter"), src, lambda y: y.select(dim, index), "select_scatter")


@composed("function method out_same")
def slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start=None, end=None, step: int = 1) -> Tensor:
    """A copy of `input` with `src` in place of elements `start` to `end`, without it, `step` apart along `dim`."""
    x = tensor_arg(input, "slice_scatter")
    dim = wrap_dim(dim, x.dim(), "slice_scatter")
    step = int_arg(step, "slice_scatter", "step")
    if step <= 0:
        raise RuntimeError(f"slice_scatter(): slice step must be positive, got {step}")
    return replaced(x, src, lambda y: y[(slice(None),) * dim + (slice(start, end, step),)], "slice_scatter")


@composed("function method out_same")
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` in place of ``input.diagonal(offset, dim1, dim2)``."""
    return replaced(tensor_arg(input, "diagonal_scatter"), src, lambda y: y.diagonal(offset, dim1, dim2),
                    "diagonal_scatter")


@composed("function method out_same")
def as_strided_scatter(input: Tensor, src: Tensor, size, stride, storage_offset=None) -> Tensor:
    """A copy of `input` and of the memory around it, with `src` in place of ``input.as_strided(size, stride)``."""
    x = tensor_arg(input, "as_strided_scatter")
    if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True)):
        y = x.clone()
    else:
        whole = x.untyped_storage().nbytes() // x.element_size()
        y = x.as_strided((whole,), (1,), 0).clone().as_strided(x.shape, x.stride(), x.storage_offset())
    target = y.as_strided(size, stride, storage_offset)
    if target.shape != tensor_arg(src, "as_strided_scatter", "src").shape:
        raise RuntimeError(f"as_strided_scatter(): expected src to have a size equal to the slice of self. src size = "
                           f"{list(src.shape)}, slice size = {list(target.shape)}")
    target.copy_(src)
    return y


# ---- copies of views -------------------------------------------------------------------------------------------------


def copy_of(name: str, view, returns: str):
    """Declare ``NAME_copy``: what the method `view` gives, with memory of its own."""

    def copy(input, *args, out=None, **kwargs):
        found = getattr(tensor_arg(input, f"{name}_copy"), view)(*args, **kwargs)
        if isinstance(found, tuple):
            return tuple(x.clone(memory_format=_core.contiguous_format) for x in found)
        y = found.clone(memory_format=_core.contiguous_format)
        return y if out is None else _core.deliver(y, out)

    copy.__name__ = f"{name}_copy"
    copy.__doc__ = f"`Tensor.{view}` with memory of its own: {returns}."
    composed("function")(copy)


for _name in ("as_strided", "diagonal", "expand", "narrow", "permute", "select", "squeeze", "t", "transpose", "unfold",
              "unsqueeze", "view"):
    copy_of(_name, _name, "a tensor")
for _name in ("split", "split_with_sizes", "unbind"):
    copy_of(_name, _name, "a tuple of tensors")
for _name in ("alias", "detach"):
    copy_of(_name, "detach" if _name == "detach" else "clone", "a tensor")


@composed("method")
def narrow_copy(self: Tensor, dim: int, start, length: int) -> Tensor:
    """`narrow` with memory of its own."""
    return self.narrow(dim, start, length).clone(memory_format=_core.contiguous_format)


@composed("function")
def detach(input: Tensor) -> Tensor:
    """`input.detach()`."""
    return tensor_arg(input, "detach").detach()


@composed("method")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape."""
    return self.shape == tensor_arg(other, "is_same_size", "other").shape


@composed("function method")
def is_nonzero(input: Tensor) -> bool:
    """The only element as a bool.

    Raises
    ------
    RuntimeError
        `input` has no element, or several.
    """
    return bool(tensor_arg(input, "is_nonzero"))


@composed("function method")
def get_device(input: Tensor) -> int:
    """The number of the CUDA device; -1 for a tensor in the memory of the processor."""
    return input.device.index if tensor_arg(input, "get_device").is_cuda else -1

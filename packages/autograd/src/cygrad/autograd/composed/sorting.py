"""Sorting by places, distinct elements, membership."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor
from . import composed


@composed("function method out_same")
def argsort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """Places of the elements along `dim` in order, as `sort` gives them; always stable."""
    return _core.sort(input, dim, descending, stable=stable)[1]


@composed("function method out_same")
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dimension."""
    return _core.sort(input, 0)[0]


def whole_or_part(ones, inverse, counts):
    """A result alone, or the tuple of those that were asked for."""
    more = tuple(r for r in (inverse, counts) if r is not None)
    return (ones, *more) if more else ones


def runs(new, want_inverse, want_counts):
    """Runs of equal neighbours, given where a new one begins.

    Parameters
    ----------
    new : Tensor
        1-d, of bool; True at the first place of each run.
    want_inverse, want_counts : bool

    Returns
    -------
    starts : Tensor
        The first place of each run.
    inverse : Tensor or None
        The run of each place.
    counts : Tensor or None
        The length of each run.
    """
    starts = _core.nonzero(new).flatten()
    inverse = new.cumsum(0) - 1 if want_inverse else None
    counts = None
    if want_counts:
        ends = _core.cat([starts[1:], starts.new_full((min(1, len(starts)),), len(new))])
        counts = ends - starts
    return starts, inverse, counts


def differs_from_last(rows):
    """Whether each row (or element of a vector) differs from the one before it; the first one does."""
    new = _core.ones((rows.shape[0],), dtype=dtypes["bool"], device=rows.device)
    if len(new) > 1:
        other = rows[1:] != rows[:-1]
        new[1:] = other if rows.ndim == 1 else other.flatten(1).any(1)
    return new


def slices_first(input, dim):
    """`input` with dimension `dim` first, and as a matrix of its slices.

    Raises
    ------
    IndexError
        There is no such dimension.
    RuntimeError
        The slices are empty, but there are some of them.
    """
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    first = input.movedim(dim, 0).contiguous()      # the layout of what is picked from it, too
    if input.numel() == 0 and first.shape[0]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: shape "
            f"{list(input.shape)}, dim {dim}"
        )
    return first, first.reshape(first.shape[0], first[:0].numel() if first.shape[0] == 0 else -1)


def check_ordered(input):
    if input.dtype.is_complex:
        raise NotImplementedError(f"unique is not implemented for {input.dtype}")


@composed("function method")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements, or the distinct slices along `dim`, in order.

    Parameters
    ----------
    input : Tensor
        Every NaN is distinct from all others.
    sorted : bool
        The result is in order in any case.
    return_inverse : bool
        Also return where in the result each element of the input is, in the input's shape.
    return_counts : bool
        Also return how often each result occurs.
    dim : int, optional
        Compare slices along this dimension; by default all elements.

    Returns
    -------
    Tensor, or tuple of two or three
    """
    check_ordered(input)
    if dim is None:
        values, order = _core.sort(input.flatten(), 0)
        starts, inverse, counts = runs(differs_from_last(values), return_inverse, return_counts)
        if return_inverse:
            inverse = back_in_place(inverse, order).reshape(input.shape)
        return whole_or_part(values[starts], inverse, counts)
    first, rows = slices_first(input, dim)
    order = _core.order_of_rows(rows)
    starts, inverse, counts = runs(differs_from_last(rows[order]), return_inverse, return_counts)
    if return_inverse:
        inverse = back_in_place(inverse, order)
    return whole_or_part(first[order[starts]].movedim(0, dim), inverse, counts)


def back_in_place(values, order):
    """``y[order] = values``."""
    y = _core.empty_like(values)
    y[order] = values
    return y


@composed("function method")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """The first of each run of equal neighbours: of elements in row-major order, or of slices along `dim`.

    Parameters and results are those of `unique`.
    """
    check_ordered(input)
    if dim is None:
        flat = input.flatten()
        starts, inverse, counts = runs(differs_from_last(flat), return_inverse, return_counts)
        if return_inverse:
            inverse = inverse.reshape(input.shape)
        return whole_or_part(flat[starts], inverse, counts)
    first, rows = slices_first(input, dim)
    starts, inverse, counts = runs(differs_from_last(rows), return_inverse, return_counts)
    return whole_or_part(first[starts].movedim(0, dim), inverse, counts)


@composed("function out_same")
def isin(
    elements: Tensor | float | None = None,
    test_elements: Tensor | float | None = None,
    *,
    element: float | None = None,
    test_element: float | None = None,
    assume_unique: bool = False,
    invert: bool = False,
) -> Tensor:
    """Whether each of `elements` is among `test_elements`; one of the two may be a number.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        NaN is in no set.
    element, test_element : number
        Other names of the two, for numbers.
    assume_unique : bool
        No matter here.
    invert : bool
        Whether it is not among them.

    Raises
    ------
    RuntimeError
        A tensor is of bool or complex dtype.
    """
    x = elements if element is None else element
    among = test_elements if test_element is None else test_element
    if not isinstance(x, Tensor) and not isinstance(among, Tensor):
        raise TypeError(f"isin(): one argument must be Tensor, got {type(x).__name__} and {type(among).__name__}")
    for t in (x, among):
        if isinstance(t, Tensor) and (t.dtype == dtypes["bool"] or t.dtype.is_complex):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {t.dtype}")
    common = _core.result_type(x, among)
    place = (x if isinstance(x, Tensor) else among).device
    x, among = (t.detach().to(common) if isinstance(t, Tensor) else _core.tensor(t, dtype=common, device=place)
                for t in (x, among))
    among = among.flatten()
    if common.is_floating_point and not _core.is_batched(among):     # sorted last, NaN equals nothing
        among = among[among == among]
    if among.numel() == 0:
        return _core.full(x.shape, bool(invert), dtype=dtypes["bool"], device=x.device)
    among = _core.sort(among)[0]
    at = _core.searchsorted(among, x)
    found = among[at.clamp(max=len(among) - 1)] == x
    return ~found if invert else found

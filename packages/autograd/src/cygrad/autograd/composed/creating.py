"""Tensors of numbers that follow a rule, and functions that write."""

import warnings
from math import isfinite

from cygrad.storage.core import dtypes as _dtypes

from .. import _core
from .._core import Tensor
from . import composed
from ._args import dtype_arg, int_arg, tensor_arg


def number(x, function: str, argument: str):
    """A Python number, or the one that a tensor without dimensions holds."""
    if isinstance(x, Tensor):
        if x.dim():
            raise RuntimeError(f"{function}(): only supports 0-dimensional {argument} tensors, but got {x.dim()} "
                               "dimension(s)")
        return x.item()
    if isinstance(x, int | float | complex):
        return x
    raise TypeError(f"{function}(): argument '{argument}' must be Number or Tensor, not {type(x).__name__}")


@composed("function", name="range")
def closed_range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None,
                 requires_grad: bool = False) -> Tensor:
    """Numbers from `start` up to `end`, both included where they fit. PyTorch is to drop it: use `arange`.

    Parameters
    ----------
    start, end, step : number
    dtype : dtype, optional
        Default: the default dtype, for whole numbers too.

    Raises
    ------
    RuntimeError
        The step is 0 or does not lead from `start` to `end`, or one of them is not finite.
    NotImplementedError
        The dtype is bool or complex.
    """
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    start, end, step = (number(v, "range", name) for v, name in ((start, "start"), (end, "end"), (step, "step")))
    for v, name in ((start, "start"), (end, "end"), (step, "step")):
        if isinstance(v, complex):
            raise TypeError(f"range(): argument '{name}' must be a real number, not {v}")
    kind = dtype or (_core.get_default_dtype() if out is None else out.dtype)
    if kind is _dtypes["bool"] or kind.is_complex:
        raise NotImplementedError(f"range() is not implemented for {kind}")
    if step == 0:
        raise RuntimeError(f"range(): step must be nonzero, got start={start}, end={end}, step={step}")
    if not (isfinite(start) and isfinite(end)):
        raise RuntimeError(f"range(): unsupported range: {start} -> {end}")
    if (end < start) == (step > 0) and end != start:
        raise RuntimeError(f"range(): the sign of step {step} does not lead from {start} to {end}")
    warnings.warn("torch.range is deprecated, because it includes the end, which Python's range does not; use "
                  "torch.arange, whose range is [start, end).", UserWarning, stacklevel=3)
    if kind.is_floating_point:
        count = int((end - start) / step + 1)
        y = (_core.arange(count, dtype=_dtypes["float64"], layout=layout, device=device) * step + start).to(kind)
    else:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise RuntimeError(f"range(): the step is 0 as a number of {kind}")
        y = (_core.arange((end - start) // step + 1, layout=layout, device=device) * step + start).to(kind)
    y = y.requires_grad_() if requires_grad else y
    return y if out is None else _core.deliver(y, out)


@composed("function")
def logspace(start, end, steps: int, base: float = 10.0, *, out=None, dtype=None, device=None, layout=None,
             requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """Powers of `base` with evenly spaced exponents.

    Parameters
    ----------
    start, end : number, or Tensor without dimensions
        The first and the last exponent.
    steps : int
    base : float
    dtype : dtype, optional
        Default: the default dtype.

    Raises
    ------
    RuntimeError
        A negative number of steps.
    """
    start, end = number(start, "logspace", "start"), number(end, "logspace", "end")
    dtype = dtype_arg(dtype) if dtype is not None or out is None else out.dtype
    if out is not None and out.dtype is not dtype:
        raise RuntimeError(f"logspace(): dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    if not (dtype.is_floating_point or dtype.is_complex):
        start, end = int(start), int(end)
    if int_arg(steps, "logspace", "steps") < 0:
        raise RuntimeError(f"logspace(): number of steps must be non-negative, got {steps}")
    wide = _dtypes["complex128" if dtype.is_complex else "float64"]
    exponents = _core.linspace(start, end, steps, dtype=wide, layout=layout, device=device)
    y = _core.pow(base, exponents).to(dtype)
    y = (y.pin_memory() if pin_memory else y).requires_grad_(requires_grad)
    return y if out is None else _core.deliver(y, out)


def indices(function: str, row, col, offset, dtype, device, layout, below: bool, pin_memory: bool) -> Tensor:
    """(2, n): rows and columns of the entries of a triangle, row by row."""
    row, col, offset = int_arg(row, function, "row"), int_arg(col, function, "col"), int_arg(offset, function, "offset")
    for name, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{function}(): {name} must be non-negative, got {n}")
    distance = _core.arange(col, layout=layout, device=device) - _core.arange(row, device=device).unsqueeze(1)
    inside = distance <= offset if below else distance >= offset
    found = inside.nonzero().t().contiguous()
    found = found if dtype is None else found.to(dtype)
    return found.pin_memory() if pin_memory else found


@composed("function")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype=None, device=None, layout=None,
                 pin_memory: bool = False) -> Tensor:
    """Where the entries of the lower triangle of a (row, col) matrix are: (2, n), rows and columns, row by row.

    Parameters
    ----------
    row, col : int
    offset : int
        The diagonal up to which the triangle reaches; positive: above the main one.
    dtype : dtype, optional
        Default: int64.
    """
    return indices("tril_indices", row, col, offset, dtype, device, layout, True, pin_memory)


@composed("function")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype=None, device=None, layout=None,
                 pin_memory: bool = False) -> Tensor:
    """Where the entries of the upper triangle of a (row, col) matrix are: (2, n), rows and columns, row by row.

    Parameters
    ----------
    row, col : int
    offset : int
        The diagonal from which the triangle starts; positive: above the main one.
    dtype : dtype, optional
        Default: int64.
    """
    return indices("triu_indices", row, col, offset, dtype, device, layout, False, pin_memory)


@composed("function")
def scalar_tensor(s, *, dtype=None, device=None, layout=None, requires_grad: bool = False,
                  pin_memory: bool = False) -> Tensor:
    """A number as a tensor without dimensions, of the default dtype unless another is given."""
    dtype = _core.get_default_dtype() if dtype is None else dtype
    return _core.full((), s, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad,
                      pin_memory=pin_memory)


@composed("function")
def fill(input: Tensor, value) -> Tensor:
    """A copy of `input` with every element replaced by `value`, a number or a tensor without dimensions."""
    return tensor_arg(input, "fill").clone().fill_(value)


@composed("function")
def fill_(input: Tensor, value) -> Tensor:
    """`input.fill_(value)`."""
    return tensor_arg(input, "fill_").fill_(value)


@composed("function")
def zero_(input: Tensor) -> Tensor:
    """`input.zero_()`."""
    return tensor_arg(input, "zero_").zero_()


@composed("function")
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format=None) -> Tensor:
    """`input.resize_as_(the_template)`."""
    return tensor_arg(input, "resize_as_").resize_as_(the_template, memory_format=memory_format)


@composed("method")
def fill_diagonal_(self: Tensor, fill_value, wrap: bool = False) -> Tensor:
    """Writes a number to the main diagonal, in place.

    Parameters
    ----------
    fill_value : number
    wrap : bool
        Whether the diagonal of a tall matrix starts again after as many rows as there are columns, and one more.

    Raises
    ------
    RuntimeError
        Fewer than two dimensions, or more of different sizes.
    """
    if self.dim() < 2:
        raise RuntimeError(f"fill_diagonal_(): dimensions must larger than 1, got shape {list(self.shape)}")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("fill_diagonal_(): all dimensions of input must be of equal length, got shape "
                           f"{list(self.shape)}")
    step, n = sum(self.stride()), min(self.shape)
    self.as_strided((n,), (step,)).fill_(fill_value)
    height, width = self.shape[:2]
    if wrap and self.dim() == 2 and height > width + 1 and width:
        # Element k of the wrapped diagonal lies in row k + k // width, for a row is left out after each square.
        fill_diagonal_(self[width + 1 :], fill_value, True)
    return self


@composed("function")
def vander(x: Tensor, N=None, increasing: bool = False) -> Tensor:
    """Powers of a vector as columns, the highest first unless `increasing`.

    Parameters
    ----------
    x : Tensor
        (m,).
    N : int, optional
        Number of columns; default m.
    """
    tensor_arg(x, "vander", "x")
    if x.dim() != 1:
        raise RuntimeError(f"vander(): x must be a one-dimensional tensor, got shape {list(x.shape)}")
    n = x.shape[0] if N is None else int_arg(N, "vander", "N")
    if n < 0:
        raise RuntimeError(f"vander(): N must be non-negative, got {n}")
    kind = x if x.dtype.is_floating_point or x.dtype.is_complex else x.long()
    powers = (_core.arange(n) if increasing else _core.arange(n - 1, -1, -1)).to(x.device)
    return kind.unsqueeze(1) ** powers.to(_dtypes["int64"])

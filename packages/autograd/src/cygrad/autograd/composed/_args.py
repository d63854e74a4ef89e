"""Checks of arguments that compositions share."""

from cygrad.storage.core import dtype as DType

from .._core import Tensor, empty

Number = int | float | complex


def wrong(function: str, argument: str, wanted: str, got) -> TypeError:
    """The error for an argument of a wrong type."""
    return TypeError(f"{function}(): argument '{argument}' must be {wanted}, not {type(got).__name__}")


def tensor_arg(x, function: str, argument: str = "input") -> Tensor:
    """`x`, which has to be a tensor."""
    if not isinstance(x, Tensor):
        raise wrong(function, argument, "Tensor", x)
    return x


def tensors_arg(xs, function: str, argument: str = "tensors") -> tuple:
    """`xs` as a tuple, which has to hold tensors only."""
    if isinstance(xs, Tensor) or not isinstance(xs, list | tuple):
        raise wrong(function, argument, "tuple of Tensors", xs)
    for i, x in enumerate(xs):
        if not isinstance(x, Tensor):
            raise TypeError(f"{function}(): expected Tensor as element {i} in argument '{argument}', but got "
                            f"{type(x).__name__}")
    return tuple(xs)


def int_arg(n, function: str, argument: str) -> int:
    """`n` as an int; a bool is none."""
    if type(n) is int:
        return n
    if not isinstance(n, bool) and hasattr(n, "__index__"):
        try:
            return n.__index__()
        except TypeError:
            pass
    raise wrong(function, argument, "int", n)


def ints_arg(ns, function: str, argument: str) -> tuple[int, ...]:
    """`ns` as a tuple of ints."""
    if not isinstance(ns, list | tuple):
        raise wrong(function, argument, "tuple of ints", ns)
    return tuple(int_arg(n, function, argument) for n in ns)


def dtype_arg(dtype) -> DType:
    """`dtype` as a dtype: None is the default one, and Python's own types name some."""
    return dtype if isinstance(dtype, DType) else empty(0, dtype=dtype).dtype


def sizes_arg(sizes: tuple, function: str, argument: str = "size") -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], list | tuple):
        sizes = sizes[0]
    return ints_arg(sizes, function, argument)


def wrap_dim(dim, ndim: int, function: str, argument: str = "dim") -> int:
    """`dim` counted from the first dimension; a tensor without dimensions is treated as having one."""
    dim, n = int_arg(dim, function, argument), max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(f"{function}(): Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got "
                         f"{dim})")
    return dim % n

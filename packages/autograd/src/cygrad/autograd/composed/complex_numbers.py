"""Complex numbers: parts, conjugates, and making them from real ones."""

from .._core import Tensor, cos, logical_and, row_call, sin, stack, view_as_complex
from . import composed
from .views import broadcast_tensors


def tensor_named(value, name, argument="input"):
    """`value`, checked to be a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(value).__name__}")
    return value


@composed("function")
def real(input: Tensor) -> Tensor:
    """The real part: a view of a complex tensor, a real tensor itself."""
    return tensor_named(input, "real").real


@composed("function")
def imag(input: Tensor) -> Tensor:
    """The imaginary part, a view of a complex tensor; RuntimeError for a real one."""
    return tensor_named(input, "imag").imag


@composed("function method out")
def angle(input: Tensor) -> Tensor:
    """The angle in the complex plane, from -pi to pi; of real numbers 0, or pi for negative ones."""
    # PyTorch lays angles of complex numbers out by rows, whatever the layout of the numbers.
    return row_call("angle_kept", (input.contiguous() if tensor_named(input, "angle").is_complex() else input,))


@composed("function method")
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are never left for later here."""
    return tensor_named(input, "resolve_conj")


@composed("function method")
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negatives are never left for later here."""
    return tensor_named(input, "resolve_neg")


@composed("function method")
def is_conj(input: Tensor) -> bool:
    """False: conjugates are never left for later here."""
    tensor_named(input, "is_conj")
    return False


@composed("function method")
def is_neg(input: Tensor) -> bool:
    """False: negatives are never left for later here."""
    tensor_named(input, "is_neg")
    return False


@composed("function method")
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions swapped, and conjugated."""
    if tensor_named(input, "adjoint").dim() < 2:
        raise RuntimeError(f"adjoint() wants a matrix or a batch of matrices, got {input.dim()} dimensions")
    return input.mH


def check_parts(a, b, name, arguments):
    """Two real tensors of one floating dtype."""
    for value, argument in zip((a, b), arguments, strict=True):
        tensor_named(value, name, argument)
    for value, argument in zip((a, b), arguments, strict=True):
        if not value.dtype.is_floating_point:
            raise RuntimeError(f"{name}(): '{argument}' must be of float32 or float64, but is of {value.dtype}")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}(): tensors of one dtype are wanted, but '{arguments[0]}' is of {a.dtype} and "
                           f"'{arguments[1]}' of {b.dtype}")
    a.dtype.to_complex()                   # refuses float16
    if a.dtype.itemsize < 4:
        raise RuntimeError(f"{name}(): there is no complex dtype with parts of {a.dtype}")


def of_parts(re, im):
    """Complex numbers of real tensors of one dtype, which broadcast; in the layout that they share."""
    order = None
    if not (re.shape == im.shape and re.is_contiguous() and im.is_contiguous()):
        strides = logical_and(re.detach(), im.detach()).stride()
        re, im = broadcast_tensors(re, im)
        order = sorted(range(re.dim()), key=lambda d: (-strides[d], d))
        re, im = re.permute(order), im.permute(order)
    y = view_as_complex(stack([re, im], re.dim()))
    return y if order is None else y.permute([order.index(d) for d in range(y.dim())])


@composed("function out_same", name="complex")
def complex_(real: Tensor, imag: Tensor) -> Tensor:
    """Complex numbers of real and imaginary parts.

    Parameters
    ----------
    real, imag : Tensor
        Of one dtype, float32 or float64; they broadcast.

    Returns
    -------
    Tensor
        Of complex64 or complex128.

    Raises
    ------
    RuntimeError
        Other dtypes, or shapes that do not broadcast.
    """
    check_parts(real, imag, "complex", ("real", "imag"))
    return of_parts(real, imag)


@composed("function out_same")
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Complex numbers of absolute values and angles in radians.

    Parameters
    ----------
    abs, angle : Tensor
        Of one dtype, float32 or float64; they broadcast.

    Raises
    ------
    RuntimeError
        Other dtypes, or shapes that do not broadcast.
    """
    check_parts(abs, angle, "polar", ("abs", "angle"))
    return of_parts(abs * cos(angle), abs * sin(angle))

"""What the operations of linear algebra share: checks of matrices, batches that broadcast, triangles, failures.

Formulas follow PyTorch's convention for complex numbers: the gradient of a real loss L by a complex A is the G for
which ``dL = Re(trace(G^H dA))``.
"""

from math import prod

from cygrad.storage.core import dtypes

from .._core import FunctionCtx, Tensor, arange, where, whole_batch
from ..function import Function


class LinAlgError(RuntimeError):
    """A matrix for which there is no result: singular, not positive-definite, or one whose iteration did not end."""


class Step(Function):
    """An operation of linear algebra as one node of the graph, named as PyTorch names it; its formulas are made of
    tensor operations, so that gradients of gradients need nothing more."""

    generate_vmap_rule = True
    _transposed = True

    def __init_subclass__(cls):
        cls._backward_cls = type(cls.__name__ + "Backward0", (FunctionCtx,), {"__module__": "torch.autograd.function"})


# ---- checks


def type_word(x):
    """PyTorch's word for a dtype in messages."""
    words = {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
             "uint8": "Byte", "bool": "Bool", "float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
             "complex128": "ComplexDouble"}
    name = str(x.dtype).rpartition(".")[2]
    return words.get(name, name)


def check_tensor(x, name, arg):
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor, not {type(x).__name__}")


def check_float(x, name, low=False):
    """`x` has real or complex floating-point elements, and no half precision unless `low`."""
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {type_word(x)}")
    if not low and x.itemsize < 4:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_word(x)}")


def check_matrix(x, name, arg="A", low=False):
    check_tensor(x, name, arg)
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {arg} must have at least 2 dimensions, but has shape "
                           f"{list(x.shape)}.")
    check_float(x, name, low)


def check_square(x, name, arg="A"):
    check_matrix(x, name, arg)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: {arg} must be batches of square matrices, but they are {x.shape[-2]} by "
                           f"{x.shape[-1]} matrices")


def check_alike(a, b, name, first="A", second="B"):
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type "
                           f"{type_word(a)} and {second} of type {type_word(b)} instead")


def raise_failed(info, name, text):
    """LinAlgError for the first item whose `info` is not 0; `text` has a place for that number."""
    info = whole_batch(info)
    if not info.any().item():
        return
    for i, code in enumerate(info.reshape(-1).tolist()):
        if code:
            item = f"(Batch element {i}): " if info.ndim else ""
            raise LinAlgError(f"{name}: {item}{text.format(code)}")


SINGULAR = ("The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
            "singular.")
NOT_POSITIVE = ("The factorization could not be completed because the input is not positive-definite (the leading "
                "minor of order {} is not positive-definite).")


# ---- shapes


def mT(x):
    return x.transpose(-2, -1)


def mH(x):
    """The conjugate transpose."""
    return x.transpose(-2, -1).conj() if x.is_complex() else x.transpose(-2, -1)


def conj(x):
    return x.conj() if x.is_complex() else x


def real(x):
    return x.real if x.is_complex() else x


def diagonal(x):
    return x.diagonal(0, -2, -1)


def columns(x):
    """`x` with its last two dimensions column-major."""
    return mT(mT(x).contiguous()) if x.ndim > 1 else x


def broadcast_shape(a, b):
    """The shape that both broadcast to."""
    n = max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    for d, (i, j) in enumerate(zip(a, b, strict=True)):
        if i != j and i != 1 and j != 1:
            raise RuntimeError(f"The size of tensor a ({i}) must match the size of tensor b ({j}) at non-singleton "
                               f"dimension {d}")
    return tuple(j if i == 1 else i for i, j in zip(a, b, strict=True))


def expand_batch(x, batch):
    """Matrices with another batch shape, without copying."""
    return x if tuple(x.shape[:-2]) == batch else x.expand(*batch, *x.shape[-2:])


def one_batch(a, b):
    """Two stacks of matrices over the batch that both broadcast to."""
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    return expand_batch(a, batch), expand_batch(b, batch)


def is_vector(a, b):
    """Whether the right-hand side `b` of systems with the matrices `a` means vectors, one a system."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))


def numel(shape):
    return prod(shape)


# ---- triangles and diagonals


def zero(x):
    return x.detach().new_zeros(())


def diag_embed(x):
    """Square matrices with these diagonals."""
    n = arange(x.shape[-1], device=x.device)
    return where(n.unsqueeze(-1) == n, x.unsqueeze(-1), zero(x))


def identity(like, n):
    """n x n, of the dtype of `like`."""
    return diag_embed(like.detach().new_ones(n))


def epsilon(x):
    """Distance from 1 to the next number of the dtype of `x`."""
    return 2.0**-52 if x.dtype.itemsize == (16 if x.is_complex() else 8) else 2.0**-23


# ---- dtypes


def int32():
    return dtypes["int32"]


def int64():
    return dtypes["int64"]

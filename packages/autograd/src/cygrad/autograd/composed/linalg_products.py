"""Products of vectors, matrices and chains of them; tensordot, kron, cross."""

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor, as_factor, as_scale, bmm, deliver, dot, matmul, mm, mv, result_type, stack, where
from . import composed
from ._args import Number
from .linalg_base import (
    broadcast_shape,
    check_alike,
    check_float,
    check_tensor,
    conj,
    numel,
    type_word,
)

# ---- a product added to something


def blended(c, product, beta, alpha, name, joint=False):
    """``beta * c + alpha * product``; with beta 0 nothing of c counts, NaN neither. `joint`: in the layout of c."""
    beta, alpha = (as_factor(v, product, name, arg) for v, arg in ((beta, "beta"), (alpha, "alpha")))
    y = product if alpha == 1 else product * alpha
    if beta == 0:
        return where((product.detach() != product.detach()) & False, c, y) if c.requires_grad else y
    c = c if beta == 1 else c * beta
    return c + y if joint else y + c


def same_types(name, *tensors):
    if any(t.dtype != tensors[0].dtype for t in tensors):
        raise RuntimeError(f"{name} input tensors must have the same dtype, but got "
                           f"{', '.join(type_word(t) for t in tensors)}")


def in_place(function):
    """The method with an underscore: `function` written over its first argument."""

    def method(self, *args, **kwargs):
        y = function(self, *args, **kwargs)
        if y.shape != self.shape:
            raise RuntimeError(f"{function.__name__}_: output with shape {list(self.shape)} doesn't match the "
                               "broadcast "
                               f"shape {list(y.shape)}")
        return self.copy_(y)

    method.__name__ = method.__qualname__ = function.__name__ + "_"
    method.__doc__ = f"In-place `{function.__name__}`."
    return composed("method")(method) and function


def fits(c, shape, name):
    """`c` broadcasts to the shape of the product."""
    if broadcast_shape(c.shape, shape) != tuple(shape):
        raise RuntimeError(f"{name}: input of shape {list(c.shape)} does not broadcast to {list(shape)}")


@in_place
@composed("function method out_same")
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * mat @ vec``."""
    for x, word in ((input, "input"), (mat, "mat"), (vec, "vec")):
        check_tensor(x, "addmv", word)
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError("vector + matrix @ vector expected, got "
                           f"{input.ndim}, {mat.ndim}, {vec.ndim}")
    if mat.shape[1] != vec.shape[0] or (input.numel() != 1 and input.shape[0] != mat.shape[0]):
        raise RuntimeError(f"size mismatch, got input ({input.numel()}), mat ({mat.shape[0]}x{mat.shape[1]}), vec "
                           f"({vec.shape[0]})")
    same_types("addmv", input, mat, vec)
    return blended(input, mv(mat, vec), beta, alpha, "addmv")


def check_batches(name, a, b):
    for x, word in ((a, "batch1"), (b, "batch2")):
        check_tensor(x, name, word)
        if x.ndim != 3:
            raise RuntimeError(f"{word} must be a 3D tensor, got shape {list(x.shape)}")
    if b.shape[0] != a.shape[0] or b.shape[1] != a.shape[2]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
                           f"{a.shape[2]}] but "
                           f"got: [{b.shape[0]}, {b.shape[1]}].")


@in_place
@composed("function method out_same")
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1,
            out_dtype=None) -> Tensor:
    """``beta * input + alpha * batch1 @ batch2``, item by item."""
    check_tensor(input, "baddbmm", "input")
    check_batches("baddbmm", batch1, batch2)
    same_types("baddbmm", input, batch1, batch2)
    fits(input, (batch1.shape[0], batch1.shape[1], batch2.shape[2]), "baddbmm")
    return blended(input, bmm(batch1, batch2), beta, alpha, "baddbmm")


@in_place
@composed("function method out_same")
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha *`` the sum of the items' products: one product of matrices laid side by side."""
    check_tensor(input, "addbmm", "input")
    check_batches("addbmm", batch1, batch2)
    same_types("addbmm", input, batch1, batch2)
    count, n, m = batch1.shape
    p = batch2.shape[2]
    fits(input, (n, p), "addbmm")
    product = mm(batch1.permute(1, 0, 2).reshape(n, count * m), batch2.reshape(count * m, p))
    return blended(input, product, beta, alpha, "addbmm")


@in_place
@composed("function method out")
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha *`` the outer product of two vectors."""
    for x, word in ((input, "input"), (vec1, "vec1"), (vec2, "vec2")):
        check_tensor(x, "addr", word)
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise RuntimeError(f"addr: Expected 1-D argument vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D")
    fits(input, (vec1.shape[0], vec2.shape[0]), "addr")
    product = vec1.unsqueeze(1) * vec2
    product = product.to(result_type(input, product))
    real = {type(beta), type(alpha)} <= {int, float, bool}
    take = as_scale if real or not product.is_floating_point() else as_factor
    beta, alpha = (take(v, product, "addr", arg) for v, arg in ((beta, "beta"), (alpha, "alpha")))
    if product.dtype is dtypes["bool"]:
        product = product & alpha
        return (input & beta) | product if beta else product
    return blended(input, product, beta, alpha, "addr", True)


@in_place
@composed("")
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    return _core.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


# ---- vectors


@composed("function method out_same")
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Inner product of two vectors, the first one conjugated."""
    check_tensor(input, "vdot", "input")
    check_tensor(other, "vdot", "other")
    return dot(conj(input), other)


@composed("function method out")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of an element of one vector and one of the other."""
    check_tensor(input, "outer", "input")
    check_tensor(vec2, "outer", "vec2")
    for x, word in ((input, "self"), (vec2, "vec2")):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {word}, but got {x.ndim}-D")
    return input.unsqueeze(1) * vec2


composed("function method out", name="ger")(outer)


@composed("function", name="inner")
def function_inner(input: Tensor, other: Tensor, *, out=None) -> Tensor:
    """See `Tensor.inner`."""
    y = inner(input, other)
    return y if out is None else deliver(y, out, bool(input.ndim and other.ndim))


@composed("method")
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Products summed over the last dimensions of both; with a 0-d tensor, just the product."""
    check_tensor(input, "inner", "input")
    check_tensor(other, "inner", "other")
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError("inner() the last dimension must match on both input tensors but got shapes "
                           f"{list(input.shape)} and {list(other.shape)}")
    return tensordot(input, other, ([-1], [-1]))


@composed("linalg out")
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Inner products of vectors along `dim`, the first one conjugated."""
    name = "linalg.vecdot"
    check_tensor(x, name, "x")
    check_tensor(y, name, "y")
    check_float(x, name, low=True)
    check_alike(x, y, name, "x", "y")
    if x.ndim == 1 and y.ndim == 1 and dim in (0, -1):
        return vdot(x, y)
    return (conj(x) * y).sum(dim)


def cross_of(a, b, dim, name):
    n = a.ndim
    if a.ndim != b.ndim:
        raise RuntimeError(f"{name}: inputs must have the same number of dimensions, got shapes {list(a.shape)} and "
                           f"{list(b.shape)}.")
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise RuntimeError(f"{name}: inputs dimension {dim} must have length 3. Got {a.shape[dim]} and {b.shape[dim]}")
    if a.dtype != b.dtype:
        raise RuntimeError(f"expected scalar type {type_word(a)} but found {type_word(b)}")
    if str(a.dtype).endswith("bool"):
        raise NotImplementedError('"cross" not implemented for \'Bool\'')
    shape = broadcast_shape(a.shape, b.shape)
    a0, a1, a2 = (a.select(dim, i) for i in range(3))
    b0, b1, b2 = (b.select(dim, i) for i in range(3))
    return stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], dim % len(shape))


@composed("linalg out_same", name="cross")
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of vectors of length 3 along `dim`."""
    check_tensor(input, "linalg.cross", "input")
    check_tensor(other, "linalg.cross", "other")
    return cross_of(input, other, dim, "linalg.cross")


@composed("function method out_same")
def cross(input: Tensor, other: Tensor, dim=None) -> Tensor:
    """Cross products along `dim`, by default the first dimension of size 3; see `linalg.cross`."""
    check_tensor(input, "cross", "input")
    check_tensor(other, "cross", "other")
    if dim is None:
        dim = next((d for d, size in enumerate(input.shape) if size == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return cross_of(input, other, dim, "linalg.cross")


# ---- tensors


def contracted(dims, ndim, which):
    dims = [dims] if isinstance(dims, int) else list(dims)
    found = []
    for d in dims:
        if not isinstance(d, int):
            raise TypeError(f"tensordot(): dims must be ints, got {type(d).__name__}")
        if not -max(ndim, 1) <= d < max(ndim, 1):
            raise IndexError(f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, "
                             f"{max(ndim, 1) - 1}], but "
                             f"got {d})")
        if d % max(ndim, 1) in found:
            raise RuntimeError(f"dim {d % max(ndim, 1)} appears multiple times in the list of dims")
        found.append(d % max(ndim, 1))
    return found


@composed("function")
def tensordot(a: Tensor, b: Tensor, dims=2, out=None) -> Tensor:
    """Products summed over several dimensions of both tensors: one product of matrices.

    Parameters
    ----------
    a, b : Tensor
        Operands.
    dims : int or (sequence of int, sequence of int)
        How many of a's last and b's first dimensions are summed over, or which ones.
    """
    check_tensor(a, "tensordot", "a")
    check_tensor(b, "tensordot", "b")
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (tuple, list)) and len(dims) == 1 and isinstance(dims[0], int):
        dims = dims[0]
    if isinstance(dims, (tuple, list)):
        if len(dims) != 2:
            raise RuntimeError(f"tensordot expects dims to be int or two lists of int, but got {dims!r}")
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
        if len(first) != len(second):
            raise RuntimeError(f"both dimension lists should have same length, got {len(first)} and {len(second)}")
    else:
        dims = int(dims)
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    if a.dtype != b.dtype:
        raise RuntimeError(f"both inputs should have same dtype, got {a.dtype} and {b.dtype}")
    y = contract(a, b, contracted(first, a.ndim, 0), contracted(second, b.ndim, 1))
    return y if out is None else deliver(y, out, True)


def contract(a, b, first, second):
    """Sum over a's dimensions `first`, paired with b's `second`; a dimension of size 1 pairs with any."""
    for i, j in zip(first, second, strict=True):
        if a.shape[i] == 1 and b.shape[j] != 1:
            b = b.sum(j, True, dtype=b.dtype)
        elif b.shape[j] == 1 and a.shape[i] != 1:
            a = a.sum(i, True, dtype=a.dtype)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
                               "second "
                               f"has size {b.shape[j]} in dim {j}")
    rows, cols = ([d for d in range(x.ndim) if d not in gone] for x, gone in ((a, first), (b, second)))
    shape = [a.shape[d] for d in rows] + [b.shape[d] for d in cols]
    inner_size = numel(a.shape[i] for i in first)
    left = (a.permute(*rows, *first) if a.ndim else a).reshape(numel(a.shape[d] for d in rows), inner_size)
    right = (b.permute(*second, *cols) if b.ndim else b).reshape(inner_size, numel(b.shape[d] for d in cols))
    return mm(left, right).reshape(shape)


@composed("function method out")
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: each element of `input` times all of `other`, block by block."""
    check_tensor(input, "kron", "input")
    check_tensor(other, "kron", "other")
    n = max(input.ndim, other.ndim)
    left = (1,) * (n - input.ndim) + tuple(input.shape)
    right = (1,) * (n - other.ndim) + tuple(other.shape)
    a = input.reshape([s for size in left for s in (size, 1)])
    b = other.reshape([s for size in right for s in (1, size)])
    return (a * b).reshape([i * j for i, j in zip(left, right, strict=True)])


# ---- chains


def best_split(sizes):
    """Where to split each run of a chain of matrices for the fewest multiplications.

    Matrix i is ``sizes[i]`` by ``sizes[i + 1]`` (T. Cormen et al., Introduction to Algorithms, section 15.2).
    """
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min((cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                                          for k in range(i, j))
    return split


def chain(matrices, split, i, j):
    if i == j:
        return matrices[i]
    k = split[i][j]
    return mm(chain(matrices, split, i, k), chain(matrices, split, k + 1, j))


@composed("linalg out_same")
def multi_dot(tensors) -> Tensor:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors."""
    tensors = list(tensors)
    for i, t in enumerate(tensors):
        check_tensor(t, "linalg_multi_dot", f"tensors[{i}]")
    n = len(tensors)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    for i, t in enumerate(tensors):
        if i in (0, n - 1) and t.ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {'first' if i == 0 else 'last'} tensor must be 1D or 2D but got "
                               f"{t.ndim}D")
        if 0 < i < n - 1 and t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError("multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                               f"{tensors[0].dtype} and "
                               f"tensor {i} {t.dtype}")
    first, last = tensors[0].ndim == 1, tensors[-1].ndim == 1
    matrices = list(tensors)
    if first:
        matrices[0] = matrices[0].unsqueeze(0)
    if last:
        matrices[-1] = matrices[-1].unsqueeze(-1)
    for i in range(n - 1):
        if matrices[i].shape[1] != matrices[i + 1].shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].shape)} and "
                               f"{list(tensors[i + 1].shape)} cannot be multiplied")
    y = chain(matrices, best_split([matrices[0].shape[0], *(t.shape[1] for t in matrices)]), 0, n - 1)
    return y.reshape([*([] if first else [y.shape[0]]), *([] if last else [y.shape[1]])]) if first or last else y


@composed("function")
def chain_matmul(*matrices, out=None) -> Tensor:
    """The product of matrices in the cheapest order; see `linalg.multi_dot`."""
    for i, t in enumerate(matrices):
        check_tensor(t, "chain_matmul", f"matrices[{i}]")
        if t.ndim != 2:
            raise RuntimeError(f"chain_matmul: Tensor {i} is {t.ndim}-D, expected 2-D")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    y = matrices[0] if len(matrices) == 1 else multi_dot(matrices)
    return y if out is None else deliver(y, out, True)


# ---- under the names of linalg


@composed("linalg out_same", name="matmul")
def linalg_matmul(input: Tensor, other: Tensor) -> Tensor:
    """See `matmul`."""
    return matmul(input, other)


@composed("linalg", name="diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of matrices, as the last dimension."""
    check_tensor(A, "linalg.diagonal", "A")
    return A.diagonal(offset, dim1, dim2)

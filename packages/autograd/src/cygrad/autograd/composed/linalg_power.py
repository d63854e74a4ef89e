"""Powers and the exponential of matrices; Vandermonde matrices."""

from cygrad.storage.core import dtypes

from .._core import Tensor, cat, matmul, where, whole_batch
from . import composed
from .linalg_base import Step, check_square, check_tensor, expand_batch, identity, mH, type_word
from .linalg_solve import LinalgSolveEx, inverse_of


def power(a, n, name):
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"{name}(): argument 'n' must be int, not {type(n).__name__}")
    check_tensor(a, name, "A")
    if a.ndim < 2:
        raise RuntimeError(f"linalg.matrix_power: The input tensor A must have at least 2 dimensions, but has shape "
                           f"{list(a.shape)}.")
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, but they are {a.shape[-2]} by "
                           f"{a.shape[-1]} matrices")
    if n == 0:
        y = a.clone()
        y.copy_(identity(a, a.shape[-1]))
        return y
    if n < 0:
        a, n = inverse_of(a, "linalg.inv"), -n
    if n == 1:
        return a.clone()
    y = None
    while True:                        # by the bits of n
        if n & 1:
            y = a if y is None else matmul(y, a)
        n >>= 1
        if not n:
            return y
        a = matmul(a, a)


@composed("linalg out", name="matrix_power")
def linalg_matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-th power of square matrices; of their inverses for negative n."""
    return power(A, n, "linalg.matrix_power")


@composed("function method out")
def matrix_power(input: Tensor, n: int) -> Tensor:
    """See `linalg.matrix_power`."""
    return power(input, n, "matrix_power")


# Coefficients of the numerator of the [13/13] Pade approximant to exp, lowest power first, and the norm up to which it
# is exact to double precision (N. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J.
# Matrix Anal. Appl. 26, 2005, table 2.3 and equation 2.3).
PADE = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600,
        670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
REACH = 5.371920351148152


class LinalgMatrixExp(Step):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        # In double: squaring loses digits where large powers cancel, and single precision has too few of them.
        return exponential(a) if a.element_size() == (16 if a.is_complex() else 8) else exponential(wide(a)).to(a.dtype)

    @staticmethod
    def backward(ctx, g):
        # exp of [[A^H, G], [0, A^H]] has the derivative in direction G as its upper right block (Higham, Functions of
        # Matrices, 2008, theorem 3.6).
        a = mH(ctx.saved_tensors[0])
        n = a.shape[-1]
        top = cat([a, g], -1)
        bottom = cat([a.new_zeros(*a.shape), a], -1)
        return LinalgMatrixExp.apply(cat([top, bottom], -2))[..., :n, n:]


def wide(a):
    return a.to(dtypes["complex128" if a.is_complex() else "float64"])


def exponential(a):
    """Of each matrix: scaled by a power of 2 until the approximant is exact enough, then squared as often."""
    if not a.numel():
        return a.new_empty(*a.shape)
    norms = a.abs().sum(-2).amax(-1)
    halvings = (norms / REACH).log2().ceil()
    times = where(halvings.isfinite() & (halvings > 0), halvings, halvings.new_zeros(()))[..., None, None]
    most = int(whole_batch(times).max())
    if most:
        half = where(times > 1000, times - 1000, times.new_zeros(()))      # 2 ** -1023 is not normal: in two steps
        a = a * (2.0 ** -(times - half)).to(a.dtype) * (2.0**-half).to(a.dtype)
    x = pade(a, PADE)
    for k in range(most):
        x = where(times > k, matmul(x, x), x)
    return x


def pade(a, c):
    """(V - U)^-1 (V + U) with the odd powers in U and the even ones in V."""
    eye = expand_batch(identity(a, a.shape[-1]), tuple(a.shape[:-2]))
    squares = [eye, matmul(a, a)]
    for _ in range(2):
        squares.append(matmul(squares[1], squares[-1]))
    odd, even = (matmul(squares[3], sum(c[6 + 2 * i + k] * squares[i] for i in range(1, 4)))
                 + sum(c[2 * i + k] * squares[i] for i in range(4)) for k in (1, 0))
    odd = matmul(a, odd)
    return LinalgSolveEx.apply(even - odd, even + odd)[0].contiguous()


def matrix_exponential(a):
    check_tensor(a, "linalg.matrix_exp", "A")
    if not (a.is_floating_point() or a.is_complex()):
        raise RuntimeError("linalg.matrix_exp: Expected a floating point or complex tensor as input. Got "
                           f"{type_word(a)}")
    if a.is_floating_point() and a.element_size() == 2:
        return matrix_exponential(a.float()).to(a.dtype)
    check_square(a, "linalg.matrix_exp")
    return LinalgMatrixExp.apply(a)


@composed("function method")
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential of square matrices, by scaling and squaring (Higham 2005)."""
    return matrix_exponential(input)


@composed("linalg", name="matrix_exp")
def linalg_matrix_exp(A: Tensor) -> Tensor:
    """See `matrix_exp`."""
    return matrix_exponential(A)


@composed("linalg")
def vander(x: Tensor, *, N=None) -> Tensor:
    """Rows of powers 0 to N - 1 of each element (N: default the length of x)."""
    check_tensor(x, "linalg.vander", "x")
    x = x if x.ndim else x.unsqueeze(0)
    count = x.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1, got {count} for shape {list(x.shape)}.")
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    return cat([powers.detach().new_ones(*x.shape, 1), powers], -1)

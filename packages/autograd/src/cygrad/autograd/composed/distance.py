"""Distances between points."""

from .._core import Tensor, cat, matmul, where
from .._core import norm as plain_norm
from . import composed
from .linalg_base import Step, check_tensor, mT, numel, one_batch, type_word


class Cdist(Step):
    """Euclidean distances through one product of matrices."""

    @staticmethod
    def forward(ctx, a, b):
        squares = (a * a).sum(-1, True) + mT((b * b).sum(-1, True)) - 2 * matmul(a, mT(b))
        y = squares.clamp_min(0).sqrt()
        ctx.save_for_backward(a, b, y)
        return y

    @staticmethod
    def backward(ctx, g):
        a, b, y = ctx.saved_tensors
        some = y > 0
        w = where(some, g / where(some, y, y.new_ones(())), y.new_zeros(()))
        return w.sum(-1, True) * a - matmul(w, b), mT(w).sum(-1, True) * b - matmul(mT(w), a)


CDIST_MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")
CDIST_ELEMENTS = 1 << 23      # differences that are held at a time


@composed("function")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = CDIST_MODES[0]) -> Tensor:
    """p-norm distances between the rows of two batches of matrices.

    Parameters
    ----------
    x1, x2 : Tensor
        Shapes (*, n, m) and (*, k, m); batches broadcast.
    p : float
        Order of the norm, 0 to inf.
    compute_mode : str
        Whether Euclidean distances come from a product of matrices, which is quick but loses digits between close
        points: if there are more than 25 points, always, or never.

    Returns
    -------
    Tensor
        Shape (*, n, k). The gradient at equal points is 0.
    """
    check_tensor(x1, "cdist", "x1")
    check_tensor(x2, "cdist", "x2")
    if compute_mode not in CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for x, word in ((x1, "X1"), (x2, "X2")):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {word} got: {x.ndim}D")
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {word} got: {type_word(x)}")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if x1.dtype != x2.dtype:
        raise RuntimeError(f"expected scalar type {type_word(x1)} but found {type_word(x2)}")
    p = float(p)
    if not p >= 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    a, b = one_batch(x1, x2)
    n, k, m = a.shape[-2], b.shape[-2], a.shape[-1]
    shape = (*a.shape[:-1], k)
    if not numel(shape) or not m:
        return a.sum(-1, True) * 0 + mT(b.sum(-1, True)) * 0
    if p == 2 and (compute_mode == CDIST_MODES[1] or (compute_mode == CDIST_MODES[0] and max(n, k) > 25)):
        return Cdist.apply(a, b)
    rows = max(1, CDIST_ELEMENTS // max(1, numel(shape) // n * m))
    parts = [distances(a[..., i:i + rows, :], b, p) for i in range(0, n, rows)]
    return parts[0] if len(parts) == 1 else cat(parts, -2)


def distances(a, b, p):
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    return plain_norm(difference, p, -1)

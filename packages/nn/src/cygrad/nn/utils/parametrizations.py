"""Parametrizations of weights: orthogonal matrices, bounded spectral norm, length apart from direction."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import functional as F
from cygrad.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from cygrad.nn.modules.module import Module
from cygrad.nn.utils import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

MAPS = ("matrix_exp", "cayley", "householder")


def _is_orthogonal(q: Tensor) -> bool:
    rows, columns = q.shape[-2:]
    identity = cygrad.eye(columns, dtype=q.dtype, device=q.device)
    return cygrad.allclose(q.mH @ q, identity, atol=10.0 * rows * cygrad.finfo(q.dtype).eps)


def _made_orthogonal(a: Tensor) -> Tensor:
    """The orthogonal factor of a, whose triangular one has a positive diagonal: orthogonal matrices stay as they
    are."""
    reflectors, tau = cygrad.geqrf(a)
    q = cygrad.linalg.householder_product(reflectors, tau)
    return q * reflectors.diagonal(0, -2, -1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix as the image of any other under a map to orthogonal (or unitary) matrices.

    With a base, which is then a buffer, the map is multiplied with it: the original starts at the map's identity.
    Wide matrices are transposed tall ones.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, original: Tensor) -> Tensor:
        wide = original.shape[-2] < original.shape[-1]
        x = original.mT if wide else original
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._mapped(x)
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    def _mapped(self, x: Tensor) -> Tensor:
        """The first columns of the image of the skew matrix whose lower part x is."""
        rows, columns = x.shape[-2:]
        lower = x.tril()
        if rows != columns:
            lower = cygrad.cat([lower, lower.new_zeros(rows, rows - columns).expand(*x.shape[:-2], -1, -1)], -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            q = cygrad.matrix_exp(skew)
        else:
            identity = cygrad.eye(rows, dtype=skew.dtype, device=skew.device)
            q = cygrad.linalg.solve(
                cygrad.add(identity, skew, alpha=-0.5), cygrad.add(identity, skew, alpha=0.5).expand(skew.shape)
            )
        return q if rows == columns else q[..., :columns]

    @staticmethod
    def _reflected(x: Tensor) -> Tensor:
        """The product of the reflections whose vectors are below the diagonal, which holds the signs of the columns."""
        vectors = x.tril(-1)
        tau = 2.0 / (1.0 + (vectors * vectors).sum(-2))
        return cygrad.linalg.householder_product(vectors, tau) * x.diagonal(0, -2, -1).int().unsqueeze(-2)

    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {value.shape}."
            )
        with cygrad.no_grad():
            wide = value.shape[-2] < value.shape[-1]
            q = value.mT if wide else value
            if "base" not in self._buffers:
                original = self._reflectors(q)
                return original.mT if wide else original
            rows, columns = q.shape[-2:]
            if rows != columns:
                noise = cygrad.randn(*q.shape[:-2], rows, rows - columns, dtype=q.dtype, device=q.device)
                q = _made_orthogonal(cygrad.cat([q, noise], -1))
            else:
                q = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
            self.base = q
            original = cygrad.zeros_like(value, requires_grad=False)
            original.diagonal(0, -2, -1).fill_(-1.0)  # with which reflections give the identity, too
            return original

    def _reflectors(self, q: Tensor) -> Tensor:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        reflectors, tau = cygrad.geqrf(q)
        signs = reflectors.diagonal(0, -2, -1)
        signs.copy_(cygrad.where(tau == 0, -signs.sign(), signs.sign()))  # tau is 0 where nothing is reflected
        return reflectors


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix, or batch of matrices, orthogonal (unitary, if complex): its columns, or its rows if there are
    fewer.

    Lezcano-Casado and Martínez-Rubio, "Cheap orthogonal constraints in neural networks" (2019); trivializations:
    Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds" (2019).

    Parameters
    ----------
    module : Module
    name : str
        Of the parameter.
    orthogonal_map : str, optional
        ``"matrix_exp"`` or ``"cayley"`` of a skew matrix, or a product of reflections, ``"householder"``. By default
        ``"matrix_exp"`` for square and complex matrices, else ``"householder"``.
    use_trivialization : bool, default True
        Multiply with a matrix that is set when somebody assigns to the parameter: without it, assigning is possible
        with ``"householder"`` only.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If there is no such tensor, it is no matrix, or the map is unknown or not for complex numbers.
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


def _tensor_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return cygrad._weight_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return cygrad.norm_except_dim(weight, 2, self.dim), weight


class _OldNames:
    """Reads states of `cygrad.nn.utils.weight_norm`, whose names are others. (A class: modules are copied with
    hooks.)"""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: dict, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{self.name}_{which}" for which in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{self.name}.original{i}"] = state_dict.pop(key)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Have a weight made of its length and its direction, ``original0 * original1 / norm(original1)``.

    Salimans and Kingma, "Weight normalization" (2016).

    Parameters
    ----------
    module : Module
    name : str
        Of the parameter.
    dim : int or None
        The dimension that has a length for each of its places; None, or -1, for one length of the whole.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If there is no such parameter.
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(_OldNames(name))
    return module


class _SpectralNorm(Module):
    """A tensor over its largest singular value, which power iteration finds: a step of it at each call in training."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:  # of a vector it is the length
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            for name, size in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, F.normalize(matrix.new_empty(size).normal_(0, 1), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with cygrad.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.H.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies, which the graph keeps: the next call iterates in place, maybe before backward.
        u, v = self._u.clone(), self._v.clone()
        return weight / cygrad.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def _rows_dim(module: Module, dim: int | None) -> int:
    """The dimension of a weight that stands for the outputs."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight, seen as a matrix, by its largest singular value.

    Miyato et al., "Spectral normalization for generative adversarial networks" (2018).

    Parameters
    ----------
    module : Module
    name : str
        Of the parameter.
    n_power_iterations : int
        Steps towards the singular vectors at each call in training.
    eps : float
        Smallest length by which a vector is divided.
    dim : int, optional
        The rows of the matrix: 0, and 1 for transposed convolutions.

    Returns
    -------
    Module
        The same.

    Raises
    ------
    ValueError
        If there is no such tensor, or no step is to be made.
    IndexError
        If the tensor has no such dimension.
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, _rows_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)

"""Normal vectors."""

from __future__ import annotations

from typing import ClassVar

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.distribution import LOG_TWO_PI, Distribution, Regions, Shape, lazy_property, standard_normal

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`.

    Parameters
    ----------
    loc : Tensor, shape (*, D)
    covariance_matrix : Tensor, shape (*, D, D), optional
        One of the three matrices is given: the covariance,
    precision_matrix : Tensor, shape (*, D, D), optional
        its inverse, or
    scale_tril : Tensor, shape (*, D, D), optional
        its lower Cholesky factor, with which all computing is done.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        Another number of matrices is given, or shapes do not go together.
    """

    arg_constraints: ClassVar[Regions] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: matrix for name, matrix in named.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = cygrad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, -1)
        vars(self)[name] = matrix.expand(*batch, -1, -1)
        super().__init__(batch, loc.shape[-1:], validate_args)
        if name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cygrad.linalg.cholesky(matrix)
        elif name == "precision_matrix":
            # The factor of the turned matrix, turned back, is an upper one of this; its inverse is the lower factor.
            upper = cygrad.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
            eye = cygrad.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
            self._unbroadcasted_scale_tril = cygrad.linalg.solve_triangular(upper, eye, upper=False)
        else:
            self._unbroadcasted_scale_tril = matrix

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._unbroadcasted_scale_tril.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        inverse = cygrad.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(*self._batch_shape, *self._event_shape, *self._event_shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.square().sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        square = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TWO_PI + square) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1 + LOG_TWO_PI) + self._half_log_det()
        return entropy.expand(self._batch_shape)


def mahalanobis(factor: Tensor, away: Tensor) -> Tensor:
    """Squared lengths of vectors, of shape (*, D), in the metric of a covariance with that lower factor."""
    if factor.dim() == 2:  # one factor for all vectors: one solve
        solved = cygrad.linalg.solve_triangular(factor, away.reshape(-1, away.shape[-1]).mT, upper=False)
        return solved.square().sum(0).reshape(away.shape[:-1])
    return cygrad.linalg.solve_triangular(factor, away.unsqueeze(-1), upper=False).square().sum((-2, -1))

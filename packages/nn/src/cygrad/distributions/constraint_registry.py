"""Which transform leads from all numbers to a region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint
from cygrad.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    SigmoidTransform,
    SoftmaxTransform,
    StickBreakingTransform,
    Transform,
    identity_transform,
)

__all__ = ["biject_to", "transform_to"]


def _to_bounds(constraint: Any) -> Transform:
    """From all numbers to those between two bounds."""
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _above(constraint: Any) -> Transform:
    """From all numbers to those above a bound."""
    bound = constraint.lower_bound
    if isinstance(bound, (int, float)) and bound == 0:
        return ExpTransform()
    return ComposeTransform([ExpTransform(), AffineTransform(bound, 1)])


class _Registry:
    """Which map leads from all numbers to a region."""

    def __init__(self, simplex: Callable[[], Transform]) -> None:
        self.makers: dict[type, Callable[[Any], Transform]] = {
            type(constraints.real): lambda c: identity_transform,
            constraints.greater_than: _above,
            constraints.greater_than_eq: _above,
            constraints.less_than: lambda c: ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)]),
            constraints.interval: _to_bounds,
            constraints.half_open_interval: _to_bounds,
            type(constraints.simplex): lambda c: simplex(),
            constraints.independent: lambda c: IndependentTransform(
                self(c.base_constraint), c.reinterpreted_batch_ndims
            ),
            type(constraints.lower_cholesky): lambda c: LowerCholeskyTransform(),
        }

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Say which map belongs to a kind of region: a function of the region. Decorates it without `factory`."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, got {constraint}")
        self.makers[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        make = self.makers.get(type(constraint))
        if make is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return make(constraint)


biject_to = _Registry(StickBreakingTransform)
transform_to = _Registry(SoftmaxTransform)

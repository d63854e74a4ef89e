"""Mixtures of distributions of one kind."""

from __future__ import annotations

from typing import Any, ClassVar

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint
from cygrad.distributions.discrete import Categorical
from cygrad.distributions.distribution import Distribution, Regions, Shape

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A value of the component that a `Categorical` chooses.

    Parameters
    ----------
    mixture_distribution : Categorical
        Of the batch shape of the values.
    component_distribution : Distribution
        The last batch dimension are the components.
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        batch = component_distribution.batch_shape
        for have, want in zip(reversed(mixture_distribution.batch_shape), reversed(batch[:-1]), strict=False):
            if 1 not in (have, want) and have != want:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture_distribution.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        if mixture_distribution.param_shape[-1] != batch[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture_distribution.param_shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({batch[-1]})"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MixtureSameFamily:
        count = self.mixture_distribution.param_shape[-1]
        return (
            super()
            .expand(batch_shape)
            ._with(
                component_distribution=self.component_distribution.expand((*batch_shape, count)),
                mixture_distribution=self.mixture_distribution.expand(batch_shape),
            )
        )

    @constraints.dependent_property
    def support(self) -> Constraint:
        return self.component_distribution.support

    def _weights(self) -> Tensor:
        """Probabilities of the components, broadcast to their values."""
        probs = self.mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * len(self.event_shape))

    def _over_components(self, values: Tensor) -> Tensor:
        return (self._weights() * values).sum(-1 - len(self.event_shape))

    @property
    def mean(self) -> Tensor:
        return self._over_components(self.component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        inner = self._over_components(self.component_distribution.variance)
        away = self.component_distribution.mean - self.mean.unsqueeze(-1 - len(self.event_shape))
        return inner + self._over_components(away**2)

    def cdf(self, value: Tensor) -> Tensor:
        chances = self.component_distribution.cdf(value.unsqueeze(-1 - len(self.event_shape)))
        return (chances * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inner = self.component_distribution.log_prob(value.unsqueeze(-1 - len(self.event_shape)))
        return (inner + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with cygrad.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            place = len(sample_shape) + len(self.batch_shape)
            missing = (1,) * (place - chosen.dim())  # batches that the choice is broadcast to
            index = chosen.reshape(*sample_shape, *missing, *chosen.shape[len(sample_shape) :])
            index = index.reshape(*index.shape, 1, *(1,) * len(self.event_shape))
            index = index.expand(*values.shape[:place], 1, *self.event_shape)
            return values.gather(place, index).squeeze(place)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution!r},\n  {self.component_distribution!r})"

"""Distributions whose values come near to classes, and have gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.discrete import Categorical, Trials
from cygrad.distributions.distribution import Distribution, Regions, Shape, broadcast_all, clamp_probs
from cygrad.distributions.transformed import TransformedDistribution
from cygrad.distributions.transforms import ExpTransform, SigmoidTransform

__all__ = ["RelaxedBernoulli", "RelaxedOneHotCategorical"]


class _LogitRelaxedBernoulli(Trials):
    """Logarithms of the odds of what `RelaxedBernoulli` draws."""

    support = constraints.real
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(cygrad.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        temperature = cygrad.as_tensor(self.temperature, dtype=away.dtype, device=away.device)
        return temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers from 0 to 1 that come nearer to those of a Bernoulli distribution as the temperature falls.

    Maddison, Mnih and Teh, "The concrete distribution" (2017); Jang, Gu and Poole, "Categorical reparameterization with
    Gumbel-softmax" (2017).

    Parameters
    ----------
    temperature : Tensor
    probs, logits, validate_args
        See `Bernoulli`.
    """

    arg_constraints: ClassVar[Regions] = Trials.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = _LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature, doc="How far from 0 and 1 values may be.")
    logits = property(lambda self: self.base_dist.logits, doc="Logarithms of the odds.")
    probs = property(lambda self: self.base_dist.probs, doc="Probabilities.")


class _ExpRelaxedCategorical(Distribution):
    """Logarithms of what `RelaxedOneHotCategorical` draws."""

    arg_constraints: ClassVar[Regions] = Categorical.arg_constraints
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any, logits: Any, validate_args: bool | None) -> None:
        self.temperature = temperature
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> _ExpRelaxedCategorical:
        return super().expand(batch_shape)._with(_categorical=self._categorical.expand(batch_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        logits = self._categorical.logits
        u = clamp_probs(cygrad.rand(self._extended_shape(sample_shape), dtype=logits.dtype, device=logits.device))
        scores = (logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        count = self._event_shape[0]
        logits, value = broadcast_all(self._categorical.logits, value)
        temperature = cygrad.as_tensor(self.temperature, dtype=value.dtype, device=value.device)
        scale = cygrad.full_like(temperature, count).lgamma() + (count - 1) * temperature.log()
        scores = logits - value * temperature
        return (scores - scores.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Probabilities that come nearer to rows with a single 1 as the temperature falls; see `RelaxedBernoulli`.

    Parameters
    ----------
    temperature : Tensor
    probs, logits, validate_args
        See `Categorical`.
    """

    arg_constraints: ClassVar[Regions] = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = _ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature, doc="How far from one class values may be.")
    logits = property(lambda self: self.base_dist._categorical.logits, doc="Logarithms of the probabilities.")
    probs = property(lambda self: self.base_dist._categorical.probs, doc="Probabilities of the classes.")

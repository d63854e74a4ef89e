"""Distributions made of others: transformed, or side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint
from cygrad.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from cygrad.distributions.distribution import EULER, Distribution, Regions, Shape, broadcast_all, summed
from cygrad.distributions.gamma import Gamma
from cygrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)

__all__ = [
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LogNormal",
    "LogisticNormal",
    "Pareto",
    "TransformedDistribution",
    "Weibull",
]


class Independent(Distribution):
    """A distribution, of which the last batch dimensions count as part of one value: their log_prob is summed.

    Parameters
    ----------
    base_distribution : Distribution
    reinterpreted_batch_ndims : int
        How many dimensions.
    validate_args : bool, optional

    Examples
    --------
    >>> import cygrad as torch
    >>> from cygrad.distributions import Independent, Normal
    >>> d = Independent(Normal(torch.zeros(4, 3), 1.0), 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(torch.zeros(3)).shape
    (torch.Size([4]), torch.Size([3]), torch.Size([4]))
    """

    arg_constraints: ClassVar[Regions] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch, event = base_distribution.batch_shape, base_distribution.event_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + event, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Independent:
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        return super().expand(batch_shape)._with(base_dist=self.base_dist.expand(cygrad.Size(batch_shape) + inner))

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        inner, dims = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(inner, dims) if dims else inner

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """What transforms make of the values of a distribution.

    Parameters
    ----------
    base_distribution : Distribution
    transforms : Transform or list of Transform
        Applied one after the other.
    validate_args : bool, optional

    Raises
    ------
    ValueError
        Something is no transform, or does not fit the shape of the values.
    """

    arg_constraints: ClassVar[Regions] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {base_distribution}."
            )
        after = whole.forward_shape(shape)
        before = whole.inverse_shape(after)
        if before != shape:  # parameters of the transforms have more dimensions
            cut = len(before) - len(base_distribution.event_shape)
            base_distribution = base_distribution.expand(before[:cut])
        extra = whole.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, extra) if extra > 0 else base_distribution
        events = whole.codomain.event_dim + max(-extra, 0)
        super().__init__(after[: len(after) - events], after[len(after) - events :], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        shape = ComposeTransform(self.transforms).inverse_shape(cygrad.Size(batch_shape) + self.event_shape)
        inner = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return super().expand(batch_shape)._with(base_dist=inner)

    @constraints.dependent_property
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        missing = len(self.event_shape) - last.event_dim
        return constraints.independent(last, missing) if missing > 0 else last

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with cygrad.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        dims, total, y = len(self.event_shape), 0, value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            total = total - summed(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return total + summed(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _sign(self) -> Any:
        return math.prod((transform.sign for transform in self.transforms), start=1)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._turned(value)))

    def _turned(self, chance: Tensor) -> Tensor:
        """A probability, or 1 minus it where the values fall as those of the base rise."""
        sign = self._sign()
        return chance if isinstance(sign, int) and sign == 1 else sign * (chance - 0.5) + 0.5

    def __repr__(self) -> str:
        return f"{type(self).__name__}()" if not self.arg_constraints else super().__repr__()


class LogNormal(TransformedDistribution):
    """Numbers whose logarithm is normal; parameters as of `Normal`."""

    arg_constraints: ClassVar[Regions] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc, doc="Mean of the logarithm.")
    scale = property(lambda self: self.base_dist.scale, doc="Standard deviation of the logarithm.")

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Probabilities, one more than the numbers of a normal vector that breaks the stick; parameters as of `Normal`."""

    arg_constraints: ClassVar[Regions] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc, doc="Means.")
    scale = property(lambda self: self.base_dist.base_dist.scale, doc="Standard deviations.")


class _Half(TransformedDistribution):
    """The absolute value of a distribution around 0."""

    arg_constraints: ClassVar[Regions] = {"scale": constraints.positive}
    support = constraints.nonnegative
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self._whole(0, scale, validate_args), AbsTransform(), validate_args)

    scale = property(lambda self: self.base_dist.scale, doc="Of the distribution to both sides.")

    @property
    def mode(self) -> Tensor:
        return cygrad.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return cygrad.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """Absolute values of normal numbers around 0, of standard deviation `scale`."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """Absolute values of Cauchy numbers around 0, half of which lie within `scale`."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return cygrad.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class Gumbel(TransformedDistribution):
    """The largest of many numbers, moved by `loc` and stretched by `scale`."""

    arg_constraints: ClassVar[Regions] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = cygrad.finfo(self.loc.dtype)
        ends = cygrad.full_like(self.loc, info.tiny), cygrad.full_like(self.loc, 1 - info.eps)
        # -log(-log(u))
        parts = [ExpTransform().inv, AffineTransform(0, -1.0), ExpTransform().inv]
        base = Uniform(*(end.detach() for end in ends), validate_args=False)
        super().__init__(base, [*parts, AffineTransform(self.loc, -self.scale)], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Gumbel:
        return Gumbel(self.loc.expand(batch_shape), self.scale.expand(batch_shape), self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev**2

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class Weibull(TransformedDistribution):
    """Times until a part fails: exponential numbers to the power of ``1 / concentration``, times `scale`."""

    arg_constraints: ClassVar[Regions] = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(cygrad.ones_like(self.scale), validate_args=False)
        parts = [PowerTransform(1 / self.concentration), AffineTransform(0, self.scale)]
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Weibull:
        return Weibull(self.scale.expand(batch_shape), self.concentration.expand(batch_shape), self._validate_args)

    def _moment(self, order: int) -> Tensor:
        return (1 + order / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return cygrad.where(k > 1, self.scale * ((k - 1) / k) ** (1 / k), 0)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def entropy(self) -> Tensor:
        return EULER * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1


class Pareto(TransformedDistribution):
    """Numbers above `scale` whose tail falls with the power `alpha`."""

    arg_constraints: ClassVar[Regions] = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Pareto:
        return Pareto(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), self._validate_args)

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # below there is none: it is infinite
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)


class InverseGamma(TransformedDistribution):
    """Reciprocals of gamma numbers; parameters as of `Gamma`."""

    arg_constraints: ClassVar[Regions] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args)
        exponent = cygrad.tensor(-1.0, dtype=base.rate.dtype, device=base.rate.device)
        super().__init__(base, PowerTransform(exponent), validate_args)

    concentration = property(lambda self: self.base_dist.concentration, doc="Of the gamma numbers.")
    rate = property(lambda self: self.base_dist.rate, doc="Of the gamma numbers.")

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return cygrad.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return cygrad.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Kumaraswamy(TransformedDistribution):
    """Numbers from 0 to 1, much like those of `Beta`, with a closed form of `icdf`; parameters as of `Beta`."""

    arg_constraints: ClassVar[Regions] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = cygrad.zeros_like(self.concentration0)
        parts = [
            PowerTransform(1 / self.concentration0),
            AffineTransform(1.0, -1.0),
            PowerTransform(1 / self.concentration1),
        ]
        super().__init__(Uniform(zeros, zeros + 1, validate_args=False), parts, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Kumaraswamy:
        parts = (c.expand(batch_shape) for c in (self.concentration1, self.concentration0))
        return Kumaraswamy(*parts, self._validate_args)

    def _moment(self, order: int) -> Tensor:
        a, b = order / self.concentration1, self.concentration0
        return b * ((1 + a).lgamma() + b.lgamma() - (1 + a + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        return cygrad.where(inside, ((a - 1) / (a * b - 1)) ** (1 / a), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * ((b + 1).digamma() + EULER) - a.log() - b.log()

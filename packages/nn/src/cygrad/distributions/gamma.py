"""Gamma numbers and what is made of them: beta, Dirichlet, chi-squared, F and t."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import cygrad
from cygrad import Tensor
from cygrad.autograd import Function
from cygrad.autograd._core import drawn_by
from cygrad.autograd.function import once_differentiable
from cygrad.distributions import constraints
from cygrad.distributions.distribution import Distribution, Regions, Shape, broadcast_all, standard_normal

__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "StudentT"]

STEP = 1e-3  # of the differences below, in proportion to the width of the distribution: errors of order STEP**4


def _slope(shape: Tensor, value: Tensor) -> Tensor:
    """How a gamma number moves with its shape where its probability stays: ``-(dF / dshape) / (dF / dvalue)``.

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018). F is differentiated by differences of
    fourth order, of the smaller one of it and 1 - F, which has digits for the tails.
    """
    shape, value = cygrad.broadcast_tensors(shape.double(), value.double())
    step = STEP * shape.minimum(shape.sqrt())
    upper = value > shape

    def chance(a: Tensor) -> Tensor:
        return cygrad.where(upper, -cygrad.special.gammaincc(a, value), cygrad.special.gammainc(a, value))

    far = chance(shape + 2 * step) - chance(shape - 2 * step)
    near = chance(shape + step) - chance(shape - step)
    density = ((shape - 1) * value.log() - value - shape.lgamma()).exp()
    slope = -(8 * near - far) / (12 * step) / density
    # Near 0, F is value**shape / (shape * Gamma(shape)) but for terms that vanish.
    small = -(value / shape) * (value.log() - 1 / shape - shape.digamma())
    return cygrad.where(value < 1e-8 * shape.clamp(max=1), small, slope)


class _StandardGamma(Function):
    """Gamma numbers of scale 1; the gradient for their shapes holds their probabilities fixed."""

    @staticmethod
    def forward(ctx: Any, shapes: Tensor) -> Tensor:
        values = drawn_by(shapes.double().contiguous(), None, None, "standard_gamma").to(shapes.dtype)
        values = values.clamp(min=cygrad.finfo(shapes.dtype).tiny)
        ctx.save_for_backward(shapes, values)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        shapes, values = ctx.saved_tensors
        return grad * _slope(shapes, values).to(grad.dtype)


class Gamma(Distribution):
    """Gamma numbers: density in proportion to ``x ** (concentration - 1) * exp(-rate * x)``.

    Parameters
    ----------
    concentration, rate : Tensor or float
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        values = _StandardGamma.apply(self.concentration.expand(shape)) / self.rate.expand(shape)
        values.detach().clamp_(min=cygrad.finfo(values.dtype).tiny)
        return values

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return cygrad.xlogy(a, b) + cygrad.xlogy(a - 1, value) - b * value - a.lgamma()

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return cygrad.special.gammainc(self.concentration, self.rate * value)


class Chi2(Gamma):
    """Sums of `df` squares of standard normal numbers."""

    arg_constraints: ClassVar[Regions] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, cygrad.full_like(self.df, 0.5), validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Chi2:
        return (
            super()
            .expand(batch_shape)
            ._with(concentration=self.concentration.expand(batch_shape), rate=self.rate.expand(batch_shape))
        )


class Dirichlet(Distribution):
    """Probabilities that add up to 1: gamma numbers over their sum.

    Parameters
    ----------
    concentration : Tensor, shape (*, K)
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0)
        mode = above / above.sum(-1, True)
        edge = (self.concentration < 1).all(-1, True)  # then the density is highest at a corner
        corner = cygrad.nn.functional.one_hot(self.concentration.argmax(-1), above.shape[-1]).to(mode.dtype)
        return cygrad.where(edge, corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shapes = self.concentration.expand(self._extended_shape(sample_shape))
        gammas = _StandardGamma.apply(shapes.double())
        values = (gammas / gammas.sum(-1, True)).to(shapes.dtype)
        info = cygrad.finfo(shapes.dtype)
        return values.clamp(info.tiny, 1 - info.eps / 2) if shapes.shape[-1] > 1 else values

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return cygrad.xlogy(a - 1, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, count = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        spread = (total - count) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() + spread


class Beta(Distribution):
    """Numbers from 0 to 1: density in proportion to ``x ** (concentration1 - 1) * (1 - x) ** (concentration0 - 1)``.

    Parameters
    ----------
    concentration1, concentration0 : Tensor or float
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    @property
    def _pair(self) -> Dirichlet:
        return Dirichlet(cygrad.stack([self.concentration1, self.concentration0], -1), validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._pair.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        return self._pair.variance[..., 0]

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._pair.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._pair.log_prob(cygrad.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._pair.entropy()


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, moved and stretched: normal numbers of an uncertain variance.

    Parameters
    ----------
    df, loc, scale : Tensor or float
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return cygrad.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        wide = cygrad.where(df > 1, cygrad.full_like(df, math.inf), math.nan)
        return cygrad.where(df > 2, self.scale**2 * df / (df - 2), wide)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        x = standard_normal(self._extended_shape(sample_shape), self.df)
        y = x * (Chi2(self.df, validate_args=False).rsample(sample_shape) / self.df).rsqrt()
        return self.loc + self.scale * y

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y, half = (value - self.loc) / self.scale, self.df / 2
        norm = self.scale.log() + 0.5 * (self.df.log() + math.log(math.pi)) + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (y**2 / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        half = self.df / 2
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        spread = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """Quotients of two chi-squared numbers, each over its degrees of freedom.

    Parameters
    ----------
    df1, df2 : Tensor or float
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return cygrad.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return cygrad.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        return cygrad.where(b > 4, 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        top, bottom = (Gamma(df / 2, df / 2, validate_args=False).rsample(sample_shape) for df in (self.df1, self.df2))
        return (top / bottom).clamp(min=cygrad.finfo(top.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.df1 / 2, self.df2 / 2
        ratio = self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()

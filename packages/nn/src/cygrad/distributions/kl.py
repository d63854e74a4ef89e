"""Kullback-Leibler divergences: formulas by the types of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.distributions.continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from cygrad.distributions.discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from cygrad.distributions.distribution import EULER, LOG_TWO_PI, Distribution, summed
from cygrad.distributions.gamma import Beta, Dirichlet, Gamma
from cygrad.distributions.multivariate import MultivariateNormal, mahalanobis
from cygrad.distributions.transformed import Gumbel, HalfNormal, Independent, Pareto, TransformedDistribution

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Tensor]
_formulas: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Return a decorator for the formula of two types of distributions, and of types derived from them.

    Examples
    --------
    >>> from cygrad.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal):
    ...     pass
    >>> @register_kl(Mine, Mine)
    ... def between(p, q):
    ...     return (p.loc - q.loc) ** 2
    >>> kl_divergence(Mine(0.0, 1.0), Mine(3.0, 1.0))
    tensor(9.)
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorate(formula: Formula) -> Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Mean of ``p.log_prob(x) - q.log_prob(x)`` over the values of `p`.

    Parameters
    ----------
    p, q : Distribution

    Returns
    -------
    Tensor
        Of the batch shape of the two.

    Raises
    ------
    NotImplementedError
        There is no formula for their types.
    """
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            formula = _formulas.get((kind_p, kind_q))
            if formula is not None:
                return formula(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


def _chance_ratio(p: Tensor, q: Tensor) -> Tensor:
    """``p * log(p / q)``, which is 0 where p is, and infinite where only q is."""
    return cygrad.xlogy(p, p) - cygrad.where(p == 0, 0, p * q.log())


@register_kl(Bernoulli, Bernoulli)
def _(p: Bernoulli, q: Bernoulli) -> Tensor:
    return _chance_ratio(p.probs, q.probs) + _chance_ratio(1 - p.probs, 1 - q.probs)


@register_kl(Binomial, Binomial)
def _(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return cygrad.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _(p: Categorical, q: Categorical) -> Tensor:
    parts = p.probs * (p.logits - q.logits)
    parts = cygrad.where((q.probs == 0).expand_as(parts), math.inf, parts)
    return cygrad.where((p.probs == 0).expand_as(parts), 0, parts).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Normal, Normal)
def _(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    shift = (q.loc - p.loc) / q.scale
    grown = (shift + (1 + ratio).lgamma()).exp()
    return -ratio.log() - shift + ratio * EULER + grown - (1 + EULER)


@register_kl(HalfNormal, HalfNormal)
def _(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _(p: Uniform, q: Uniform) -> Tensor:
    outside = (q.low > p.low) | (q.high < p.high)
    return cygrad.where(outside, math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Pareto, Pareto)
def _(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return cygrad.where(p.scale < q.scale, math.inf, kl)


@register_kl(Exponential, Exponential)
def _(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    kl = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma()
    return kl + (q.rate - p.rate) * (a / p.rate)


@register_kl(Exponential, Gamma)
def _(p: Exponential, q: Gamma) -> Tensor:
    return kl_divergence(Gamma(cygrad.ones_like(p.rate), p.rate, validate_args=False), q)


@register_kl(Gamma, Exponential)
def _(p: Gamma, q: Exponential) -> Tensor:
    return kl_divergence(p, Gamma(cygrad.ones_like(q.rate), q.rate, validate_args=False))


@register_kl(Dirichlet, Dirichlet)
def _(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1, True)
    norms = total.squeeze(-1).lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma())).sum(-1)


@register_kl(Beta, Beta)
def _(p: Beta, q: Beta) -> Tensor:
    return kl_divergence(p._pair, q._pair)


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes is not defined")
    batch = cygrad.broadcast_shapes(p.batch_shape, q.batch_shape)
    count = p.event_shape[0]
    ours, theirs = (d._unbroadcasted_scale_tril.expand(*batch, count, count) for d in (p, q))
    trace = cygrad.linalg.solve_triangular(theirs, ours, upper=False).square().sum((-2, -1))
    square = mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + square - count)


@register_kl(Independent, Independent)
def _(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents of different numbers of dimensions is not implemented")
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between distributions of different transforms is not implemented")
    return kl_divergence(p.base_dist, q.base_dist)


# ---- of different families: -entropy of p, and the mean of -log_prob of q


@register_kl(Beta, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _(p: Distribution, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc) ** 2
    return -p.entropy() + q.scale.log() + 0.5 * LOG_TWO_PI + square / (2 * q.scale**2)


@register_kl(Normal, Laplace)
def _(p: Normal, q: Laplace) -> Tensor:
    away = (p.loc - q.loc) / p.scale  # mean of |x - q.loc|, in standard deviations of p
    mean = math.sqrt(2 / math.pi) * (-0.5 * away**2).exp() + away * (away / math.sqrt(2)).erf()
    return -p.entropy() + (2 * q.scale).log() + p.scale / q.scale * mean


@register_kl(Normal, Gumbel)
def _(p: Normal, q: Gumbel) -> Tensor:
    shift, ratio = (p.loc - q.loc) / q.scale, p.scale / q.scale
    return -p.entropy() + q.scale.log() + shift + (-shift + 0.5 * ratio**2).exp()


@register_kl(Bernoulli, Poisson)
def _(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() + q.rate - cygrad.xlogy(p.probs, q.rate)


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Uniform, Gumbel)
def _(p: Distribution, q: Gumbel) -> Tensor:
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * _decay(p, q.scale)


def _decay(p: Any, scale: Tensor) -> Tensor:
    """Mean of ``exp(-x / scale)``."""
    if isinstance(p, Uniform):
        return ((-p.low / scale).exp() - (-p.high / scale).exp()) * scale / (p.high - p.low)
    return (1 + 1 / (p.rate * scale)) ** (-p.concentration if isinstance(p, Gamma) else -1)


def _where_uniform_fits(p: Any, q: Any, kl: Tensor) -> Tensor:
    """`kl`, or infinity where `p` is uniform and has values that `q` does not have."""
    if not isinstance(p, Uniform):
        return kl
    outside = p.low < (q.scale if isinstance(q, Pareto) else 0)
    return cygrad.where(outside | (p.high > 1) if isinstance(q, Beta) else outside, math.inf, kl)


@register_kl(Beta, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _(p: Distribution, q: Exponential) -> Tensor:
    return _where_uniform_fits(p, q, -p.entropy() - q.rate.log() + q.rate * p.mean)


def _mean_log(p: Any) -> Tensor:
    """Mean of ``log(x)``."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return _mean_log_between(p.low, p.high)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (cygrad.xlogy(high, high) - cygrad.xlogy(low, low)) / (high - low) - 1


@register_kl(Beta, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _(p: Distribution, q: Gamma) -> Tensor:
    a, b = q.concentration, q.rate
    kl = -p.entropy() + a.lgamma() - a * b.log() + b * p.mean - (a - 1) * _mean_log(p)
    return _where_uniform_fits(p, q, kl)


@register_kl(Uniform, Beta)
def _(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    kl = -p.entropy() + norm - (a - 1) * _mean_log(p) - (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    return _where_uniform_fits(p, q, kl)


@register_kl(Uniform, Pareto)
def _(p: Uniform, q: Pareto) -> Tensor:
    a = q.alpha
    return _where_uniform_fits(p, q, -p.entropy() - a.log() - a * q.scale.log() + (a + 1) * _mean_log(p))


@register_kl(Beta, Uniform)
def _(p: Beta, q: Uniform) -> Tensor:
    return cygrad.where((q.low > 0) | (q.high < 1), math.inf, -p.entropy() + (q.high - q.low).log())


def _impossible(p: Distribution, q: Distribution) -> Tensor:
    """`p` has values that `q` does not have."""
    shape = cygrad.broadcast_shapes(p.batch_shape, q.batch_shape)
    return cygrad.full(shape, math.inf, dtype=p.mean.dtype, device=p.mean.device)


for _kind in (Normal, Laplace, Cauchy, Gumbel):
    for _other in (Beta, Exponential, Gamma, Pareto, Uniform):
        register_kl(_kind, _other)(_impossible)
for _kind, _other in ((Beta, Pareto), (Pareto, Beta), (Pareto, Uniform), (Poisson, Bernoulli), (Poisson, Binomial)):
    register_kl(_kind, _other)(_impossible)
for _kind in (Exponential, Gamma):
    for _other in (Beta, Pareto, Uniform):
        register_kl(_kind, _other)(_impossible)

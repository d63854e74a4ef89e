"""Counts, classes, and successes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint
from cygrad.distributions.distribution import (
    Distribution,
    Regions,
    Shape,
    broadcast_all,
    lazy_property,
    logits_of,
    probs_of,
)
from cygrad.distributions.gamma import Gamma
from cygrad.nn.functional import binary_cross_entropy_with_logits, one_hot

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Geometric",
    "Multinomial",
    "NegativeBinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]


def check_one(probs: Any, logits: Any) -> None:
    """ValueError unless one of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Trials(Distribution):
    """A distribution of what succeeds with the probability `probs`, or the logarithm `logits` of its odds."""

    arg_constraints: ClassVar[Regions] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        check_one(probs, logits)
        (given,) = broadcast_all(logits if probs is None else probs)
        vars(self)["logits" if probs is None else "probs"] = given
        self._is_logits = probs is None
        super().__init__(given.shape, (), validate_args)

    @property
    def _param(self) -> Tensor:
        return self.logits if self._is_logits else self.probs

    @property
    def param_shape(self) -> cygrad.Size:
        """Shape of the probabilities."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        return logits_of(self.probs, True)

    @lazy_property
    def probs(self) -> Tensor:
        return probs_of(self.logits, True)


class Bernoulli(Trials):
    """1 with the probability `probs`, else 0.

    Parameters
    ----------
    probs, logits : Tensor or float
        One of them: probabilities, or logarithms of odds.
    validate_args : bool, optional
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return cygrad.where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with cygrad.no_grad():
            return cygrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(cygrad.arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(Trials):
    """How many trials fail before the first success; parameters as of `Bernoulli`."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs[self.probs <= 0]}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return cygrad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        info = cygrad.finfo(self.probs.dtype)
        with cygrad.no_grad():
            u = cygrad.empty(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
            u.uniform_(info.tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        sure = (probs == 1) & (value == 0)  # without it, no failures of no probability would be no number
        return value * (-cygrad.where(sure, 0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(Trials):
    """How many of `total_count` trials succeed.

    Parameters
    ----------
    total_count : Tensor or int
    probs, logits, validate_args
        See `Bernoulli`.
    """

    arg_constraints: ClassVar[Regions] = {"total_count": constraints.nonnegative_integer, **Trials.arg_constraints}
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = self.total_count.type_as(given)
        super().__init__(*((None, given) if probs is None else (given, None)), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cygrad.no_grad():
            return cygrad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits - n * cygrad.logaddexp(logits, cygrad.zeros_like(logits))

    def entropy(self) -> Tensor:
        count = int(self.total_count.max())
        if not (self.total_count == count).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max())
        if not (self.total_count == count).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(cygrad.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)


class NegativeBinomial(Trials):
    """How many trials succeed before `total_count` of them have failed; other parameters as of `Bernoulli`."""

    arg_constraints: ClassVar[Regions] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        self.total_count, given = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = self.total_count.type_as(given)
        super().__init__(*((None, given) if probs is None else (given, None)), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with cygrad.no_grad():
            rates = Gamma(self.total_count, (-self.logits).exp(), validate_args=False)
            return cygrad.poisson(rates.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, log_sigmoid = self.total_count, cygrad.nn.functional.logsigmoid
        ways = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        # no failures are wanted: nothing succeeds, for sure
        ways = cygrad.where(n + value == 0, cygrad.zeros_like(ways), ways)
        return ways + n * log_sigmoid(-self.logits) + value * log_sigmoid(self.logits)


class Poisson(Distribution):
    """How often something happens that happens `rate` times on average.

    Parameters
    ----------
    rate : Tensor or float
    validate_args : bool, optional
    """

    arg_constraints: ClassVar[Regions] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with cygrad.no_grad():
            return cygrad.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return cygrad.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


class Categorical(Distribution):
    """One of K classes.

    Parameters
    ----------
    probs : Tensor, shape (*, K)
        Weights, which are divided by their sum, or
    logits : Tensor, shape (*, K)
        their logarithms, of which their logsumexp is subtracted.
    validate_args : bool, optional

    Examples
    --------
    >>> import cygrad as torch
    >>> scores = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    >>> policy = torch.distributions.Categorical(logits=scores)
    >>> (-policy.log_prob(torch.tensor(2))).backward()
    >>> scores.grad
    tensor([ 0.0900,  0.2447, -0.3348])
    """

    arg_constraints: ClassVar[Regions] = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        check_one(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = given = probs / probs.sum(-1, keepdim=True)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = given = logits - logits.logsumexp(-1, keepdim=True)
        self._is_logits = probs is None
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    @property
    def _param(self) -> Tensor:
        return self.logits if self._is_logits else self.probs

    @property
    def param_shape(self) -> cygrad.Size:
        """Shape of the probabilities."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        return logits_of(self.probs, False)

    @lazy_property
    def probs(self) -> Tensor:
        return probs_of(self.logits, False)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return cygrad.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return cygrad.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = cygrad.multinomial(rows, cygrad.Size(sample_shape).numel(), True)
        return drawn.T.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, logits = cygrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        least = cygrad.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(cygrad.arange(self._num_events, device=self._param.device), expand)


class _OfClasses(Distribution):
    """What is drawn by a `Categorical`, whose parameters are its own."""

    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> cygrad.Size:
        """Shape of the probabilities."""
        return self._categorical.param_shape


class OneHotCategorical(_OfClasses):
    """One of K classes, as a row with a 1 at its place; parameters as of `Categorical`."""

    arg_constraints: ClassVar[Regions] = Categorical.arg_constraints
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> OneHotCategorical:
        return super().expand(batch_shape)._with(_categorical=self._categorical.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._rows(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _rows(self, classes: Tensor) -> Tensor:
        return one_hot(classes, self._event_shape[0]).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._rows(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        like = self._categorical._param
        return self._enumerated(cygrad.eye(self._event_shape[0], dtype=like.dtype, device=like.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose values pass gradients on to the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfClasses):
    """How often each of K classes comes up in `total_count` draws.

    Parameters
    ----------
    total_count : int
    probs, logits, validate_args
        See `Categorical`.
    """

    arg_constraints: ClassVar[Regions] = Categorical.arg_constraints

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Multinomial:
        return super().expand(batch_shape)._with(_categorical=self._categorical.expand(batch_shape))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        counts = one_hot(drawn, self._event_shape[0]).sum(0)
        return counts.to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        alone = Binomial(n, self.probs, validate_args=False)
        counts = alone.enumerate_support(False)[1:]
        spread = (alone.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + spread

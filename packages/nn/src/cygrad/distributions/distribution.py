"""What all distributions have in common."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cygrad
from cygrad import Size, Tensor
from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint

__all__ = ["Distribution", "broadcast_all", "clamp_probs", "lazy_property", "logits_of", "probs_of"]

Shape = Sequence[int]
Regions = dict[str, Constraint]  # names of parameters, and where they may lie


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers get the dtype of the tensors, or the default one.

    Raises
    ------
    ValueError
        Something is neither a number nor a tensor.
    """
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise ValueError(
                f"Input arguments must all be instances of Number, torch.Tensor, got {type(value).__name__}"
            )
    given = [value for value in values if isinstance(value, Tensor)]
    options = {"dtype": given[0].dtype, "device": given[0].device} if given else {"dtype": cygrad.get_default_dtype()}
    made = [value if isinstance(value, Tensor) else cygrad.tensor(value, **options) for value in values]
    return tuple(cygrad.broadcast_tensors(*made))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities a rounding error away from 0 and 1, so that logarithms are finite."""
    eps = cygrad.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def logits_of(probs: Tensor, binary: bool) -> Tensor:
    """Logarithms of probabilities, or of odds."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if binary else inside.log()


def probs_of(logits: Tensor, binary: bool) -> Tensor:
    """Probabilities, from logarithms of odds, or of weights along the last dimension."""
    return logits.sigmoid() if binary else logits.softmax(-1)


class lazy_property:
    """An attribute that is computed when it is first asked for, and kept."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with cygrad.enable_grad():
            value = vars(instance)[self.name] = self.compute(instance)
        return value


class Distribution:
    """Base class of distributions, whose methods are those of PyTorch's.

    Parameters are attributes, named in `arg_constraints`; the base class expands, checks and shows them. Values that a
    distribution draws have the shape ``sample_shape + batch_shape + event_shape``.

    Parameters
    ----------
    batch_shape : sequence of int
        Of the parameters: so many distributions stand side by side.
    event_shape : sequence of int
        Of one value.
    validate_args : bool, optional
        Whether parameters and values are checked; as `set_default_validate_args` says by default, which is yes.

    Raises
    ------
    ValueError
        A parameter lies outside of its region.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[Regions]
    _validate_args = True

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in getattr(self, "arg_constraints", {}).items():
            if constraints.is_dependent(constraint) or name not in vars(self):
                continue
            value = vars(self)[name]
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions check their parameters and values from now on."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: True or False is wanted, got {value!r}")
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        """Of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Of one value."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """The region of the values."""
        raise NotImplementedError(f"{type(self).__name__} has no support")

    @property
    def mean(self) -> Tensor:
        """Of the values."""
        raise NotImplementedError(f"{type(self).__name__} has no closed form of its mean")

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Of the values."""
        raise NotImplementedError(f"{type(self).__name__} has no closed form of its variance")

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        """The distribution with a larger batch shape, to which the parameters are broadcast."""
        new = copy.copy(self)
        new._batch_shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                event = value.shape[value.dim() - constraint.event_dim :]
                vars(new)[name] = value.expand(Size(batch_shape) + event)
        return new

    def _with(self, **parts: Any) -> Any:
        """A copy of the distribution with other attributes."""
        new = copy.copy(self)
        vars(new).update(parts)
        return new

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw values, of which no gradients flow back."""
        with cygrad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample: its values have no gradients")

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` values."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, or of the probability, of values."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a value that is not larger."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self) -> Tensor:
        """Mean of ``-log_prob``."""
        raise NotImplementedError(f"{type(self).__name__} has no closed form of its entropy")

    def perplexity(self) -> Tensor:
        """``exp(entropy())``."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along the first dimension; broadcast to the batch shape if `expand`."""
        raise NotImplementedError(f"{type(self).__name__} has no list of its values")

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Values as `enumerate_support` gives them, one for each row."""
        values = values.reshape(-1, *(1,) * len(self._batch_shape), *values.shape[1:])
        return values.expand(-1, *self._batch_shape, *self._event_shape) if expand else values

    def _validate_sample(self, value: Tensor) -> None:
        """Check what `log_prob` and the like are asked about, unless nothing is to be checked."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.shape[max(0, value.dim() - events) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        whole = self._batch_shape + self._event_shape
        for have, want in zip(reversed(value.shape), reversed(whole), strict=False):
            if have != 1 and want != 1 and have != want:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {whole}.")
        try:
            support = self.support
        except NotImplementedError:
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        given = {name: vars(self)[name] for name in getattr(self, "arg_constraints", {}) if name in vars(self)}
        shown = (f"{name}: {value if value.numel() == 1 else value.shape}" for name, value in given.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def summed(value: Tensor, dims: int) -> Tensor:
    """Sums over the last dimensions."""
    return value.flatten(value.dim() - dims).sum(-1) if dims else value


def standard_normal(shape: Shape, like: Tensor) -> Tensor:
    """Normal numbers of mean 0 and variance 1, as PyTorch draws them."""
    kind = {"dtype": like.dtype, "device": like.device}
    return cygrad.normal(cygrad.zeros(shape, **kind), cygrad.ones(shape, **kind))


EULER = 0.57721566490153286  # the mean of a standard Gumbel number
LOG_TWO_PI = math.log(2 * math.pi)

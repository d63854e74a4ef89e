"""Schedules that multiply the rate by a factor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType
from typing import Any

from cygrad import Tensor
from cygrad.optim.lr_scheduler.base import LRScheduler
from cygrad.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Factor = Callable[[int], float]


class _Called(LRScheduler):
    """A schedule made of the user's own functions, one for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        groups = len(getattr(optimizer, "param_groups", ()))
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != groups:
                raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * groups
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer. Functions cannot be kept: of callable objects the attributes are."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(function, (FunctionType, partial)) else dict(getattr(function, "__dict__", {}))
            for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; this schedule's own functions stay."""
        attributes = state_dict["lr_lambdas"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, values in zip(self.lr_lambdas, attributes, strict=True):
            if values:
                function.__dict__.update(values)


class LambdaLR(_Called):
    """The first rate times a function of the epoch.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    lr_lambda : callable, or list with one for each group
        Gives the factor of an epoch.
    """

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        self._rates()
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Called):
    """The rate of the epoch before times a function of the epoch.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    lr_lambda : callable, or list with one for each group
        Gives the factor of an epoch; it is not called for the first.
    """

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        if self._is_initial:
            return rates
        return [rate * factor(self.last_epoch) for rate, factor in zip(rates, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """The rate is multiplied by `gamma` after every `step_size` epochs.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    step_size : int
        Epochs between two changes.
    gamma : float, default 0.1
        Factor of a change.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return rates
        return [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate is multiplied by `gamma` at each of the given epochs.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    milestones : iterable of int
        Epochs of a change; one that is named twice changes twice.
    gamma : float, default 0.1
        Factor of a change.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        times = self.milestones.get(self.last_epoch, 0)
        return [rate * self.gamma**times for rate in rates] if times else rates

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        passed = sum(times for epoch, times in self.milestones.items() if epoch <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate is smaller by a factor until an epoch.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    factor : float, default 1/3
        Between 0 and 1.
    total_iters : int, default 5
        Epoch from which the rate is whole.

    Raises
    ------
    ValueError
        If the factor is outside its range.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        if self.last_epoch != self.total_iters:
            return rates
        return [rate * (1.0 / self.factor) for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The factor of the rate goes from one number to another on a straight line.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    start_factor : float, default 1/3
        Factor in the first epoch, in (0, 1].
    end_factor : float, default 1
        Factor at the end, in [0, 1].
    total_iters : int, default 5
        Epoch that has the end factor.

    Raises
    ------
    ValueError
        If a factor is outside its range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, got "
                f"{start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1.0 + rise / before) for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * share) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate is multiplied by `gamma` in every epoch.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    gamma : float
        Factor of an epoch.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        return rates if self._is_initial else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate falls to 0 as a power of the epochs that are left.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    total_iters : int, default 5
        Epoch in which the rate is 0.
    power : float, default 1
        Exponent.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        rates = self._rates()
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        left = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return [rate * (left / before) ** self.power for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]

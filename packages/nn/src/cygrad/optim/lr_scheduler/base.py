"""`LRScheduler`: what all learning-rate schedules share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from cygrad import Tensor
from cygrad.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]

STEP_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite order, or the first "
    "value of the schedule is skipped"
)
STEP_REPLACED = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization: whether it was "
    "called before `lr_scheduler.step()` cannot be checked"
)
EPOCH_GIVEN = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated: call `scheduler.step()`. A "
    "schedule that knows its rate at any epoch in closed form jumps there; others take one step from the present rate"
)
GET_LR_CALLED = "To get the last learning rate computed by the scheduler, please use `get_last_lr()`."


class LRScheduler:
    """Base of the schedules: counts epochs and writes each group's rate.

    A subclass defines ``get_lr``, which computes the rates of epoch ``self.last_epoch`` from those that the groups have
    now. Written so, schedules of one optimizer may follow or multiply each other.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` is written; ``"initial_lr"`` is added to them.
    last_epoch : int, default -1
        Number of the last epoch that was trained; -1 starts anew.

    Attributes
    ----------
    base_lrs : list
        Rate of each group at the start.
    last_epoch : int
        How often `step` was called; it is 0 from the start.

    Raises
    ------
    TypeError
        If `optimizer` is none.
    KeyError
        If `last_epoch` is given and a group has no ``"initial_lr"``.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _value(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}]: last_epoch={last_epoch} resumes a "
                    "schedule, so load the optimizer's state first"
                )
        self.base_lrs = [_value(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        optimizer.watch_steps()
        self._initial_step()

    def _initial_step(self) -> None:
        """Write the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, as a dictionary."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned. The rates themselves are part of the optimizer's state."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float | Tensor]:
        """Return the rate of each group that `step` wrote last."""
        return self._last_lr

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rate of each group for the present epoch; every subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch and write its rates. Call it after the optimizer's steps of an epoch.

        Parameters
        ----------
        epoch : int, optional
            Deprecated: the epoch to go to.
        """
        if self._step_count == 1:
            self._check_order()
        if epoch is not None:
            warnings.warn(EPOCH_GIVEN, UserWarning, stacklevel=2)
        self._go_to(epoch)

    def _go_to(self, epoch: int | None) -> None:
        """Write the rates of the next epoch, or of a given one."""
        self._step_count += 1
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                values = self._jump(epoch)
        finally:
            self._get_lr_called_within_step = False
        self._write(values)

    def _jump(self, epoch: int) -> list[float | Tensor]:
        """The rates of a given epoch."""
        self.last_epoch = epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        return self.get_lr() if closed is None else closed()

    def _write(self, values: Sequence[float | Tensor]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_option(group, "lr", value)
        self._last_lr = present_rates(self.optimizer)

    def _check_order(self) -> None:
        if not getattr(self.optimizer.step, "hooked", False):
            warnings.warn(STEP_REPLACED, UserWarning, stacklevel=3)
        elif not self.optimizer.stepped:
            warnings.warn(STEP_ORDER, UserWarning, stacklevel=3)

    def _rates(self) -> list[float | Tensor]:
        """The groups' present rates, for `get_lr`."""
        if not self._get_lr_called_within_step:
            warnings.warn(GET_LR_CALLED, UserWarning, stacklevel=3)
        return present_rates(self.optimizer)


def check_optimizer(optimizer: Any) -> None:
    """TypeError if something is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _value(rate: float | Tensor) -> float | Tensor:
    """A rate that later writes into the group's tensor do not change."""
    return rate.clone() if isinstance(rate, Tensor) else rate


def present_rates(optimizer: Optimizer) -> list[float | Tensor]:
    """The rate of each group now."""
    return [_value(group["lr"]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], name: str, value: Any) -> None:
    """Write an option of a group; one that is a tensor stays the same tensor."""
    if isinstance(group.get(name), Tensor):
        group[name].fill_(value)
    else:
        group[name] = value


def for_each_group(name: str, value: Any, optimizer: Optimizer) -> list:
    """One value for each group: a list or tuple as it is, a single value repeated. ValueError if the number differs."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {groups}."
        )
    return list(value)

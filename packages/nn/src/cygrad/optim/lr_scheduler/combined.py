"""Schedules made of others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from cygrad.optim.lr_scheduler.base import LRScheduler, present_rates, set_option
from cygrad.optim.lr_scheduler.plateau import ReduceLROnPlateau
from cygrad.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


def _check(owner: str, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
    """TypeError for something that is no schedule of an optimizer, ValueError for one that does not fit."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(
                f"{owner} at index {i} should have `optimizer` as its attribute, got a {type(scheduler).__name__}"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{owner} does not support `ReduceLROnPlateau` scheduler as its step needs a metric, but got one at "
                f"index {i}"
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{owner} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i}, which belongs to another one"
            )


class _Combined(LRScheduler):
    """Keeps the states of its parts in its own."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer, with the states of the parts."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, also in the parts."""
        parts = state_dict["_schedulers"]
        if len(parts) != len(self._schedulers):
            raise ValueError(f"the loaded state has {len(parts)} schedulers, this one has {len(self._schedulers)}")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, part in zip(self._schedulers, parts, strict=True):
            scheduler.load_state_dict(part)


class SequentialLR(_Combined):
    """One schedule after the other.

    Parameters
    ----------
    optimizer : Optimizer
        The one that all of them belong to.
    schedulers : list of LRScheduler
        In their order.
    milestones : list of int
        The epochs in which the second, third, ... schedule starts.
    last_epoch : int, default -1
        Number of the last epoch; the parts must have been made for it.

    Raises
    ------
    ValueError
        If there is no schedule, their number does not fit the milestones, or one belongs to another optimizer.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _check(type(self).__name__, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each part has written its first rate when it was made: only the first part's may stay.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            _take_back(scheduler)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch, by a step of the part in which it lies."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            _restart(scheduler)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _take_back(scheduler: LRScheduler) -> None:
    """Uncount the first step of a part and of the parts in it."""
    for part in getattr(scheduler, "_schedulers", ()):
        _take_back(part)
    if hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1


def _restart(scheduler: LRScheduler) -> None:
    """Go to the first epoch of a part."""
    if isinstance(scheduler, _Combined):
        for part in scheduler._schedulers if isinstance(scheduler, ChainedScheduler) else scheduler._schedulers[:1]:
            _restart(part)
        if isinstance(scheduler, SequentialLR):
            scheduler.last_epoch = 0
        scheduler._last_lr = present_rates(scheduler.optimizer)
        return
    scheduler._go_to(0)


class ChainedScheduler(_Combined):
    """Several schedules at once: their factors multiply.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        In the order of their steps.
    optimizer : Optimizer, optional
        The one that all of them belong to.

    Raises
    ------
    ValueError
        If there is no schedule, or one belongs to another optimizer.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        owner = optimizer or getattr(schedulers[0], "optimizer", None)
        _check(type(self).__name__, schedulers, owner)
        self._schedulers = list(schedulers)
        self.optimizer = owner
        self._last_lr = present_rates(owner)

    def step(self) -> None:  # type: ignore[override]
        """Step all schedules."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = present_rates(self.optimizer)

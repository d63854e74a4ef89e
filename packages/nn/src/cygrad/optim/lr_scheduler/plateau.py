"""A schedule that follows a metric."""

from __future__ import annotations

import math
import warnings
from typing import Any

from cygrad.optim.lr_scheduler.base import EPOCH_GIVEN, LRScheduler, check_optimizer, present_rates, set_option
from cygrad.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """The rate is multiplied by `factor` when a metric has stopped to improve.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' ``"lr"`` is written.
    mode : str, default "min"
        Whether smaller is better ("min") or larger ("max").
    factor : float, default 0.1
        Less than 1.
    patience : int, default 10
        Epochs without improvement that are let pass.
    threshold : float, default 1e-4
        Improvements below it do not count.
    threshold_mode : str, default "rel"
        Whether the threshold is a share of the best value or a difference from it ("abs").
    cooldown : int, default 0
        Epochs after a change in which nothing is counted.
    min_lr : float, or list with one for each group; default 0
        Smallest rate.
    eps : float, default 1e-8
        Smaller changes are not made.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, got {factor}")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.factor = factor
        self.optimizer = optimizer
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = present_rates(optimizer)
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        """Forget the metrics that were seen."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric of an epoch, and lower the rates if it is time to.

        Parameters
        ----------
        metrics : float or Tensor of one element
            What is watched.
        epoch : int, optional
            Deprecated: number of the epoch.
        """
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_GIVEN, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = present_rates(self.optimizer)

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            # Groups were added after this schedule was made.
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): give min_lrs for all of them"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, low in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs are not counted at present."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        if self.threshold_mode == "abs":
            return value < best - self.threshold if self.mode == "min" else value > best + self.threshold
        if self.mode == "min":
            return value < best * (1.0 - self.threshold)
        return value > best * (1.0 + self.threshold)

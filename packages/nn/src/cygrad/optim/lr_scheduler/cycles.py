"""Schedules along cosines and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from cygrad import Tensor
from cygrad.optim.lr_scheduler.base import LRScheduler, check_optimizer, for_each_group, set_option
from cygrad.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def momentum_kind(optimizer: Optimizer) -> str:
    """Where an optimizer keeps its momentum: "momentum" or "betas"; ValueError if it has none."""
    for name in ("betas", "momentum"):
        if name in optimizer.defaults:
            return name
    raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")


def set_momentum(group: dict[str, Any], kind: str, value: float) -> None:
    """Write the momentum of a group, or the first of its betas."""
    group[kind] = (value, *group["betas"][1:]) if kind == "betas" else value


class CosineAnnealingLR(LRScheduler):
    """The rate goes down and up again along a cosine.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts" (2017), without the restarts.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    T_max : int
        Epochs of half a period.
    eta_min : float, default 0
        Smallest rate.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch, from those before: so another schedule may change them between."""
        rates = self._rates()
        epoch, half, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - half) % (2 * half) == 0:
            # Right after the lowest point the ratio below is 0 / 0.
            rise = (1 - math.cos(math.pi / half)) / 2
            return [rate + (base - low) * rise for rate, base in zip(rates, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * epoch / half)) / (1 + math.cos(math.pi * (epoch - 1) / half))
        return [ratio * (rate - low) + low for rate in rates]

    def _get_closed_form_lr(self) -> list[float | Tensor]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate goes down along a cosine and starts anew.

    Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts" (2017).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    T_0 : int
        Epochs until the first restart.
    T_mult : int, default 1
        How many times as long each next run is.
    eta_min : float, default 0
        Smallest rate.

    Raises
    ------
    ValueError
        If `T_0` or `T_mult` is no positive integer.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present epoch."""
        self._rates()
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to a given one, which may lie between two whole ones.

        Parameters
        ----------
        epoch : float, optional
            For example ``i + batch / batches`` within epoch i.

        Raises
        ------
        ValueError
            If it is negative.
        """
        self._go_to(epoch)

    def _go_to(self, epoch: float | None) -> None:
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._write(values)

    def _place(self, epoch: float) -> None:
        """Find the run in which an epoch lies, and the place in it."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        runs = 0
        if epoch >= self.T_0 and self.T_mult > 1:
            runs = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_i = self.T_0 * self.T_mult**runs
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            self.T_cur = epoch - self.T_0 * (self.T_mult**runs - 1) // (self.T_mult - 1)


class CyclicLR(LRScheduler):
    """The rate goes up and down between two bounds on straight lines, usually in steps of a batch.

    Smith, "Cyclical learning rates for training neural networks" (2017).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    base_lr, max_lr : float, or list with one for each group
        The bounds.
    step_size_up : int, default 2000
        Steps of the way up.
    step_size_down : int, optional
        Steps of the way down; by default as many.
    mode : str, default "triangular"
        How the height changes: not at all, halved with each cycle ("triangular2"), or times ``gamma`` in each step
        ("exp_range").
    gamma : float, default 1
        See `mode`.
    scale_fn : callable, optional
        Gives the height as a share, in place of `mode`.
    scale_mode : str, default "cycle"
        Whether `scale_fn` is called with the number of the cycle, from 1, or that of the step ("iterations").
    cycle_momentum : bool, default True
        Move the momentum in the opposite direction, between `base_momentum` and `max_momentum`.
    base_momentum, max_momentum : float, or list with one for each group; default 0.8 and 0.9
        See `cycle_momentum`.

    Raises
    ------
    ValueError
        If the mode is unknown, a list has another length than the groups, or the optimizer has no momentum to move.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        lows = for_each_group("base_lr", base_lr, optimizer)
        self.max_lrs = for_each_group("max_lr", max_lr, optimizer)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(f"mode is invalid and scale_fn is None: mode={mode!r}")
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            kind = momentum_kind(optimizer)
            self.use_beta1 = kind == "betas"
            self.base_momentums = for_each_group("base_momentum", base_momentum, optimizer)
            self.max_momentums = for_each_group("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                for group, low, high in zip(
                    optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
                ):
                    set_momentum(group, kind, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                set_option(group, "lr", low)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The share of the full height at cycle or step `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / 2.0 ** (x - 1)
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present step, and write the momentum."""
        self._rates()
        at = 1 + self.last_epoch / self.total_size
        cycle = math.floor(at)
        x = at - cycle
        way = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        share = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [low + (high - low) * way * share for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                set_momentum(group, "betas" if self.use_beta1 else "momentum", high - (high - low) * way * share)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer. A function cannot be kept: of a callable object the attributes are."""
        state = super().state_dict()
        custom = state.pop("_scale_fn_custom")
        keeps = custom is not None and not isinstance(custom, FunctionType)
        state["_scale_fn_custom"] = dict(getattr(custom, "__dict__", {})) if keeps else None
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; this schedule's own function stays."""
        values = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if values and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(values)


class OneCycleLR(LRScheduler):
    """The rate goes up once and then down to nearly nothing, in steps of a batch.

    Smith and Topin, "Super-convergence: very fast training of neural networks using large learning rates" (2019).

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    max_lr : float, or list with one for each group
        The largest rate.
    total_steps : int, optional
        Steps of the cycle; or give `epochs` and `steps_per_epoch`.
    epochs, steps_per_epoch : int, optional
        Their product is the number of steps.
    pct_start : float, default 0.3
        Share of the way up.
    anneal_strategy : str, default "cos"
        Along a cosine or a straight line ("linear").
    cycle_momentum : bool, default True
        Move the momentum in the opposite direction, between `max_momentum` and `base_momentum`.
    base_momentum, max_momentum : float, or list with one for each group; default 0.85 and 0.95
        See `cycle_momentum`.
    div_factor : float, default 25
        The first rate is ``max_lr / div_factor``.
    final_div_factor : float, default 1e4
        The last rate is the first over this.
    three_phase : bool, default False
        Go down symmetrically first, and to the last rate after that.

    Raises
    ------
    ValueError
        If an option is out of its range, or the optimizer has no momentum to move.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = _steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, (float, int)) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(self.total_steps, float(pct_start), three_phase)
        self._anneal_func_type = anneal_strategy
        tops = for_each_group("max_lr", max_lr, optimizer)
        self.cycle_momentum = cycle_momentum
        kind = momentum_kind(optimizer) if cycle_momentum else ""
        self.use_beta1 = kind == "betas"
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, tops, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
            if cycle_momentum:
                highs = for_each_group("max_momentum", max_momentum, optimizer)
                lows = for_each_group("base_momentum", base_momentum, optimizer)
                for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                    set_momentum(group, kind, high)
                    group["max_momentum"] = high
                    group["base_momentum"] = low
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rates of the present step, and write the momentum."""
        self._rates()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        share = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                momentum = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], share)
                set_momentum(group, "betas" if self.use_beta1 else "momentum", momentum)
        return rates

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (1 + math.cos(math.pi * share))
        return (end - start) * share + start


def _steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def _phases(steps: int, rise: float, three: bool) -> list[dict[str, Any]]:
    """Parts of a cycle: where each ends, and the keys of the values between which it goes."""
    ends = [rise * steps - 1, 2 * rise * steps - 2, steps - 1] if three else [rise * steps - 1, steps - 1]
    rates = ["initial_lr", "max_lr", "initial_lr", "min_lr"] if three else ["initial_lr", "max_lr", "min_lr"]
    momenta = ["max_momentum", "base_momentum", "max_momentum", "max_momentum"]
    return [
        {
            "end_step": end,
            "start_lr": rates[i],
            "end_lr": rates[i + 1],
            "start_momentum": momenta[i],
            "end_momentum": momenta[i + 1],
        }
        for i, end in enumerate(ends)
    ]

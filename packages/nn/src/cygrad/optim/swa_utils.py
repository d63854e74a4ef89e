"""Means of a model's weights over its training."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn import Module
from cygrad.nn.modules.batchnorm import _BatchNorm
from cygrad.optim.lr_scheduler.base import LRScheduler, check_optimizer, for_each_group
from cygrad.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

AvgFn = Callable[[Tensor, Tensor, Tensor], Tensor]
MultiAvgFn = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


def get_ema_avg_fn(decay: float = 0.999) -> AvgFn:
    """Return the rule of an exponential mean, for `AveragedModel`.

    Parameters
    ----------
    decay : float, default 0.999
        Share of the mean that is kept, from 0 to 1.

    Returns
    -------
    callable
        ``(mean, now, number) -> new mean``.

    Raises
    ------
    ValueError
        If `decay` is out of its range.
    """
    _check_decay(decay)

    @cygrad.no_grad()
    def ema_update(mean: Tensor, now: Tensor, num_averaged: Any) -> Tensor:
        return decay * mean + (1 - decay) * now

    return ema_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAvgFn:
    """Return the rule of an exponential mean that changes a list of means in place; see `get_ema_avg_fn`."""
    _check_decay(decay)

    @cygrad.no_grad()
    def ema_update(means: Sequence[Tensor], now: Sequence[Tensor], num_averaged: Any) -> None:
        for mean, value in zip(means, now, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, 1 - decay)
            else:
                mean.copy_(mean * decay + value * (1 - decay))

    return ema_update


def get_swa_avg_fn() -> AvgFn:
    """Return the rule of the mean of all that were seen, for `AveragedModel`: ``(mean, now, number) -> new mean``."""

    @cygrad.no_grad()
    def swa_update(mean: Tensor, now: Tensor, num_averaged: Tensor | int) -> Tensor:
        return mean + (now - mean) / (num_averaged + 1)

    return swa_update


def get_swa_multi_avg_fn() -> MultiAvgFn:
    """Return the rule of the mean of all that were seen that changes a list of means in place."""

    @cygrad.no_grad()
    def swa_update(means: Sequence[Tensor], now: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        number = float(num_averaged) + 1
        for mean, value in zip(means, now, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, 1 / number)
            else:
                mean.copy_(mean + (value - mean) / number)

    return swa_update


def _check_module(name: str, model: Any) -> None:
    if not isinstance(model, Module):
        raise TypeError(f"{name}(): argument 'model' must be Module, not {type(model).__name__}")


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model whose weights are means over the training.

    Izmailov et al., "Averaging weights leads to wider optima and better generalization" (2018). The first call of
    `update_parameters` copies the weights, each further one takes them into the mean.

    Parameters
    ----------
    model : Module
        It is copied.
    device : optional
        Where the copy goes.
    avg_fn : callable, optional
        ``(mean, now, number of models in the mean) -> new mean``, one parameter at a time.
    multi_avg_fn : callable, optional
        ``(means, now, number)``: changes lists of parameters of one dtype in place. Without either, all models count
        equally.
    use_buffers : bool, default False
        Take means of buffers too, such as the running statistics of batch norms; otherwise they are copied.

    Attributes
    ----------
    module : Module
        The copy.
    n_averaged : Tensor
        Number of models in the mean.

    Raises
    ------
    TypeError
        If `model` is no module.
    AssertionError
        If both rules are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AvgFn | None = None,
        multi_avg_fn: MultiAvgFn | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        _check_module("AveragedModel", model)
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", cygrad.tensor(0, dtype=cygrad.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present weights of a model into the means.

        Parameters
        ----------
        model : Module
            Of the same structure as the one that was copied.

        Raises
        ------
        ValueError
            If it has other parameters or buffers, by number or shape. Nothing has changed then.
        """
        _check_module("update_parameters", model)
        pairs = _pairs("parameters", self.module.parameters(), model.parameters())
        buffers = _pairs("buffers", self.module.buffers(), model.buffers())
        means = pairs + buffers if self.use_buffers else pairs
        if self.n_averaged == 0:
            _copy(means)
        elif self.multi_avg_fn is not None:
            by_dtype = defaultdict(list)
            for mean, now in means:
                by_dtype[mean.dtype].append((mean, now))
            for group in by_dtype.values():
                self.multi_avg_fn([mean for mean, _ in group], [now for _, now in group], self.n_averaged)
        else:
            rule = self.avg_fn or get_swa_avg_fn()
            for mean, now in means:
                mean.copy_(rule(mean, now, self.n_averaged))
        if not self.use_buffers:
            _copy(buffers)
        self.n_averaged += 1


def _pairs(kind: str, means: Iterable[Tensor], now: Iterable[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Tensors of both models, without their history; ValueError if they do not correspond."""
    first, second = [t.detach() for t in means], [t.detach() for t in now]
    shapes, others = [tuple(t.shape) for t in first], [tuple(t.shape) for t in second]
    if len(first) != len(second):
        raise ValueError(f"the averaged model has {len(first)} {kind}, the one given has {len(second)}")
    for i, (shape, other) in enumerate(zip(shapes, others, strict=True)):
        if shape != other:
            raise ValueError(
                f"number {i} of the {kind} has shape {shape} in the averaged model, {other} in the one given"
            )
    return list(zip(first, second, strict=True))


def _copy(pairs: list[tuple[Tensor, Tensor]]) -> None:
    for mean, now in pairs:
        mean.copy_(now)


@cygrad.no_grad()
def update_bn(loader: Iterable, model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, in one pass over the data.

    Parameters
    ----------
    loader : iterable
        Of batches; of a tuple or list, the first entry is the input.
    model : Module
        Its mode and the momenta of its layers are afterwards as before, also after an error.
    device : optional
        Where batches go.
    """
    _check_module("update_bn", model)
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    modes = [(layer, layer.training) for layer in model.modules()]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches
    try:
        model.train()
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        for layer, mode in modes:
            layer.training = mode


class SWALR(LRScheduler):
    """The rate goes to a fixed value, and stays there.

    Parameters
    ----------
    optimizer, last_epoch
        See `LRScheduler`.
    swa_lr : float or list of float
        The value, for all groups or for each.
    anneal_epochs : int, default 10
        Epochs until then.
    anneal_strategy : {"cos", "linear"}
        The way there.

    Raises
    ------
    ValueError
        If the strategy is unknown, or the number of epochs is negative or no integer.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        values = for_each_group("swa_lr", swa_lr, optimizer)
        for value, group in zip(values, optimizer.param_groups, strict=True):
            group["swa_lr"] = value
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """Return which part of the way is behind at a part `t` of the time."""
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float | Tensor]:
        """Compute the rate of each group for the present epoch, from where it is now."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before, now = (self.anneal_func(max(0, min(1, s / length))) for s in (step - 1, step))
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates(), strict=True):
            goal = group["swa_lr"]
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

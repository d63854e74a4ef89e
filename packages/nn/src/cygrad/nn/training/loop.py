"""`fit`: epochs of training with all that goes around them. `Run.train_epoch` and `Run.step` are the loop itself."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.nn.modules import Module
from cygrad.nn.training.logs import Bar, write_csv
from cygrad.nn.training.state import Checkpoint, generators_of, random_states, set_random_states
from cygrad.nn.utils import clip_grad_norm_, clip_grad_value_
from cygrad.nn.utils.rnn import PackedSequence
from cygrad.optim import Optimizer
from cygrad.optim.lr_scheduler import ReduceLROnPlateau
from cygrad.utils.data.collate import rebuilt_mapping, rebuilt_sequence

__all__ = ["accuracy", "evaluate", "fit"]

Metrics = Mapping[str, Callable[[Any, Any], Any]]
Forward = Callable[[Any, Any], tuple[Any, Any]]


def fit(
    model: Any,
    loss: Callable[[Any, Any], Tensor],
    optimizer: Any,
    training: Iterable,
    *,
    epochs: int,
    validation: Iterable | None = None,
    metrics: Metrics | None = None,
    forward: Forward | None = None,
    scheduler: Any = None,
    schedule: str = "epoch",
    accumulate: int = 1,
    clip_norm: float | None = None,
    clip_value: float | None = None,
    autocast: Any = None,
    scaler: Any = None,
    monitor: str | None = None,
    mode: str = "min",
    patience: int | None = None,
    keep_best: bool = False,
    checkpoint: str | os.PathLike | None = None,
    every: int | None = None,
    resume: bool = True,
    generators: Iterable[Any] = (),
    log: str | os.PathLike | None = None,
    writer: Any = None,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Train a model.

    A run that is broken off, also by ``kill -9``, and started again with the same `checkpoint` goes on where the last
    checkpoint was written, and its losses are those of an uninterrupted run to the bit: model, optimizer, scheduler,
    scaler, the place in the epoch, and all random numbers (cygrad's, Python's, NumPy's, those of the loader's
    generators and of `generators`) are part of it.

    Parameters
    ----------
    model : Module
    loss : callable
        ``loss(output, target)`` gives the mean over a batch.
    optimizer : Optimizer
        Of the model's parameters; one that needs a closure (LBFGS) works as well.
    training : iterable
        Gives batches anew in every epoch, as a `DataLoader` does: sequences ``(*inputs, target)``.
    epochs : int
        Passes over `training`, those of an interrupted run included.
    validation : iterable, optional
        Batches on which the model is measured after each epoch.
    metrics : dict, optional
        Name to ``metric(output, target)``, a mean over a batch, for example `accuracy`.
    forward : callable, optional
        ``forward(model, batch)`` gives ``(output, target)``; by default ``model(*inputs)`` and the last item, which are
        brought to the device of the model's first parameter. A model that wants them elsewhere needs a `forward`.
    scheduler : LRScheduler, optional
        Stepped after each epoch, with the monitored value if it is `ReduceLROnPlateau`.
    schedule : {"epoch", "step"}
        "step" steps the scheduler after each step of the optimizer.
    accumulate : int, default 1
        Batches whose gradients make one step. Each counts by its samples, so that the step is that of one large batch,
        also at the end of an epoch.
    clip_norm, clip_value : float, optional
        Gradients are clipped to this norm, or value by value.
    autocast : dtype, optional
        Forward passes compute in it where that is safe, see `cygrad.autocast`: ``cygrad.bfloat16``.
    scaler : GradScaler, optional
        Scales losses; needed for ``autocast=cygrad.float16``.
    monitor : str, optional
        Column of the history that says which epoch is best; "val_loss" with `validation`, else "loss".
    mode : {"min", "max"}
        Whether less or more of it is better.
    patience : int, optional
        Stop after so many epochs without a better one.
    keep_best : bool
        Leave the model with the weights of the best epoch.
    checkpoint : path, optional
        File that is replaced after each epoch, and, with `every`, after so many steps. If it exists, the run goes on
        from it, unless `resume` is False.
    generators : iterable of Generator
        Further sources of random numbers that data or model use.
    log : path, optional
        CSV file with the history, replaced after each epoch.
    writer : SummaryWriter, optional
        Gets each column as a scalar after each epoch, and "loss_of_step" after each step.
    progress : bool, default True
        Show a progress bar on the standard error, and a line for each epoch.

    Returns
    -------
    list of dict
        One for each epoch: "epoch", "lr", "loss" and the metrics as means over the training samples (while the weights
        change), and, with `validation`, the same after the epoch with "val_" in front.

    Raises
    ------
    FloatingPointError
        The loss is not finite. The weights are those before that step; `cygrad.autograd.find_nan` tells where it began.
    TypeError
        `model` is no Module, or `optimizer` no Optimizer.
    ValueError
        An option has no meaning, or a loader gives no batches.
    RuntimeError
        The checkpoint belongs to another model, optimizer or set of options; nothing was changed.
    """
    options = {k: v for k, v in locals().items() if k not in ("model", "loss", "optimizer", "training")}
    _check_kind("fit", "model", model, Module)
    _check_kind("fit", "optimizer", optimizer, Optimizer)
    _check(options)
    run = Run(model, loss, optimizer, training, options)
    run.restore()
    with run.bar:
        while len(run.history) < epochs and not run.stopped:
            run.train_epoch()
            run.end_epoch()
    if keep_best and run.best["model"] is not None:
        model.load_state_dict(run.best["model"])
    return run.history


def _check_kind(function: str, argument: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{function}(): argument '{argument}' must be {kind.__name__}, not {type(value).__name__}")


def _check(options: dict[str, Any]) -> None:
    for name in ("epochs", "accumulate", "every", "patience"):
        number = options[name]
        optional = name in ("every", "patience")
        if not (number is None and optional) and (type(number) is not int or number < 1):
            raise ValueError(f"fit(): {name} must be a positive int{' or None' if optional else ''}, got {number!r}")
    for name, words in (("schedule", ("epoch", "step")), ("mode", ("min", "max"))):
        if options[name] not in words:
            raise ValueError(f"fit(): {name} must be one of {', '.join(words)}, got {options[name]!r}")
    if options["schedule"] == "step" and isinstance(options["scheduler"], ReduceLROnPlateau):
        raise ValueError('fit(): ReduceLROnPlateau wants the value of an epoch: use schedule="epoch"')
    for name in ("checkpoint", "log"):
        folder = os.path.dirname(os.path.abspath(options[name] or ""))
        if options[name] is not None and not os.path.isdir(folder):
            raise FileNotFoundError(f"fit(): the folder of {name}={os.fspath(options[name])!r} does not exist")
    for name in options["metrics"] or ():
        if name in ("epoch", "lr", "loss") or name.startswith("val_"):
            raise ValueError(f"fit(): metrics: {name!r} is the name of another column")
    columns = ["loss", *(options["metrics"] or ())]
    columns += [f"val_{name}" for name in columns] if options["validation"] is not None else []
    if options["monitor"] is None:
        options["monitor"] = "val_loss" if "val_loss" in columns else "loss"
    elif options["monitor"] not in columns:
        raise ValueError(f"fit(): monitor={options['monitor']!r} is none of the columns {', '.join(columns)}")


class Run:
    """A training run: what `fit` was given, and how far it is. Options are attributes under their names."""

    epochs: int
    metrics: Metrics | None
    forward: Forward
    checkpoint: Any

    def __init__(self, model: Any, loss: Callable, optimizer: Any, training: Iterable, options: dict[str, Any]) -> None:
        self.__dict__.update(options)
        self.model, self.loss, self.optimizer, self.training = model, loss, optimizer, training
        self.place = _place(model)
        self.forward = options["forward"] or partial(_forward, self.place)
        self.generators = [*generators_of(training), *generators_of(options["validation"]), *options["generators"]]
        self.file = None if options["checkpoint"] is None else Checkpoint(options["checkpoint"])
        self.bar = Bar(options["epochs"], training, options["progress"])
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {"value": None, "epoch": 0, "model": None}
        self.stopped = False
        self.steps = 0  # of the whole run
        self.batches = 0  # read in this epoch
        self.totals = Totals()
        self.start: dict[str, Any] | None = None  # random numbers at the start of the epoch

    # ---- the loop

    def train_epoch(self) -> None:
        self.model.train()
        for batches in self.groups():
            self.step(batches)
            if self.every and self.steps % self.every == 0:
                self.save()

    def groups(self) -> Iterator[list[Any]]:
        """The batches of the epoch, as many at a time as make one step; those that were done before are left out."""
        done, now = self.batches, None
        if done:
            now = random_states(self.generators)
            set_random_states(self.start, self.generators)
        else:
            self.start = random_states(self.generators)
            self.totals = Totals()
        self.bar.epoch(len(self.history) + 1, done)
        batches = iter(self.training)
        skipped = sum(1 for _ in islice(batches, done))
        if now is not None:
            set_random_states(now, self.generators)
        if skipped < done:
            raise RuntimeError(f"fit(): the checkpoint is after batch {done}, but an epoch has {skipped} batches only")
        while group := list(islice(batches, self.accumulate)):
            self.batches += len(group)
            yield group
        if not self.batches:
            raise ValueError("fit(): the training loader gave no batches")

    def step(self, batches: list[Any]) -> None:
        """One step of the optimizer."""
        samples = sum(map(_samples, batches))
        totals = Totals()

        def compute() -> Tensor:
            self.optimizer.zero_grad()
            whole = cygrad.zeros(())
            for batch in batches:
                share = _samples(batch) / samples
                with _autocast(self.autocast, self.place):
                    output, target = self.forward(self.model, batch)
                    value = self.loss(output, target)
                if totals.samples < samples:
                    totals.add(_samples(batch), {"loss": value}, self.metrics, output, target)
                    self.refuse_nan(totals)
                part = value if len(batches) == 1 else value * share
                (part if self.scaler is None else self.scaler.scale(part)).backward()
                whole = whole + part.detach()
            self.clip()
            return whole

        if self.scaler is None:
            self.optimizer.step(compute)
        else:
            compute()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.scheduler is not None and self.schedule == "step":
            self.scheduler.step()
        self.steps += 1
        self.totals.merge(totals)
        if self.writer is not None:
            self.writer.add_scalar("loss_of_step", totals.means()["loss"], self.steps)
        self.bar.step(len(batches), self.totals.means())

    def clip(self) -> None:
        if self.clip_norm is None and self.clip_value is None:
            return
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.clip_value is not None:
            clip_grad_value_(parameters, self.clip_value)
        if self.clip_norm is not None:
            clip_grad_norm_(parameters, self.clip_norm)

    def end_epoch(self) -> None:
        row = {"epoch": len(self.history) + 1, "lr": float(self.optimizer.param_groups[0]["lr"]), **self.totals.means()}
        if self.validation is not None:
            found = evaluate(self.model, self.loss, self.validation, self.metrics, self.forward, self.autocast)
            row |= {f"val_{name}": value for name, value in found.items()}
        self.history.append(row)
        self.batches = 0
        self.note_best(row[self.monitor])
        if self.scheduler is not None and self.schedule == "epoch":
            plateau = isinstance(self.scheduler, ReduceLROnPlateau)
            self.scheduler.step(*[row[self.monitor]] if plateau else [])
        if self.log is not None:
            write_csv(self.log, self.history)
        if self.writer is not None:
            for name, value in row.items():
                if name != "epoch":
                    self.writer.add_scalar(name, value, row["epoch"])
            self.writer.flush()
        self.save()
        self.bar.line(row)

    def note_best(self, value: float) -> None:
        best = self.best["value"]
        if not math.isnan(value) and (best is None or (value < best if self.mode == "min" else value > best)):
            self.best = {"value": value, "epoch": len(self.history), "model": None}
            if self.keep_best:
                self.best["model"] = {k: _copied(v) for k, v in self.model.state_dict().items()}
        elif self.patience is not None:
            self.stopped = len(self.history) - self.best["epoch"] >= self.patience

    def refuse_nan(self, totals: Totals) -> None:
        """A loss that is no number would spoil the weights. A scaler finds infinite gradients itself."""
        scaled = self.scaler is not None and self.scaler.is_enabled()
        if not scaled and not math.isfinite(totals.sums["loss"]):
            raise FloatingPointError(
                f"fit(): the loss is {totals.sums['loss']} in epoch {len(self.history) + 1}, step {self.steps + 1} of "
                "the run. The weights are those before this step; autograd.find_nan() tells where such values begin"
            )

    # ---- what is saved

    def parts(self) -> dict[str, Any]:
        """What has a state of its own."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}
        return {name: part for name, part in parts.items() if part is not None}

    def save(self) -> None:
        if self.file is not None:
            progress = {"history": self.history, "best": self.best, "stopped": self.stopped, "steps": self.steps}
            progress |= {"batches": self.batches, "totals": vars(self.totals), "accumulate": self.accumulate}
            progress |= {"start": self.start, "now": random_states(self.generators)}
            self.file.write(self.parts(), progress)

    def restore(self) -> None:
        """Go on from the checkpoint, where there is one."""
        if self.file is None or not self.resume or not self.file.exists():
            return
        progress = self.file.read(self.parts(), self.accumulate, len(self.generators))
        set_random_states(progress["now"], self.generators)
        self.history, self.best, self.stopped = progress["history"], progress["best"], progress["stopped"]
        self.steps, self.batches, self.start = progress["steps"], progress["batches"], progress["start"]
        self.totals.__dict__.update(progress["totals"])


class Totals:
    """Sums over samples of the loss and the metrics."""

    def __init__(self) -> None:
        self.samples = 0
        self.sums: dict[str, float] = {}

    def add(self, samples: int, values: dict[str, Any], metrics: Metrics | None, output: Any, target: Any) -> None:
        if metrics:
            with cygrad.no_grad():
                values = values | {name: metric(output, target) for name, metric in metrics.items()}
        self.samples += samples
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value) * samples

    def merge(self, other: Totals) -> None:
        self.samples += other.samples
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        return {name: value / self.samples for name, value in self.sums.items()}


@cygrad.no_grad()
def evaluate(
    model: Any,
    loss: Callable[[Any, Any], Tensor] | None,
    loader: Iterable,
    metrics: Metrics | None = None,
    forward: Forward | None = None,
    autocast: Any = None,
) -> dict[str, float]:
    """Measure a model in evaluation mode; afterwards its modules are in the modes that they were in.

    Parameters
    ----------
    model, loss, metrics, forward, autocast
        See `fit`; without a loss only the metrics are computed.
    loader : iterable
        Batches.

    Returns
    -------
    dict of str to float
        "loss" and the metrics: means over all samples.

    Raises
    ------
    ValueError
        The loader gives no batches.
    """
    _check_kind("evaluate", "model", model, Module)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    totals, place = Totals(), _place(model)
    forward = forward or partial(_forward, place)
    try:
        for batch in loader:
            with _autocast(autocast, place):
                output, target = forward(model, batch)
                values = {} if loss is None else {"loss": loss(output, target)}
            totals.add(_samples(batch), values, metrics, output, target)
    finally:
        for module, training in modes:
            module.training = training
    if not totals.samples:
        raise ValueError("evaluate(): the loader gave no batches")
    return totals.means()


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """The share of samples whose largest score is that of their class.

    Parameters
    ----------
    output : Tensor, shape (N, C, ...)
    target : Tensor, shape (N, ...)
        Class indices.

    Returns
    -------
    Tensor, shape ()
    """
    _check_kind("accuracy", "output", output, Tensor)
    _check_kind("accuracy", "target", target, Tensor)
    return (output.argmax(1) == target).float().mean()


def _forward(place: cygrad.device, model: Any, batch: Any) -> tuple[Any, Any]:
    *inputs, target = _brought(batch, place)
    return model(*inputs), target


def _place(model: Any) -> cygrad.device:
    """Where a model takes its batches: the device of its first parameter."""
    parameter = next(iter(model.parameters()), None)
    return cygrad.device("cpu") if parameter is None else parameter.device


def _brought(item: Any, place: cygrad.device) -> Any:
    """A batch whose tensors are on a device; those in page-locked memory come while the program goes on.

    Containers keep their types, and are the same objects where nothing has to move.
    """
    if isinstance(item, (Tensor, PackedSequence)):
        return item.to(place, non_blocking=True)
    if isinstance(item, Mapping):
        values = {key: _brought(value, place) for key, value in item.items()}
        return item if all(values[key] is item[key] for key in values) else rebuilt_mapping(item, values)
    if not isinstance(item, (list, tuple)):
        return item
    parts = [_brought(value, place) for value in item]
    if all(new is old for new, old in zip(parts, item, strict=True)):
        return item
    return type(item)(*parts) if hasattr(item, "_fields") else rebuilt_sequence(item, parts)


def _autocast(dtype: Any, place: cygrad.device) -> AbstractContextManager:
    return nullcontext() if dtype is None else cygrad.autocast(place.type, dtype=dtype)


def _samples(batch: Any) -> int:
    """How many samples a batch holds: the length of its first tensor."""
    tensor = next(_tensors(batch), None)
    if tensor is None or not len(tensor):
        raise ValueError(f"a batch must hold samples, along the first dimension of its tensors: got {batch!r:.200}")
    return len(tensor)


def _tensors(batch: Any) -> Iterator[Tensor]:
    """The tensors in a batch that have a first dimension."""
    if isinstance(batch, Tensor):
        yield from (batch,) if batch.dim() else ()
    elif isinstance(batch, (list, tuple, Mapping)):
        for item in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(item)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value

"""Rules that look at a parameter as a matrix: Muon and Adafactor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.optim._options import check_not_negative, check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["Adafactor", "Muon"]


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal, for the weights of hidden layers.

    Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024). Biases, embeddings and the last
    layer are left to another optimizer, such as `AdamW`.

    Parameters
    ----------
    params : iterable
        See `Optimizer`; each has two dimensions.
    lr : float, default 1e-3
        Learning rate.
    weight_decay : float, default 0.1
        In each step the parameter shrinks by ``lr * weight_decay``.
    momentum : float, default 0.95
        Share of the running mean of gradients that is kept.
    nesterov : bool, default True
        Look ahead: blend the mean with the gradient once more.
    ns_coefficients : (float, float, float)
        Of the polynomial that is iterated.
    eps : float, default 1e-7
        Least norm by which a matrix is divided.
    ns_steps : int, default 5
        Iterations, fewer than 100.
    adjust_lr_fn : {None, "original", "match_rms_adamw"}
        Rate for matrices that are not square: times ``sqrt(max(1, rows / columns))``, which is the default, or times
        ``0.2 * sqrt(max(rows, columns))``, which makes steps as large as AdamW's (Liu et al., "Muon is scalable for
        LLM training", 2025).

    Raises
    ------
    ValueError
        If a parameter is no matrix, or an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        check_not_negative("momentum value", momentum)
        check_not_negative("weight_decay value", weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"adjust_lr_fn is None, 'original' or 'match_rms_adamw', got {adjust_lr_fn!r}")
        if ns_steps >= 100:
            raise ValueError(f"ns_steps must be less than 100, got {ns_steps}")
        if len(ns_coefficients) != 3:
            raise ValueError(f"ns_coefficients must be exactly 3 values, got {len(ns_coefficients)}")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        for i, param in enumerate(group["params"]):
            if param.dim() != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters, parameter {i} has shape {tuple(param.shape)}: leave it to "
                    "another optimizer, such as AdamW"
                )

    @cygrad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            rate, momentum = float(group["lr"]), group["momentum"]
            for p in with_gradients(self, group):
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = cygrad.zeros_like(p.grad, requires_grad=False)
                buffer = state["momentum_buffer"]
                buffer.lerp_(p.grad, 1 - momentum)
                update = p.grad.lerp(buffer, momentum) if group["nesterov"] else buffer
                update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
                p.mul_(1 - rate * group["weight_decay"])
                p.add_(update, alpha=-rate * _ratio(group["adjust_lr_fn"], *p.shape))
        return loss


def with_gradients(optimizer: Optimizer, group: dict[str, Any]) -> list[Tensor]:
    """The parameters of a group that have gradients, checked before one of them changes."""
    name = type(optimizer).__name__
    found = [p for p in group["params"] if p.grad is not None]
    for p in found:
        if not p.is_floating_point():
            raise RuntimeError(f"{name} needs real floating-point parameters, got {p.dtype}")
    return found


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Bring all singular values near 1 by an iterated odd polynomial, in bfloat16: precision is not what matters."""
    a, b, c = coefficients
    wide = matrix.size(0) <= matrix.size(1)
    x = matrix.bfloat16() if wide else matrix.bfloat16().T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = cygrad.addmm(x, cygrad.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.T


def _ratio(kind: str | None, rows: int, columns: int) -> float:
    """What the learning rate is multiplied by for a matrix of this shape."""
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns)) if columns else 1.0


class Adafactor(Optimizer):
    """Steps over the root of mean squares, of which only the means of rows and columns are kept.

    Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost" (2018).

    Parameters
    ----------
    params : iterable
        See `Optimizer`. The state of a parameter of two or more dimensions is smaller than the parameter.
    lr : float, default 1e-2
        Largest relative step, and the rate of weight decay.
    beta2_decay : float, default -0.8
        Power of the step number by which new squares count less and less.
    eps : (float or None, float), default (None, 1e-3)
        Least root of the mean square, the dtype's smallest step from 1 if None; and least size of a parameter that the
        step is relative to.
    d : float, default 1
        Largest root mean square of an update before it is scaled; at least 1.
    weight_decay : float, default 0
        In each step the parameter shrinks by ``lr * weight_decay``.
    foreach : bool, optional
        See `Adam`.
    maximize : bool, default False
        Go up the gradient.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            check_not_negative("epsilon1 value", eps[0])
        check_not_negative("epsilon2 value", eps[1])
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        check_not_negative("weight_decay value", weight_decay)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    @cygrad.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            for p in with_gradients(self, group):
                if not self.state[p]:
                    self.state[p] = _factors(p.grad)
                if p.numel():
                    _adafactor(p, -p.grad if group["maximize"] else p.grad, self.state[p], group)
        return loss


def _factors(gradient: Tensor) -> dict[str, Tensor]:
    """What a parameter starts with."""
    state = {"step": cygrad.tensor(0.0)}
    if gradient.dim() < 2:
        return state | {"variance": cygrad.zeros_like(gradient, requires_grad=False)}
    *lead, rows, columns = gradient.shape
    return state | {
        "row_var": gradient.new_zeros((*lead, rows, 1), requires_grad=False),
        "col_var": gradient.new_zeros((*lead, 1, columns), requires_grad=False),
    }


def _adafactor(p: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """Update one parameter and its state."""
    least = cygrad.finfo(p.dtype).eps if group["eps"][0] is None else group["eps"][0]
    rate = float(group["lr"])
    state["step"] += 1
    t = state["step"].item()
    share = t ** group["beta2_decay"]
    size = max(group["eps"][1], _mean_root(p)) * min(rate, 1 / t**0.5)
    if group["weight_decay"] != 0:
        p.mul_(1 - rate * group["weight_decay"])
    squares = gradient * gradient
    if gradient.dim() > 1:
        rows, columns = state["row_var"], state["col_var"]
        rows.lerp_(squares.mean(-1, keepdim=True), share)
        columns.lerp_(squares.mean(-2, keepdim=True), share)
        variance = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=least)
    else:
        state["variance"].lerp_(squares, share)
        variance = state["variance"]
    update = gradient * variance.clamp(min=least * least).rsqrt()
    p.add_(update, alpha=-size / max(1.0, _mean_root(update) / group["d"]))


def _mean_root(t: Tensor) -> float:
    return t.norm(2).item() / t.numel() ** 0.5

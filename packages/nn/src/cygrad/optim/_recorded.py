"""Steps that autograd records, for ``differentiable=True``: each rule once more, in tensor operations.

The update loops of `_step` compute the same numbers without a record; a test compares the two. Here options may be
tensors that need gradients, and states are new tensors that keep their history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.optim.optimizer import Optimizer

__all__ = ["recorded_step"]

# (parameter, gradient with weight decay, old state, group) -> (what is taken from the parameter, new state)
Rule = Callable[[Tensor, Tensor, dict[str, Any], dict[str, Any]], tuple[Tensor, dict[str, Any]]]


@cygrad.enable_grad()
def recorded_step(
    optimizer: Optimizer, group: dict[str, Any], rule: Rule, start: Callable[[Tensor], dict[str, Any]]
) -> None:
    """Update the parameters of a group, in place and with a record.

    Parameters
    ----------
    optimizer : Optimizer
    group : dict
    rule : callable
        One of this module.
    start : callable
        Makes the state that a parameter starts with.

    Raises
    ------
    RuntimeError
        If a parameter is a leaf that requires gradients: its history could not be kept. Nothing has changed then.
    """
    params = [p for p in group["params"] if p.grad is not None]
    for p in params:
        if p.is_leaf and p.requires_grad:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation: differentiable=True "
                f"updates results of other operations, such as p.clone(), not a leaf of shape {tuple(p.shape)}"
            )
    for p in params:
        gradient = -p.grad if group["maximize"] else p.grad
        decay, shrink = group.get("weight_decay", 0), 0
        if group.get("decoupled_weight_decay"):
            decay, shrink = 0, group["lr"] * decay
        old, before = p.clone(), optimizer.state.get(p)  # what the record saves must not be written to below
        kept = old * (1 - shrink)
        update, state = rule(kept, gradient + decay * old, dict(before) if before else start(p), group)
        p.copy_(kept - update)
        optimizer.state[p] = state


def _mean(old: Tensor, new: Tensor, keep: Any) -> Tensor:
    return old + (new - old) * (1 - keep)


def _mean_square(old: Tensor, g: Tensor, keep: Any) -> Tensor:
    return keep * old + (1 - keep) * g * g


def _count(state: dict[str, Any]) -> float:
    """Count a step; return how many there were."""
    state["step"] = state["step"].detach() + 1
    return float(state["step"].item())


def sgd(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Gradient descent with momentum."""
    if not o["momentum"]:
        return o["lr"] * g, state
    before = state.get("momentum_buffer")
    buffer = g if before is None else o["momentum"] * before + (1 - o["dampening"]) * g
    return o["lr"] * (g + o["momentum"] * buffer if o["nesterov"] else buffer), {"momentum_buffer": buffer}


def adam(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Adam and AdamW."""
    t, (keep, keep_square) = _count(state), o["betas"]
    m = state["exp_avg"] = _mean(state["exp_avg"], g, keep)
    v = state["exp_avg_sq"] = _mean_square(state["exp_avg_sq"], g, keep_square)
    if o["amsgrad"]:
        top = state.get("max_exp_avg_sq")
        v = state["max_exp_avg_sq"] = v if top is None else cygrad.maximum(top, v)
    divisor = v.sqrt() / (1 - keep_square**t) ** 0.5 + o["eps"]
    return o["lr"] / (1 - keep**t) * m / divisor, state


def adadelta(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Adadelta."""
    _count(state)
    v = state["square_avg"] = _mean_square(state["square_avg"], g, o["rho"])
    delta = (state["acc_delta"] + o["eps"]).sqrt() / (v + o["eps"]).sqrt() * g
    state["acc_delta"] = _mean_square(state["acc_delta"], delta, o["rho"])
    return o["lr"] * delta, state


def adagrad(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Adagrad."""
    t = _count(state)
    state["sum"] = state["sum"] + g * g
    return o["lr"] / (1 + (t - 1) * o["lr_decay"]) * g / (state["sum"].sqrt() + o["eps"]), state


def adamax(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Adamax."""
    t, (keep, keep_square) = _count(state), o["betas"]
    m = state["exp_avg"] = _mean(state["exp_avg"], g, keep)
    top = state["exp_inf"] = cygrad.maximum(keep_square * state["exp_inf"], g.abs() + o["eps"])
    return o["lr"] / (1 - keep**t) * m / top, state


def asgd(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Averaged gradient descent."""
    t = _count(state)
    eta, mu = o["lr"] if t == 1 else state["eta"], state["mu"]
    update = o["lambd"] * eta * p + eta * g
    state["ax"] = state["ax"] + (p - update - state["ax"]) * mu
    rate = o["lr"] / (1 + o["lambd"] * o["lr"] * t) ** o["alpha"]
    state["eta"] = rate if isinstance(rate, Tensor) else cygrad.tensor(rate)
    state["mu"] = cygrad.tensor(1 / max(1.0, t - o["t0"]))
    return update, state


def nadam(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """NAdam."""
    t, (keep, keep_square) = _count(state), o["betas"]
    m = state["exp_avg"] = _mean(state["exp_avg"], g, keep)
    v = state["exp_avg_sq"] = _mean_square(state["exp_avg_sq"], g, keep_square)
    now, following = (keep * (1 - 0.5 * 0.96 ** (k * o["momentum_decay"])) for k in (t, t + 1))
    product = state["mu_product"] = state["mu_product"].detach() * now
    divisor = (v / (1 - keep_square**t)).sqrt() + o["eps"]
    share, share_of_mean = (1 - now) / (1 - product.item()), following / (1 - product.item() * following)
    return o["lr"] * (share * g + share_of_mean * m) / divisor, state


def radam(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """RAdam."""
    t, (keep, keep_square) = _count(state), o["betas"]
    m = state["exp_avg"] = _mean(state["exp_avg"], g, keep)
    v = state["exp_avg_sq"] = _mean_square(state["exp_avg_sq"], g, keep_square)
    rate, left = o["lr"] / (1 - keep**t), 1 - keep_square**t
    longest = 2 / (1 - keep_square) - 1
    length = longest - 2 * t * keep_square**t / left
    if length <= 5:  # the variance is not known well enough yet
        return rate * m, state
    certain = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return rate * m * (certain * left) ** 0.5 / (v.sqrt() + o["eps"]), state


def rmsprop(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """RMSprop."""
    _count(state)
    v = state["square_avg"] = _mean_square(state["square_avg"], g, o["alpha"])
    if o["centered"]:
        mean = state["grad_avg"] = _mean(state["grad_avg"], g, o["alpha"])
        v = v - mean * mean
    update = g / (v.sqrt() + o["eps"])
    if o["momentum"] > 0:
        update = state["momentum_buffer"] = o["momentum"] * state["momentum_buffer"] + update
    return o["lr"] * update, state


def rprop(p: Tensor, g: Tensor, state: dict[str, Any], o: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """Rprop."""
    _count(state)
    both, (shrink, grow) = g * state["prev"], o["etas"]
    ones = cygrad.ones_like(g)
    factor = cygrad.where(both > 0, grow * ones, cygrad.where(both < 0, shrink * ones, ones))
    size = state["step_size"] = (state["step_size"] * factor).clamp(*o["step_sizes"])
    state["prev"] = cygrad.where(both < 0, cygrad.zeros_like(g), g)
    return state["prev"].sign() * size, state

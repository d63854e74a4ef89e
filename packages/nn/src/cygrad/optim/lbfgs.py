"""LBFGS: steps along directions that the last gradients show, with a search for their length."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import cygrad
from cygrad import Tensor
from cygrad.optim._options import check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["LBFGS"]

_DECREASE = 1e-4  # share of the decrease that the slope promises, which a step must reach
_CURVATURE = 0.9  # share of the slope that may be left at the end of a step
_SMALLEST_BRACKET = 1e-9  # of any parameter's change
_SAME = 1e-10  # curvature below which a pair of changes teaches nothing

Number = float | Tensor


class LBFGS(Optimizer):
    """Limited-memory quasi-Newton steps: several evaluations of the loss in each call of `step`.

    Liu and Nocedal, "On the limited memory BFGS method for large scale optimization" (1989); the search for a step
    that fulfils the strong Wolfe conditions after Nocedal and Wright, "Numerical optimization" (2006), section 3.5.

    Parameters
    ----------
    params : iterable
        See `Optimizer`; one group only. All of them are floating-point or complex.
    lr : float, default 1
        Length of a step in directions that the method finds; where the search begins, if there is one.
    max_iter : int, default 20
        Most directions in one call of `step`.
    max_eval : int, optional
        Most evaluations of the closure in one call; ``max_iter * 5 // 4`` if not given.
    tolerance_grad : float, default 1e-7
        The optimum is reached where no element of the gradient is larger.
    tolerance_change : float, default 1e-9
        Nor does it go on where the loss or all parameters change by less.
    history_size : int, default 100
        Pairs of changes that are remembered, each as large as all parameters twice.
    line_search_fn : {None, "strong_wolfe"}
        Whether the length of each step is searched for.

    Raises
    ------
    ValueError
        If there are several groups, or the learning rate is negative.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(
                f"LBFGS doesn't support per-parameter options (parameter groups), got {len(self.param_groups)} groups"
            )

    @cygrad.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Go along up to `max_iter` directions.

        Parameters
        ----------
        closure : callable
            Computes the loss anew, with gradients, and returns it. It is called several times, so it must clear the
            gradients first, and give the same loss for the same parameters.

        Returns
        -------
        object
            What the closure returned at first.

        Raises
        ------
        RuntimeError
            If the line search is an unknown one. After an error, also of the closure, parameters and state are as
            before.
        """
        group = self.param_groups[0]
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {group['line_search_fn']!r}")
        first = group["params"][0]
        place = _Place(group["params"], closure)
        # Lists are copied, so that what an error of the closure interrupts leaves no half of a change behind.
        state = {key: list(value) if isinstance(value, list) else value for key, value in self.state[first].items()}
        before = place.copy()
        try:
            loss = _go(group, state, place)
        except BaseException:
            place.restore(before)
            raise
        self.state[first] = state
        return loss


def _go(group: dict[str, Any], state: dict[str, Any], place: _Place) -> Any:
    """One call of `step`: move the parameters and write the state; return the first loss."""
    state.setdefault("func_evals", 0)
    state.setdefault("n_iter", 0)
    original = place.evaluate()
    loss, gradient = float(original), place.gradient()
    evaluations = 1
    state["func_evals"] += 1
    if gradient.abs().max() <= group["tolerance_grad"]:
        return original
    for iteration in range(1, group["max_iter"] + 1):
        state["n_iter"] += 1
        _remember(state, gradient, group["history_size"])
        direction = state["d"]
        state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
        length = group["lr"].item() if isinstance(group["lr"], Tensor) else group["lr"]
        if state["n_iter"] == 1:
            length = min(1.0, 1.0 / gradient.abs().sum()) * length
        state["t"] = length
        slope = gradient.dot(direction)
        if slope > -group["tolerance_change"]:
            break
        calls = 0
        if group["line_search_fn"]:
            start = _Point(0, loss, gradient, slope)
            found, calls = _search(place, direction, start, length, group["max_eval"] - evaluations)
            loss, gradient, state["t"] = found.loss, found.gradient, found.length
            place.move(direction, found.length)
        else:
            place.move(direction, length)
            if iteration != group["max_iter"]:  # the gradient after the last step is the next call's to compute
                loss, gradient = float(place.evaluate()), place.gradient()
                calls = 1
        evaluations += calls
        state["func_evals"] += calls
        if evaluations >= group["max_eval"] or _finished(group, state, loss, gradient):
            break
    return original


def _finished(group: dict[str, Any], state: dict[str, Any], loss: float, gradient: Tensor) -> bool:
    """Whether the optimum is reached, or nothing changes any more."""
    return bool(
        gradient.abs().max() <= group["tolerance_grad"]
        or (state["d"] * state["t"]).abs().max() <= group["tolerance_change"]
        or abs(loss - state["prev_loss"]) < group["tolerance_change"]
    )


def _remember(state: dict[str, Any], gradient: Tensor, most: int) -> None:
    """Add the last change to the history, and write the next direction to the state."""
    if state["n_iter"] == 1:
        state.update(d=gradient.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return
    change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    curvature = change.dot(step)
    changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    if curvature > _SAME:
        if len(changes) == most:
            for history in (changes, steps, inverses):
                history.pop(0)
        changes.append(change)
        steps.append(step)
        inverses.append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)
    shares = state.setdefault("al", [None] * most)
    r = gradient.neg()
    for i in reversed(range(len(changes))):
        shares[i] = steps[i].dot(r) * inverses[i]
        r.add_(changes[i], alpha=-shares[i].item())
    r = r * state["H_diag"]
    for i in range(len(changes)):
        r.add_(steps[i], alpha=(shares[i] - changes[i].dot(r) * inverses[i]).item())
    state["d"] = r


class _Place:
    """All parameters as one vector, in which the method moves."""

    def __init__(self, params: list[Tensor], closure: Callable[[], Any]) -> None:
        self.params = params
        self.closure = closure

    @cygrad.enable_grad()
    def evaluate(self) -> Any:
        return self.closure()

    def gradient(self) -> Tensor:
        """The gradients of all parameters, one after the other; zero where there is none."""
        parts = []
        for p in self.params:
            part = cygrad.zeros_like(p) if p.grad is None else p.grad.detach()
            parts.append((cygrad.view_as_real(part) if part.is_complex() else part).reshape(-1))
        return cygrad.cat(parts)

    def move(self, direction: Tensor, length: Number) -> None:
        start, length = 0, float(length)
        for p in self.params:
            real = cygrad.view_as_real(p) if p.is_complex() else p
            real.add_(direction[start : start + real.numel()].view(real.shape), alpha=length)
            start += real.numel()

    def copy(self) -> list[Tensor]:
        return [p.clone() for p in self.params]

    def restore(self, before: list[Tensor]) -> None:
        for p, kept in zip(self.params, before, strict=True):
            p.copy_(kept)

    def probe(self, direction: Tensor, length: Number) -> _Point:
        """What the closure gives at some length of the direction; the parameters are afterwards where they were."""
        before = self.copy()
        self.move(direction, length)
        loss, gradient = float(self.evaluate()), self.gradient()
        self.restore(before)
        return _Point(length, loss, gradient, gradient.dot(direction))


class _Point(NamedTuple):
    """A length of the direction, with the loss there, its gradient, and its slope along the direction."""

    length: Number
    loss: float
    gradient: Tensor
    slope: Tensor


def _search(place: _Place, direction: Tensor, start: _Point, length: Number, most: int) -> tuple[_Point, int]:
    """Find a length that fulfils the strong Wolfe conditions, in about `most` evaluations; say how many it took."""
    before, here = start, place.probe(direction, length)
    rounds = 0
    while rounds < most:
        if _too_high(here, start) or (rounds > 1 and here.loss >= before.loss):
            bracket = [before, here]
            break
        if _flat(here, start):
            return here, rounds + 1
        if here.slope >= 0:
            bracket = [before, here]
            break
        bounds = here.length + 0.01 * (here.length - before.length), here.length * 10
        before, here = here, place.probe(direction, _cubic_minimum(before, here, bounds))
        rounds += 1
    else:
        return (here if here.loss < start.loss else start), rounds + 1
    return _zoom(place, direction, start, bracket, most, rounds)


def _zoom(
    place: _Place, direction: Tensor, start: _Point, bracket: list[_Point], most: int, rounds: int
) -> tuple[_Point, int]:
    """Make a bracket around such a length smaller until it is found."""
    low = int(bracket[1].loss < bracket[0].loss)
    size = direction.abs().max()
    stuck = False
    while rounds < most:
        best, other = bracket[low], bracket[1 - low]
        left, right = min(best.length, other.length), max(best.length, other.length)
        if (right - left) * size < _SMALLEST_BRACKET:
            break
        length = _cubic_minimum(best, other, (left, right))
        margin = 0.1 * (right - left)
        if min(right - length, length - left) < margin:  # so near an end that little may come of it
            if stuck or length >= right or length <= left:
                length = right - margin if abs(length - right) < abs(length - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = place.probe(direction, length)
        rounds += 1
        if _too_high(here, start) or here.loss >= best.loss:
            bracket[1 - low] = here
            low = int(bracket[1].loss < bracket[0].loss)
            continue
        done = _flat(here, start)
        if not done and here.slope * (other.length - best.length) >= 0:
            bracket[1 - low] = best
        bracket[low] = here
        if done:
            break
    return bracket[low], rounds + 1


def _too_high(here: _Point, start: _Point) -> bool:
    return bool(here.loss > start.loss + _DECREASE * here.length * start.slope)


def _flat(here: _Point, start: _Point) -> bool:
    return bool(abs(here.slope) <= -_CURVATURE * start.slope)


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[Number, Number]) -> Number:
    """Where the cubic through two points with their slopes has its minimum, within bounds; their middle without one."""
    low, high = bounds
    if a.length > b.length:
        a, b = b, a
    mean = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = mean**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = square.sqrt()
    best = b.length - (b.length - a.length) * ((b.slope + root - mean) / (b.slope - a.slope + 2 * root))
    return min(max(best, low), high)

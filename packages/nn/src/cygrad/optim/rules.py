"""Rules that work element by element: Adadelta, Adagrad, Adamax, ASGD, NAdam, RAdam, RMSprop and Rprop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.optim import _recorded, _step
from cygrad.optim._options import check_betas, check_choices, check_not_negative, check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["ASGD", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"]


class _Rule(Optimizer):
    """An optimizer whose step is one pass over all parameters of a group."""

    _kind: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._kind = _step.KINDS.index(cls.__name__.lower()) if cls.__name__.lower() in _step.KINDS else cls._kind

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            names = self._names(group)
            start = partial(self._state_of, group=group, names=names)
            if group["differentiable"]:
                rule = getattr(_recorded, _step.KINDS[self._kind])
                _recorded.recorded_step(self, group, rule, start)
                continue
            options = self._numbers(group)
            for params in self._rounds(group):
                _step.step(
                    self._kind,
                    params,
                    self.state,
                    start,
                    names,
                    options,
                )
        return loss

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        """The states that are like the parameter."""
        raise NotImplementedError

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        """The options under the names that the update loops have for them."""
        return group

    def _state_of(self, param: Tensor, group: dict[str, Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        """What a parameter starts with."""
        return {"step": cygrad.tensor(0.0)} | {name: cygrad.zeros_like(param) for name in names}


def _options(choices: dict[str, Any], **others: Any) -> dict[str, Any]:
    check_choices(
        choices.get("foreach"), choices.get("fused"), choices["differentiable"], choices.get("capturable", False)
    )
    return others | choices


class Adadelta(_Rule):
    """Steps whose size follows from those before.

    Zeiler, "ADADELTA: an adaptive learning rate method" (2012).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1
        Factor of the steps.
    rho : float, default 0.9
        Share of the running means that is kept.
    eps : float, default 1e-6
        Added under the roots.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    maximize : bool, default False
        Go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho} (it must be in [0, 1])")
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        choices = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(
            params, _options(choices, lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)
        )

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "square_avg", "acc_delta"

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        return group | {"keep": group["rho"]}


class Adagrad(_Rule):
    """Steps over the root of the sum of squared gradients.

    Duchi et al., "Adaptive subgradient methods for online learning and stochastic optimization" (2011).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-2
        Learning rate.
    lr_decay : float, default 0
        The rate of step t is ``lr / (1 + (t - 1) * lr_decay)``.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    initial_accumulator_value : float, default 0
        What the sums start with.
    eps : float, default 1e-10
        Added to the divisor.
    maximize : bool, default False
        Go up the gradient.
    foreach, differentiable, fused
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rate(lr)
        check_not_negative("lr_decay value", lr_decay)
        check_not_negative("weight_decay value", weight_decay)
        check_not_negative("initial_accumulator_value value", initial_accumulator_value)
        check_not_negative("epsilon value", eps)
        choices = {"foreach": foreach, "differentiable": differentiable, "fused": fused}
        defaults = _options(
            choices,
            lr=lr,
            lr_decay=lr_decay,
            eps=eps,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            maximize=maximize,
        )
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param] = self._state_of(param, group, ("sum",))

    def share_memory(self) -> None:
        """Does nothing: states of this process are not shared with others."""

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("sum",)

    def _state_of(self, param: Tensor, group: dict[str, Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        start = group["initial_accumulator_value"]
        return {"step": cygrad.tensor(0.0), "sum": cygrad.full_like(param, start, requires_grad=False)}


class Adamax(_Rule):
    """Adam with the largest gradient in place of the mean square.

    Kingma and Ba, "Adam: a method for stochastic optimization" (2015), section 7.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 2e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Shares of mean and maximum that are kept from step to step.
    eps : float, default 1e-8
        Added to magnitudes.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    maximize : bool, default False
        Go up the gradient.
    foreach, differentiable, capturable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        choices = {"foreach": foreach, "differentiable": differentiable, "capturable": capturable}
        super().__init__(
            params,
            _options(choices, lr=lr, betas=check_betas(betas), eps=eps, weight_decay=weight_decay, maximize=maximize),
        )

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_inf"

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        return group | {"keep": group["betas"][0], "keep_square": group["betas"][1]}


class ASGD(_Rule):
    """Gradient descent with a mean of the parameters on the side.

    Polyak and Juditsky, "Acceleration of stochastic approximation by averaging" (1992). The means are in the
    state, ``ax``.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-2
        Learning rate.
    lambd : float, default 1e-4
        Decay, and how fast the rate falls.
    alpha : float, default 0.75
        Power by which it falls.
    t0 : float, default 1e6
        Step at which the mean begins.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    maximize : bool, default False
        Go up the gradient.
    foreach, differentiable, capturable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("weight_decay value", weight_decay)
        choices = {"foreach": foreach, "differentiable": differentiable, "capturable": capturable}
        defaults = _options(
            choices, lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize
        )
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("ax",)

    def _state_of(self, param: Tensor, group: dict[str, Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        return {
            "step": cygrad.tensor(0.0),
            "eta": cygrad.tensor(float(group["lr"])),
            "mu": cygrad.tensor(1.0),
            "ax": cygrad.zeros_like(param),
        }


class NAdam(_Rule):
    """Adam with Nesterov's momentum.

    Dozat, "Incorporating Nesterov momentum into Adam" (2016).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 2e-3
        Learning rate.
    betas, eps, weight_decay, decoupled_weight_decay
        See `Adam`.
    momentum_decay : float, default 4e-3
        How fast the momentum grows to its full size.
    maximize : bool, default False
        Go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        check_not_negative("momentum_decay value", momentum_decay)
        choices = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        defaults = _options(
            choices,
            lr=lr,
            betas=check_betas(betas),
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        keep, keep_square = group["betas"]
        return group | {"keep": keep, "keep_square": keep_square, "decoupled": group["decoupled_weight_decay"]}

    def _state_of(self, param: Tensor, group: dict[str, Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        state = super()._state_of(param, group, names)
        return {"step": state.pop("step"), "mu_product": cygrad.tensor(1.0)} | state


class RAdam(_Rule):
    """Adam that does without the mean square as long as that is not known well enough.

    Liu et al., "On the variance of the adaptive learning rate and beyond" (2020).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    betas, eps, weight_decay, decoupled_weight_decay
        See `Adam`.
    maximize : bool, default False
        Go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        choices = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        defaults = _options(
            choices,
            lr=lr,
            betas=check_betas(betas),
            eps=eps,
            weight_decay=weight_decay,
            maximize=maximize,
            decoupled_weight_decay=decoupled_weight_decay,
        )
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        keep, keep_square = group["betas"]
        return group | {"keep": keep, "keep_square": keep_square, "decoupled": group["decoupled_weight_decay"]}


class RMSprop(_Rule):
    """Steps over the root of the mean of squared gradients.

    Hinton, "Neural networks for machine learning", lecture 6e (2012); centred after Graves, "Generating sequences with
    recurrent neural networks" (2013).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-2
        Learning rate.
    alpha : float, default 0.99
        Share of the mean that is kept.
    eps : float, default 1e-8
        Added to the divisor.
    weight_decay : float, default 0
        This times the parameter is added to the gradient.
    momentum : float, default 0
        Share of the step that is kept.
    centered : bool, default False
        Take the variance in place of the mean square.
    maximize : bool, default False
        Go up the gradient.
    capturable, foreach, differentiable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("momentum value", momentum)
        check_not_negative("weight_decay value", weight_decay)
        check_not_negative("alpha value", alpha)
        choices = {"capturable": capturable, "foreach": foreach, "differentiable": differentiable}
        defaults = _options(
            choices,
            lr=lr,
            momentum=momentum,
            alpha=alpha,
            eps=eps,
            centered=centered,
            weight_decay=weight_decay,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        buffer = ("momentum_buffer",) if group["momentum"] > 0 else ()
        return ("square_avg", *buffer, *(("grad_avg",) if group["centered"] else ()))

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        return group | {"keep": group["alpha"]}


class Rprop(_Rule):
    """Steps that grow while the sign of the gradient stays, and shrink when it changes.

    Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning: the RPROP algorithm" (1993).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-2
        The first step.
    etas : (float, float), default (0.5, 1.2)
        Factors by which steps shrink and grow.
    step_sizes : (float, float), default (1e-6, 50)
        Smallest and largest step.
    maximize : bool, default False
        Go up the gradient.
    capturable, foreach, differentiable
        See `Adam`.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]} (they must be below and above 1)")
        choices = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, _options(choices, lr=lr, etas=etas, step_sizes=step_sizes, maximize=maximize))

    def _names(self, group: dict[str, Any]) -> tuple[str, ...]:
        return "prev", "step_size"

    def _numbers(self, group: dict[str, Any]) -> dict[str, Any]:
        shrink, grow = group["etas"]
        low, high = group["step_sizes"]
        return group | {"keep": shrink, "keep_square": grow, "low": low, "high": high}

    def _state_of(self, param: Tensor, group: dict[str, Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        return {
            "step": cygrad.tensor(0.0),
            "prev": cygrad.zeros_like(param),
            "step_size": cygrad.full_like(param, float(group["lr"]), requires_grad=False),
        }

"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.optim import _recorded, _step
from cygrad.optim._options import check_betas, check_choices, check_not_negative, check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    Kingma and Ba, "Adam: a method for stochastic optimization" (2015); AMSGrad after Reddi et al., "On the convergence
    of Adam and beyond" (2018).

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Shares of the two running means that are kept from step to step.
    eps : float, default 1e-8
        Added to the divisor.
    weight_decay : float, default 0
        This times the parameter is added to the gradient, or taken from the parameter if decoupled.
    amsgrad : bool, default False
        Divide by the largest mean of squares so far.
    maximize : bool, default False
        Go up the gradient.
    decoupled_weight_decay : bool, default False
        Shrink the parameter by ``1 - lr * weight_decay`` instead of changing the gradient, see `AdamW`.
    foreach, fused : bool, optional
        Accepted for PyTorch programs: there is one implementation, which updates all parameters in one pass.
    capturable : bool
        Must be False.
    differentiable : bool, default False
        Have autograd record the step, so that what is computed from the parameters afterwards has gradients with
        respect to what they and their gradients were before, and to a learning rate that is a tensor. Parameters must
        not be leaves that require gradients then: pass ``p.clone()`` and set its ``grad``.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_rate(lr)
        check_not_negative("epsilon value", eps)
        check_not_negative("weight_decay value", weight_decay)
        check_choices(foreach, fused, differentiable, capturable)
        defaults = {
            "lr": lr,
            "betas": check_betas(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            if group["differentiable"]:
                _recorded.recorded_step(self, group, _recorded.adam, _start)
                continue
            beta1, beta2 = group["betas"]
            for params in self._rounds(group):
                _step.adam(
                    params,
                    self.state,
                    group["lr"],
                    beta1,
                    beta2,
                    group["eps"],
                    group["weight_decay"],
                    group["decoupled_weight_decay"],
                    group["amsgrad"],
                    group["maximize"],
                )
        return loss


def _start(param: Tensor) -> dict[str, Tensor]:
    """What a parameter starts with; `_step.adam` makes the same."""
    zeros = {name: cygrad.zeros_like(param, requires_grad=False) for name in ("exp_avg", "exp_avg_sq")}
    return {"step": cygrad.tensor(0.0)} | zeros


class AdamW(Adam):
    """Adam with weight decay that does not pass through the running means.

    Loshchilov and Hutter, "Decoupled weight decay regularization" (2019).

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize, foreach, capturable, differentiable, fused
        See `Adam`.
    weight_decay : float, default 1e-2
        In each step the parameter shrinks by ``lr * weight_decay``.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True  # also when the state was saved by an Adam

"""SparseAdam: Adam for gradients of a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cygrad import Tensor
from cygrad.optim._options import check_betas, check_rate
from cygrad.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients; there are none here, so a step refuses every gradient.

    It exists so that states and groups of programs that name it can be looked at, and so that the error says what to
    use in its place.

    Parameters
    ----------
    params : iterable
        See `Optimizer`.
    lr, betas, eps, maximize
        See `Adam`; rate and `eps` are above 0.

    Raises
    ------
    ValueError
        If an option is out of its range, or a parameter is complex.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr} (it must be above 0)")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps} (it must be above 0)")
        super().__init__(params, {"lr": lr, "betas": check_betas(betas), "eps": eps, "maximize": maximize})

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        complex_params = [i for i, param in enumerate(group["params"]) if param.is_complex()]
        if complex_params:
            raise ValueError(
                f"Complex params at indices {complex_params}: SparseAdam does not support complex parameters"
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Refuse dense gradients, which all are.

        Raises
        ------
        RuntimeError
            If a parameter has a gradient.
        """
        loss = self._loss_of(closure)
        for g, group in enumerate(self.param_groups):
            for i, param in enumerate(group["params"]):
                if param.grad is not None:
                    raise RuntimeError(
                        "SparseAdam does not support dense gradients, please consider Adam instead: the gradient of "
                        f"parameter {i} of group {g} is dense, as all gradients are in cygrad"
                    )
        return loss

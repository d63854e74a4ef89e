"""Gradients cut to a norm or a value."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import cygrad
from cygrad import Tensor, no_grad
from cygrad.nn.functional.checks import require_tensor, tensors_of

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _gradients(function: str, parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in tensors_of(function, "parameters", parameters) if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of tensors, as if they were one vector.

    Parameters
    ----------
    tensors : Tensor or iterable of Tensor
    norm_type : float
        Order of the norm, also infinity.
    error_if_nonfinite : bool
        Raise an error if it is NaN or infinite.
    foreach : bool, optional
        Accepted for PyTorch programs: there is one implementation.

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    RuntimeError
        See `error_if_nonfinite`.
    """
    norms = [tensor.detach().norm(float(norm_type)) for tensor in tensors_of("get_total_norm", "tensors", tensors)]
    if not norms:
        return cygrad.tensor(0.0)
    total = cygrad.stack([norm.to(norms[0]) for norm in norms]).norm(float(norm_type))
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite ({total.item()}), so "
            "it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients in place by ``max_norm / total_norm``, if that is less than 1.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradient are left out.
    max_norm : float
    total_norm : Tensor
        The norm of all gradients, see `get_total_norm`.
    foreach : bool, optional
        Accepted for PyTorch programs: there is one implementation.
    """
    # Without a branch on the value, as PyTorch does it: NaN goes on into the gradients.
    require_tensor("clip_grads_with_norm_", "total_norm", total_norm)
    share = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for grad in _gradients("clip_grads_with_norm_", parameters):
        grad.mul_(share.to(grad))


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that the norm of all of them together is at most `max_norm`.

    Pascanu et al., "On the difficulty of training recurrent neural networks" (2013).

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradient are left out.
    max_norm : float
    norm_type, error_if_nonfinite, foreach
        See `get_total_norm`.

    Returns
    -------
    Tensor, shape ()
        The norm before.

    Raises
    ------
    RuntimeError
        See `get_total_norm`; nothing has changed then.
    """
    parameters = tensors_of("clip_grad_norm_", "parameters", parameters)
    total = get_total_norm(_gradients("clip_grad_norm_", parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Cut each element of gradients, in place, to at most `clip_value` in magnitude.

    Parameters
    ----------
    parameters : Tensor or iterable of Tensor
        Those without gradient are left out.
    clip_value : float
    foreach : bool, optional
        Accepted for PyTorch programs: there is one implementation.
    """
    limit = float(clip_value)
    for grad in _gradients("clip_grad_value_", parameters):
        grad.clamp_(-limit, limit)

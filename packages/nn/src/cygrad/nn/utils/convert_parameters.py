"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import tensors_of

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all elements of parameters, one after the other, with gradients."""
    found = tensors_of("parameters_to_vector", "parameters", parameters)
    return cygrad.cat([parameter.reshape(-1) for parameter in found])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Have parameters take their values from a vector, as `parameters_to_vector` returns it.

    Parameters
    ----------
    vec : Tensor, shape (elements of all parameters,)
        The parameters share its memory afterwards.
    parameters : iterable of Tensor

    Raises
    ------
    TypeError
        If `vec` is no tensor.
    RuntimeError
        If it is too short; no parameter has changed.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    parameters = tensors_of("vector_to_parameters", "parameters", parameters)
    wanted = sum(parameter.numel() for parameter in parameters)
    if wanted > vec.numel():
        raise RuntimeError(f"a vector of {vec.numel()} elements is too short: {wanted} are wanted")
    at = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[at : at + count].view_as(parameter).data
        at += count

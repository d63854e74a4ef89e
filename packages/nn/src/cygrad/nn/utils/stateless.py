"""Modules as functions of their parameters: the old place of `cygrad.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

from cygrad import Tensor
from cygrad.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Do what `cygrad.func.functional_call` does, with a warning that it is the name to use."""
    from cygrad.func import functional_call as call

    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated: use `func.functional_call`, which is the same",
        FutureWarning,
        stacklevel=2,
    )
    return call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)

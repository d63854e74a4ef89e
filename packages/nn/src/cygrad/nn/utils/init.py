"""Modules without starting values."""

from __future__ import annotations

import inspect
from typing import Any

import cygrad
from cygrad.nn.init import skipping
from cygrad.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """Make a module whose parameters and buffers are not filled, for a state to be loaded into it.

    No random number is used up.

    Parameters
    ----------
    module_cls : type
        A Module whose ``__init__`` takes `device`.
    *args, **kwargs
        Its arguments.

    Raises
    ------
    RuntimeError
        If it is no such class.

    Examples
    --------
    >>> import cygrad as torch
    >>> torch.nn.utils.skip_init(torch.nn.Linear, 3, 2).weight.shape
    torch.Size([2, 3])
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with cygrad.random.fork_rng(), skipping():
        return module_cls(*args, **kwargs)

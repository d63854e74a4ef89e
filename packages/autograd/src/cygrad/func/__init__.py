"""Transforms of functions: each takes a function and returns another one."""

from ._vmap import looped_operations, vmap

__all__ = ["looped_operations", "vmap"]

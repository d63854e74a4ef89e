"""Tools around training: data loading (`cygrad.utils.data`) and weights files (`cygrad.utils.safetensors`)."""

from . import data, hooks

__all__ = ["data", "hooks"]

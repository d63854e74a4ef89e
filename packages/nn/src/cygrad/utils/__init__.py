"""Tools around training: data loading (`cygrad.utils.data`) and weights files (`cygrad.utils.safetensors`)."""

from cygrad.storage.parts import require

require("autograd")

from . import data, hooks

__all__ = ["data", "hooks"]

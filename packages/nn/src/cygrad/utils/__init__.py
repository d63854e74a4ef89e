"""Tools around training: data loading (`cygrad.utils.data`), weights files (`cygrad.utils.safetensors`), DLPack."""

from cygrad.storage.parts import require

require("autograd")

from . import data, dlpack, hooks

__all__ = ["data", "dlpack", "hooks"]

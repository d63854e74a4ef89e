"""Tools around training: data loading (`data`), recomputation (`checkpoint`), weights files (`safetensors`), DLPack."""

from cygrad.storage.parts import require

require("autograd")

from . import checkpoint, data, dlpack, hooks

__all__ = ["checkpoint", "data", "dlpack", "hooks"]


def __getattr__(name: str) -> object:
    from cygrad._later import missing_attribute

    raise missing_attribute(__name__, name)

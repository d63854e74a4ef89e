"""CUDA: ``matmul.allow_tf32`` says how products of float32 are computed. Attention has one way on all devices.

What else is set here is remembered, and has no effect.
"""

from cygrad.storage.cuda import matmul

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
]

_allowed = {"cudnn": True, "flash": True, "math": True, "mem_efficient": True}


def is_built() -> bool:
    """Whether cygrad-storage was built with CUDA."""
    from cygrad.storage import cuda

    return cuda.extension() is not None and not cuda.is_host()


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` was given; attention has one way here."""
    return _allowed["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` was given."""
    return _allowed["mem_efficient"]


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` was given."""
    return _allowed["math"]


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` was given."""
    return _allowed["cudnn"]


def enable_flash_sdp(enabled: bool) -> None:
    """Remembers whether a way of computing attention on CUDA devices is allowed."""
    _allowed["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _allowed["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _allowed["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """See `enable_flash_sdp`."""
    _allowed["cudnn"] = bool(enabled)

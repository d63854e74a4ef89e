"""Memory formats of the weights of convolutions."""

from __future__ import annotations

from typing import Any

from cygrad.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from cygrad.nn.modules.module import Module, require_module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(name: str, module: Module, kinds: tuple[type, ...], memory_format: Any) -> Module:
    require_module(name, "module", module)
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Give the weights of all convolutions of images in a module a memory format, and return the module."""
    return _convert("convert_conv2d_weight_memory_format", module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Give the weights of all convolutions of volumes in a module a memory format, and return the module."""
    return _convert("convert_conv3d_weight_memory_format", module, (Conv3d, ConvTranspose3d), memory_format)

"""Tools around tensors and graphs: gradient checks, pictures of graphs and storages, helps to find mistakes.

Everything is loaded when it is first asked for, so that importing this package costs nothing.
"""

from importlib import import_module

from cygrad.storage.parts import require

require("autograd")

__all__ = [
    "CheckReport",
    "check",
    "find_nan",
    "gradcheck",
    "graph",
    "memory",
    "onnx",
    "saved_tensors",
    "show_storage",
    "storage_picture",
    "strict",
]

_MODULES = ("gradcheck", "graph", "memory", "onnx", "storage_picture")


def __getattr__(name):
    if name in _MODULES:
        return import_module("." + name, __name__)
    if name in ("CheckReport", "check"):
        return getattr(import_module("._check", __name__), name)
    if name == "show_storage":
        return import_module(".storage_picture", __name__).show_storage
    if name in ("find_nan", "strict"):
        return getattr(import_module("cygrad.autograd"), name)
    if name == "saved_tensors":
        return import_module("cygrad.autograd.graph").saved_tensors
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})

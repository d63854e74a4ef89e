"""Tools around tensors and graphs: gradient checks, pictures of graphs and storages.

Everything is loaded when it is first asked for, so that importing this package costs nothing.
"""

from importlib import import_module

from cygrad.storage.parts import require

require("autograd")

__all__ = ["gradcheck", "graph", "show_storage", "storage_picture"]

_MODULES = ("gradcheck", "graph", "storage_picture")


def __getattr__(name):
    if name in _MODULES:
        return import_module("." + name, __name__)
    if name == "show_storage":
        return import_module(".storage_picture", __name__).show_storage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})

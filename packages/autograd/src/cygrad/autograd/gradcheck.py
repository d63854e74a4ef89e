"""Where programs import ``GradcheckError``, ``gradcheck`` and ``gradgradcheck`` from; they are in cygrad-tools."""

import sys
from types import ModuleType


class _Callable(ModuleType):
    """Importing a module makes it an attribute of its package, here in the place of the function of that name."""

    def __call__(self, *args, **kwargs):
        return self.gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable


def __getattr__(name):
    if name in ("GradcheckError", "gradcheck", "gradgradcheck"):
        from cygrad.tools import gradcheck as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""cygrad: PyTorch's tensors, autograd and nn as a small Cython library. ``import cygrad as torch``."""

import os as _os
import sys as _sys

# Editable installs put each distribution's source folder on the path; the package is spread over them.
# (pkgutil.extend_path does this too, but importing pkgutil takes longer than importing the rest.)
for _folder in _sys.path:
    _part = _os.path.join(_folder, "cygrad")
    if _part not in __path__ and _os.path.isdir(_part):
        __path__.append(_part)
del _folder, _part

from cygrad.storage.core import Size, device, get_num_threads, set_num_threads  # noqa: E402
from cygrad.storage.core import dtypes as _dtypes  # noqa: E402
from cygrad.storage.core import dtype, empty_cache  # noqa: E402
from cygrad.storage.ops import Generator  # noqa: E402

from . import autograd  # noqa: E402
from ._tensor_str import set_printoptions  # noqa: E402
from .autograd import _core, enable_grad, no_grad, set_grad_enabled  # noqa: E402
from .autograd._core import *  # noqa: E402, F403

globals().update(_dtypes)               # float32, int64 and so on, with their aliases

_OPTIONAL = {"nn": "cygrad-nn", "optim": "cygrad-nn", "utils": "cygrad-nn", "tools": "cygrad-tools"}


class _Missing:
    """Asked last of all finders: says which distribution has a part of cygrad that is not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        distribution = _OPTIONAL.get(name.removeprefix("cygrad."))
        if distribution is not None and name.startswith("cygrad."):
            # The missing name is the distribution's: for a missing submodule `from cygrad import nn` would drop the message.
            raise ModuleNotFoundError(f"{name} is not installed: pip install {distribution}", name=distribution)


_sys.meta_path.append(_Missing)


def __getattr__(name):
    if name in _OPTIONAL:
        from importlib import import_module

        try:
            return import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != _OPTIONAL[name]:
                raise
            raise AttributeError(str(error)) from error
    if name == "__version__":
        from importlib.metadata import version

        return version("cygrad-autograd")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

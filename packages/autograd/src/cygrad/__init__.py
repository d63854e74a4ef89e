"""cygrad: PyTorch's tensors, autograd and nn as a small Cython library. ``import cygrad as torch``."""

import os as _os
import sys as _sys
from math import e, inf, nan, pi

# Editable installs put each distribution's source folder on the path; the package is spread over them.
# (pkgutil.extend_path does this too, but importing pkgutil takes longer than importing the rest.)
for _folder in _sys.path:
    _part = _os.path.join(_folder, "cygrad")
    if _part not in __path__ and _os.path.isdir(_part):
        __path__.append(_part)
del _folder, _part

from cygrad.storage.core import Size, device, dtype, empty_cache, get_num_threads, set_num_threads
from cygrad.storage.core import Storage as UntypedStorage
from cygrad.storage.core import dtypes as _dtypes
from cygrad.storage.limits import finfo, iinfo
from cygrad.storage.parts import PARTS as _PARTS
from cygrad.storage.parts import MissingPart as _MissingPart
from cygrad.storage.typed import TypedStorage

from . import _later, autograd
from ._tensor_str import set_printoptions
from .autograd import _core, enable_grad, inference_mode, no_grad, set_grad_enabled
from .autograd._core import *
from .autograd.composed import publish as _publish
from .autograd.interop import asarray, from_dlpack, from_file
from .random import Generator, default_generator, get_rng_state, initial_seed, seed, set_rng_state

_publish("function", globals())
globals().update(_dtypes)               # float32, int64 and so on, with their aliases

newaxis = None

_sys.meta_path += [_later.AbsentPart, _MissingPart]


def __getattr__(name):
    # imported when first asked for
    if name in _later.MODULES:
        from importlib import import_module

        return import_module("." + name, __name__)
    if name in _PARTS:
        from importlib import import_module

        try:
            return import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != _PARTS[name]:
                raise
            raise AttributeError(str(error)) from error
    if name == "onnx":
        from importlib import import_module

        return import_module(".tools.onnx", __name__)
    if name in _later.ELSEWHERE:
        from operator import attrgetter

        return attrgetter(f"{_later.ELSEWHERE[name]}.{name}")(_sys.modules[__name__])
    if name in _later.FROM_SETTINGS:
        return getattr(__getattr__("settings"), name)
    if name in _later.FROM_TYPES:
        return getattr(__getattr__("tensortypes"), name)
    if name in _later.FROM_AUTOCAST:
        from .amp import autocast_mode

        return getattr(autocast_mode, name)
    if name in _later.IN_PLACE:
        return globals().setdefault(name, _later.in_place(name))
    if name in _later.FROM_NN:
        from importlib import import_module

        __getattr__("nn")               # or the error that says how to install it
        return getattr(import_module(".nn.toplevel", __name__), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("cygrad-autograd")
    raise _later.missing_attribute(__name__, name)

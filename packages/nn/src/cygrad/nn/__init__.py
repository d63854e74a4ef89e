"""Neural networks: modules, their parameters, the functions they are made of, and starting values."""

from cygrad.storage.parts import require

require("autograd")

from cygrad.nn import functional, init, utils
from cygrad.nn.modules import *
from cygrad.nn.modules import __all__ as _modules
from cygrad.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

TYPE_CHECKING = False
if TYPE_CHECKING:  # what __getattr__ imports
    from cygrad.nn import attention as attention
    from cygrad.nn import grad as grad
    from cygrad.nn import parallel as parallel
    from cygrad.nn import training as training
    from cygrad.nn.parallel import DataParallel as DataParallel

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "utils",
    *_modules,
]


def __getattr__(name: str) -> object:
    if name == "DataParallel":
        from cygrad.nn.parallel import DataParallel

        return DataParallel
    if name in ("attention", "grad", "parallel", "training"):  # imported when first asked for
        from importlib import import_module

        return import_module("cygrad.nn." + name)
    from cygrad._later import missing_attribute

    raise missing_attribute(__name__, name)

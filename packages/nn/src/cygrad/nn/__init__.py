"""Neural networks: modules, their parameters, the functions they are made of, and starting values."""

from cygrad.storage.parts import require

require("autograd")

from cygrad.nn import functional, init, utils
from cygrad.nn.modules import *
from cygrad.nn.modules import __all__ as _modules
from cygrad.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "utils", *_modules]

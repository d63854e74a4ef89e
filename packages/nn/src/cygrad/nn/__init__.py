"""Neural networks: modules, their parameters, the functions they are made of, and starting values."""

from cygrad.nn import functional, init
from cygrad.nn.modules import *  # noqa: F403
from cygrad.nn.modules import __all__ as _modules
from cygrad.nn.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", *_modules]

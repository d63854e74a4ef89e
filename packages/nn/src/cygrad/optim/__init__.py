"""Optimizers: they update parameters from their gradients."""

from cygrad.storage.parts import require

require("autograd")

from cygrad.optim import lr_scheduler, swa_utils
from cygrad.optim.adam import Adam, AdamW
from cygrad.optim.lbfgs import LBFGS
from cygrad.optim.matrices import Adafactor, Muon
from cygrad.optim.optimizer import Optimizer
from cygrad.optim.rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from cygrad.optim.sgd import SGD
from cygrad.optim.sparse_adam import SparseAdam
from cygrad.optim.swapping import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]


def __getattr__(name: str) -> object:
    from cygrad._later import missing_attribute

    raise missing_attribute(__name__, name)

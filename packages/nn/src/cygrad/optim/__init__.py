"""Optimizers: they update parameters from their gradients."""

from cygrad.storage.parts import require

require("autograd")

from cygrad.optim import lr_scheduler
from cygrad.optim.adam import Adam, AdamW
from cygrad.optim.optimizer import Optimizer
from cygrad.optim.rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from cygrad.optim.sgd import SGD

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]

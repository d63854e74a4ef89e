"""Optimizers: they update parameters from their gradients."""

from cygrad.optim.adam import Adam, AdamW
from cygrad.optim.optimizer import Optimizer
from cygrad.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]

"""The operations of neural networks as functions, without parameters of their own."""

from cygrad.nn.functional.activation import gelu, log_softmax, relu, relu_, sigmoid, softmax, softmin, tanh
from cygrad.nn.functional.classes import cross_entropy, nll_loss
from cygrad.nn.functional.dropouts import dropout
from cygrad.nn.functional.loss import l1_loss, mse_loss
from cygrad.nn.functional.padding import pad
from cygrad.nn.functional.products import linear

__all__ = [
    "cross_entropy",
    "dropout",
    "gelu",
    "l1_loss",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "pad",
    "relu",
    "relu_",
    "sigmoid",
    "softmax",
    "softmin",
    "tanh",
]

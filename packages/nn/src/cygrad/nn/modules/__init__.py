"""The modules of `cygrad.nn`, by theme."""

from cygrad.nn.modules.activation import GELU, LogSoftmax, ReLU, Sigmoid, Softmax, Softmin, Tanh
from cygrad.nn.modules.container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from cygrad.nn.modules.dropout import Dropout
from cygrad.nn.modules.flatten import Flatten
from cygrad.nn.modules.linear import Identity, Linear
from cygrad.nn.modules.loss import CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from cygrad.nn.modules.module import Module

__all__ = [
    "GELU",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Identity",
    "L1Loss",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "ParameterDict",
    "ParameterList",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Tanh",
]

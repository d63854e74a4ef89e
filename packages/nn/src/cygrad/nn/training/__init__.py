"""Training loops: `fit` trains a model, `evaluate` measures it. See docs/training.md."""

from cygrad.nn.training.loop import accuracy, evaluate, fit

__all__ = ["accuracy", "evaluate", "fit"]

"""One training step of the digits classifier, beside the same step written by hand in NumPy."""

import numpy as np

import cygrad
from cygrad import nn, optim

BATCH, PIXELS, HIDDEN, CLASSES = 64, 64, 128, 10
LEARNING_RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


def batch():
    rng = np.random.default_rng(0)
    return rng.random((BATCH, PIXELS), dtype=np.float32), rng.integers(0, CLASSES, BATCH)


class ByCygrad:
    def __init__(self):
        x, y = batch()
        self.x, self.y = cygrad.from_numpy(x), cygrad.from_numpy(y)
        self.model = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = optim.Adam(self.model.parameters(), lr=LEARNING_RATE)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class ByHand:
    """The derivatives of this one network, and Adam, as array expressions."""

    def __init__(self):
        self.x, self.y = batch()
        rng = np.random.default_rng(1)
        shapes = (HIDDEN, PIXELS), (HIDDEN,), (CLASSES, HIDDEN), (CLASSES,)
        self.weights = [rng.uniform(-0.1, 0.1, shape).astype(np.float32) for shape in shapes]
        self.means = [np.zeros_like(w) for w in self.weights]
        self.squares = [np.zeros_like(w) for w in self.weights]
        self.steps = 0

    def step(self):
        w1, b1, w2, b2 = self.weights
        hidden = np.maximum(self.x @ w1.T + b1, 0)
        scores = hidden @ w2.T + b2
        scores -= scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        loss = -scores[np.arange(BATCH), self.y].mean()
        g = np.exp(scores)
        g[np.arange(BATCH), self.y] -= 1
        g /= BATCH
        g_hidden = (g @ w2) * (hidden > 0)
        self.update([g_hidden.T @ self.x, g_hidden.sum(0), g.T @ hidden, g.sum(0)])
        return loss.item()

    def update(self, gradients):
        self.steps += 1
        size = LEARNING_RATE / (1 - BETA1**self.steps)
        correction = (1 - BETA2**self.steps) ** 0.5
        for w, g, m, v in zip(self.weights, gradients, self.means, self.squares, strict=True):
            m += (1 - BETA1) * (g - m)
            v += (1 - BETA2) * (g * g - v)
            w -= size * m / (np.sqrt(v) / correction + EPSILON)


class Digits:
    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        self.step = (ByHand if library == "numpy" else ByCygrad)().step

    def time_step(self, library):
        self.step()

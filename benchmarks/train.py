"""One training step of the digits classifier, beside the same step written by hand in NumPy."""

from itertools import pairwise

import numpy as np

import cygrad
from cygrad import nn, optim

BATCH, SIZES, DROP, SMOOTHING = 32, (64, 256, 128, 10), 0.4, 0.1
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8


def batch():
    rng = np.random.default_rng(0)
    return rng.random((BATCH, SIZES[0]), dtype=np.float32), rng.integers(0, SIZES[-1], BATCH)


class ByCygrad:
    def __init__(self):
        x, y = batch()
        self.x, self.y = cygrad.from_numpy(x), cygrad.from_numpy(y)
        layers = []
        for inputs, outputs in pairwise(SIZES):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(DROP)]
        self.model = nn.Sequential(*layers[:-2])
        self.loss = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
        self.optimizer = optim.Adam(self.model.parameters(), lr=RATE)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class ByHand:
    """The derivatives of this one kind of network, and Adam, as array expressions."""

    def __init__(self):
        self.x, y = batch()
        self.target = np.full((BATCH, SIZES[-1]), SMOOTHING / SIZES[-1], np.float32)
        self.target[np.arange(BATCH), y] += 1 - SMOOTHING
        self.rng = np.random.default_rng(1)
        self.weights = [self.rng.normal(0, n**-0.5, (m, n)).astype(np.float32) for n, m in pairwise(SIZES)]
        self.biases = [np.zeros(m, np.float32) for m in SIZES[1:]]
        self.means = [np.zeros_like(w) for w in [*self.weights, *self.biases]]
        self.squares = [np.zeros_like(w) for w in [*self.weights, *self.biases]]
        self.steps = 0

    def step(self):
        layers = list(zip(self.weights, self.biases, strict=True))
        inputs, masks = [self.x], []
        for w, b in layers[:-1]:
            h = inputs[-1] @ w.T + b
            masks.append((h > 0) * (self.rng.random(h.shape, np.float32) >= DROP) * np.float32(1 / (1 - DROP)))
            inputs.append(h * masks[-1])
        scores = inputs[-1] @ layers[-1][0].T + layers[-1][1]
        scores -= scores.max(1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(1, keepdims=True))
        g = (np.exp(scores) - self.target) / np.float32(BATCH)
        of_weights, of_biases = [], []
        for k in reversed(range(len(layers))):
            of_weights.append(g.T @ inputs[k])
            of_biases.append(g.sum(0))
            if k:
                g = (g @ self.weights[k]) * masks[k - 1]
        self.update(of_weights[::-1] + of_biases[::-1])
        return -(scores * self.target).sum(1).mean().item()

    def update(self, gradients):
        self.steps += 1
        rate = RATE / (1 - BETA1**self.steps)
        correction = (1 - BETA2**self.steps) ** 0.5
        parameters = [*self.weights, *self.biases]
        for w, g, m, v in zip(parameters, gradients, self.means, self.squares, strict=True):
            m += (1 - BETA1) * (g - m)
            v += (1 - BETA2) * (g * g - v)
            w -= rate * m / (np.sqrt(v) / correction + EPSILON)


class Digits:
    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        self.step = (ByHand if library == "numpy" else ByCygrad)().step

    def time_step(self, library):
        self.step()

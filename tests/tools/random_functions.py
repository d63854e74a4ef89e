"""Random differentiable functions with one place whose derivative can be made wrong, to try gradcheck on."""

import numpy as np

import cygrad as torch

KINDS = ("sign", "factor", "missing term", "missing input", "wrong broadcast sum", "wrong dtype", "non-determinism")


def sum_to(g, shape):
    """g summed over the dimensions that broadcasting gave it."""
    g = g.sum(tuple(range(g.ndim - len(shape)))) if g.ndim > len(shape) else g
    wide = tuple(d for d, n in enumerate(shape) if n == 1 and g.shape[d] != 1)
    return g.sum(wide, keepdim=True) if wide else g


def mean_to(g, shape):
    """What somebody might write in place of `sum_to`."""
    g = g.mean(tuple(range(g.ndim - len(shape)))) if g.ndim > len(shape) else g
    wide = tuple(d for d, n in enumerate(shape) if n == 1 and g.shape[d] != 1)
    return g.mean(wide, keepdim=True) if wide else g


def product(kind=None, factor=1.0):
    """``a * b * (1 + a)`` with a backward of its own: right, or wrong in one of the `KINDS`."""
    noise = np.random.default_rng(0)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b * (1 + a)

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            to = mean_to if kind == "wrong broadcast sum" else sum_to
            by_a = to(g * (b if kind == "missing term" else b * (1 + 2 * a)), a.shape)
            by_b = to(g * a * (1 + a), b.shape)
            if kind == "sign":
                by_a = -by_a
            elif kind == "factor":
                by_b = by_b * factor
            elif kind == "missing input":
                by_b = None
            elif kind == "wrong dtype":
                by_a = by_a.float()
            elif kind == "non-determinism":
                by_a = by_a + 1e-9 * noise.standard_normal()
            return by_a, by_b

    return Product.apply


UNARY = {
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "exp": lambda x: x.tanh().exp(),
    "square": lambda x: x.sin() ** 2,
    "sigmoid": lambda x: x.sigmoid() * 2,
    "log": lambda x: (x * x + 1).log(),
    "sqrt": lambda x: (x * x + 0.5).sqrt(),
    "reciprocal": lambda x: 1 / (x * x + 1),
    "relu": lambda x: torch.relu(x) + x,
    "abs": lambda x: x.abs(),
    "softmax": lambda x: x.softmax(-1) if x.ndim else x,
    "cumsum": lambda x: x.cumsum(0) if x.ndim else x,
    "normalised": lambda x: x / (x * x).sum().add(1).sqrt(),
    "sum": lambda x: x.sum(0) if x.ndim else x,
    "mean": lambda x: x.mean(-1, keepdim=True) if x.ndim else x,
    "max": lambda x: x.amax(-1) if x.ndim else x,
    "sorted": lambda x: x.flatten().sort()[0],
    "transposed": lambda x: x.transpose(0, -1) if x.ndim else x,
    "flat": lambda x: x.reshape(-1),
    "part": lambda x: x[1:] if x.ndim and x.shape[0] > 1 else x,
    "picked": lambda x: x.index_select(0, torch.tensor([0, x.shape[0] - 1, 0])) if x.ndim else x,
    "spread": lambda x: x.expand(2, *x.shape),
    "written": lambda x: written(x),
    "detached factor": lambda x: x * x.detach().tanh().mul(0).add(1.5),
}
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - 2 * b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (b * b + 1),
    "atan2": lambda a, b: torch.atan2(a, b.exp().clamp(max=50) + 1),
    "where": lambda a, b: torch.where(a.detach() > 0.2, a, b),
    "outer": lambda a, b: a.flatten()[:4].outer(b.flatten()[:4]),
    "matmul": lambda a, b: a.flatten()[:4] @ b.flatten()[:4] if a.numel() == b.numel() else a.sum() * b.mean(),
    "cat": lambda a, b: torch.cat([a.flatten(), b.flatten()]),
}
SHAPES = ((), (2,), (3,), (2, 3), (3, 1), (1, 3), (2, 1, 3))


def written(x):
    y = x * 1.5
    if y.ndim:
        y[0].mul_(y[-1].tanh())
        y[-1] = y[0] * 2
    return y.clamp_(-30, 30)


class RandomFunction:
    """A program of random steps on two or three inputs; the place to spoil is its first product."""

    def __init__(self, seed):
        rng = self.rng = np.random.default_rng(seed)
        shapes = [SHAPES[k] for k in rng.integers(len(SHAPES), size=rng.integers(2, 4))]
        self.inputs = [torch.from_numpy(np.array(rng.uniform(-1.5, 1.5, s))).requires_grad_() for s in shapes]
        pairs = [(i, j) for i in range(len(shapes)) for j in range(len(shapes)) if broadcast(shapes[i], shapes[j])]
        self.pair = pairs[rng.integers(len(pairs))]
        self.choices = rng.integers(1 << 30, size=(rng.integers(1, 6), 4))
        self.factor = float(rng.choice([0.5, 0.9, 1.1, 2.0]))

    def __call__(self, place, *inputs):
        values = [place(*(inputs[k] for k in self.pair)), *inputs]
        for which, name, first, second in self.choices:
            a, b = values[-(1 + first % min(2, len(values)))], values[second % len(values)]
            if which % 3 and broadcast(a.shape, b.shape):
                made = list(BINARY.values())[name % len(BINARY)](a, b)
            else:
                made = list(UNARY.values())[name % len(UNARY)](a)
            values.append(made if made.numel() <= 40 else made.flatten()[:40].clone())
        return values[-1], values[0].tanh() * 1.5

    def gradients(self, place):
        """Gradients of a weighted sum of the outputs."""
        ys = self(place, *self.inputs)
        weights = [torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view(y.shape) for y in ys]
        return torch.autograd.grad(ys, self.inputs, weights, allow_unused=True, materialize_grads=True)


def broadcast(a, b):
    return all(n == m or 1 in (n, m) for n, m in zip(reversed(a), reversed(b), strict=False))

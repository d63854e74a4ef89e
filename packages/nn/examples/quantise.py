"""Trains a network whose weights have four values each, by a gradient that goes straight through rounding.

Rounding has derivative zero almost everywhere. The straight-through estimator (Bengio et al., "Estimating or
Propagating Gradients Through Stochastic Neurons", 2013) passes the gradient on as if nothing were rounded: a custom
Function. Compared are float32 weights, the same rounded to 2 bits afterwards, and 2 bits in training.

    python quantise.py --epochs 15 --out quantise-results
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import cygrad as torch
from cygrad import nn
from cygrad.nn.training import accuracy, evaluate, fit
from cygrad.utils.data import DataLoader, TensorDataset, random_split


class Round(torch.autograd.Function):
    """Rounds to the levels -1.5, -0.5, 0.5 and 1.5 times a step; where it clips, no gradient passes."""

    @staticmethod
    def forward(ctx, x, step):
        level = x / step
        ctx.save_for_backward(level.abs() <= 2)
        return ((level - 0.5).round().clamp(-2, 1) + 0.5) * step

    @staticmethod
    def backward(ctx, g):
        (inside,) = ctx.saved_tensors
        return g * inside, None


class RoundedLinear(nn.Linear):
    """A linear layer that computes with 2-bit weights and keeps float32 ones for training."""

    def rounded(self):
        step = self.weight.detach().abs().mean(1, keepdim=True)
        return Round.apply(self.weight, step)

    def forward(self, x):
        return nn.functional.linear(x, self.rounded(), self.bias)


def network(layer):
    return nn.Sequential(layer(64, 64), nn.ReLU(), layer(64, 64), nn.ReLU(), layer(64, 10))


def train(layer, data, options):
    torch.manual_seed(options.seed)
    model = network(layer)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    history = fit(
        model,
        nn.functional.cross_entropy,
        optimizer,
        DataLoader(data[0], batch_size=32, shuffle=True),
        epochs=options.epochs,
        validation=DataLoader(data[1], batch_size=512),
        metrics={"accuracy": accuracy},
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
    )
    return model, [row["val_accuracy"] for row in history]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("quantise-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32) / 16
    data = random_split(TensorDataset(images, torch.tensor(labels)), [0.8, 0.2])

    whole, whole_curve = train(nn.Linear, data, options)
    rounded, rounded_curve = train(RoundedLinear, data, options)
    afterwards = network(RoundedLinear)
    afterwards.load_state_dict(whole.state_dict())
    found = evaluate(afterwards, None, DataLoader(data[1], batch_size=512), {"accuracy": accuracy})["accuracy"]

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(whole_curve, label="float32")
    left.plot(rounded_curve, label="2 bits, trained straight through")
    left.axhline(found, color="gray", linestyle=":", label="2 bits, rounded afterwards")
    left.set(xlabel="epoch", ylabel="held-out accuracy", title="Digits")
    left.grid(alpha=0.3)
    left.legend()
    unit = rounded[0].weight[3].detach()
    right.hist(unit.tolist(), 24, alpha=0.6, label="weights that are trained")
    right.hist(rounded[0].rounded()[3].tolist(), 24, alpha=0.6, label="weights that compute")
    right.set(title="One unit of the first layer")
    right.legend()
    figure.savefig(options.out / "quantise.png", dpi=70)
    print(f"held-out accuracy: float32 {whole_curve[-1]:.2%}, rounded to 2 bits afterwards {found:.2%}, "
          f"trained with 2 bits {rounded_curve[-1]:.2%}")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

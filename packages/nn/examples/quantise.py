"""Trains a network whose weights have two values each, by a gradient that goes straight through rounding.

The sign has derivative zero almost everywhere. The straight-through estimator (Bengio et al., "Estimating or
Propagating Gradients Through Stochastic Neurons", 2013) passes the gradient on as if nothing were rounded: a custom
Function. Compared are float32 weights, the same cut to their signs afterwards, and weights of one bit in training.

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


class Sign(torch.autograd.Function):
    """The sign times a size; gradients pass where the weight is not yet far on its side."""

    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(x.abs() <= 3 * size)
        return torch.where(x >= 0, size, -size)

    @staticmethod
    def backward(ctx, g):
        (near,) = ctx.saved_tensors
        return g * near, None


class BitLinear(nn.Linear):
    """A linear layer that computes with the signs of its weights, and keeps float32 ones for training."""

    def bits(self):
        size = self.weight.detach().abs().mean(1, keepdim=True)  # that of a unit's weights (Rastegari et al., 2016)
        return Sign.apply(self.weight, size)

    def forward(self, x):
        return nn.functional.linear(x, self.bits(), self.bias)


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
    rounded, rounded_curve = train(BitLinear, data, options)
    afterwards = network(BitLinear)
    afterwards.load_state_dict(whole.state_dict())
    found = evaluate(afterwards, None, DataLoader(data[1], batch_size=512), {"accuracy": accuracy})["accuracy"]

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    left.plot(whole_curve, label="float32")
    left.plot(rounded_curve, label="1 bit, trained straight through")
    left.axhline(found, color="gray", linestyle=":", label="1 bit, cut afterwards")
    left.set(xlabel="epoch", ylabel="held-out accuracy", title="Digits")
    left.grid(alpha=0.3)
    left.legend()
    unit = rounded[0].weight[3].detach()
    right.hist(unit.tolist(), 24, alpha=0.6, label="weights that are trained")
    right.hist(rounded[0].bits()[3].tolist(), 24, alpha=0.6, label="weights that compute")
    right.set(title="One unit of the first layer")
    right.legend()
    figure.savefig(options.out / "quantise.png", dpi=70)
    print(f"held-out accuracy: float32 {whole_curve[-1]:.2%}, cut to 1 bit afterwards {found:.2%}, "
          f"trained with 1 bit {rounded_curve[-1]:.2%}")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

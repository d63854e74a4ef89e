"""Shows that gradients accumulated over small batches make the step of a large batch, in less memory.

The same network is trained on scikit-learn's digits twice from the same weights: with batches of 256, and with eight
batches of 32 for each step. The losses are the same up to rounding; what autograd keeps for backward is an eighth.

    python accumulation.py --epochs 10 --out accumulation-results
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import cygrad as torch
from cygrad import nn
from cygrad.nn.training import fit
from cygrad.utils.data import DataLoader, TensorDataset


def kept(model, loader):
    """Bytes that the graph of a batch keeps for backward, apart from the weights."""
    x, y = next(iter(loader))
    loss = nn.functional.cross_entropy(model(x), y)
    return torch.autograd.graph.saved_tensors(loss).extra


def run(data, batch_size, accumulate, options):
    torch.manual_seed(options.seed)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(options.seed)  # the same order of samples in both runs
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    history = fit(model, nn.functional.cross_entropy, optimizer, loader, epochs=options.epochs, accumulate=accumulate)
    return [row["loss"] for row in history], kept(model, loader)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("accumulation-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pixels, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(labels))
    large, kept_large = run(data, 256, 1, options)
    small, kept_small = run(data, 32, 8, options)
    apart = max(abs(a - b) / a for a, b in zip(large, small, strict=True))

    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axis.plot(large, linewidth=5, alpha=0.4, label=f"batches of 256: {kept_large / 2**10:,.0f} KiB kept")
    axis.plot(small, label=f"8 batches of 32 a step: {kept_small / 2**10:,.0f} KiB kept")
    axis.set(xlabel="epoch", ylabel="cross entropy", title="Accumulated gradients", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(options.out / "accumulation.png", dpi=80)
    print(f"losses apart by at most {apart:.1e} of their value")
    print(f"kept for backward: {kept_large:,} bytes with batches of 256, {kept_small:,} with batches of 32")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

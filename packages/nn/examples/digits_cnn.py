"""Trains a small convolutional network to read handwritten digits, with `nn.training.fit`.

The data are the 1,797 scans of 8 x 8 pixels that come with scikit-learn; a fifth of them is held out. The folder that
``--out`` names gets the curves with the filters of the first layer, a CSV log, and a checkpoint: started again after it
was broken off, the program goes on where it was.

    python digits_cnn.py --epochs 20 --seed 0 --out digits-cnn-results
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import cygrad as torch
from cygrad import nn
from cygrad.nn.training import accuracy, fit
from cygrad.utils.data import DataLoader, TensorDataset, random_split


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="passes over the training images (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("digits-cnn-results"), help="folder for the results")
    return parser.parse_args()


def digits():
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    return random_split(TensorDataset(images, torch.tensor(labels, dtype=torch.int64)), [0.8, 0.2])


def network():
    def block(inputs, outputs):
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
        )

    return nn.Sequential(block(1, 16), block(16, 32), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4, 10))


def draw(history, filters, path):
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    epochs = [row["epoch"] for row in history]
    for axis, name in zip(axes, ("loss", "accuracy"), strict=False):
        for prefix, label in (("", "training"), ("val_", "held out")):
            axis.plot(epochs, [row[prefix + name] for row in history], marker=".", label=label)
        axis.set(xlabel="epoch", title=name)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend()
    rows = [torch.cat([f[0] for f in filters[i : i + 4]], 1) for i in range(0, 16, 4)]
    axes[2].imshow(torch.cat(rows).numpy(), cmap="RdBu")
    axes[2].set(title="filters of the first layer", xticks=[], yticks=[])
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    training_set, held_out_set = digits()
    training = DataLoader(training_set, batch_size=32, shuffle=True)
    held_out = DataLoader(held_out_set, batch_size=len(held_out_set))
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    steps = options.epochs * len(training)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    history = fit(
        model,
        nn.CrossEntropyLoss(label_smoothing=0.05),
        optimizer,
        training,
        epochs=options.epochs,
        validation=held_out,
        metrics={"accuracy": accuracy},
        scheduler=schedule,
        schedule="step",
        log=options.out / "log.csv",
        checkpoint=options.out / "run.pt",
    )
    draw(history, model[0][0].weight.detach(), options.out / "digits_cnn.png")
    print(f"parameters: {sum(p.numel() for p in model.parameters()):,}")
    print(f"accuracy on {len(held_out_set)} held-out digits: {history[-1]['val_accuracy']:.2%}")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

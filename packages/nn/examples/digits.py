"""Trains a small network to read handwritten digits, and shows how that went.

The data are the 1,797 scans of 8 x 8 pixels that come with scikit-learn; a fifth of them is held out. The folder that
``--out`` names gets the loss curve with the confusion matrix, the graph of one training step, and the trained weights,
which are loaded into a new network as a check.

    python digits.py --epochs 30 --seed 0 --out digits-results
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from tqdm import tqdm

import cygrad as torch
from cygrad import nn
from cygrad.tools import graph
from cygrad.utils import safetensors
from cygrad.utils.data import DataLoader, TensorDataset, random_split

CLASSES = 10
BATCH = 32
SMOOTHING = 0.1
RATE = 2e-3  # of the first epoch; it falls along half a cosine


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=positive, default=30, help="passes over the training images (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split, the weights and the order (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("digits-results"), help="folder for the results")
    return parser.parse_args()


def network():
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Dropout(0.4),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Dropout(0.4),
        nn.Linear(128, CLASSES),
    )


def digits():
    """The scans as rows of 64 grey values from 0 to 1, with their digits; split into 4/5 and 1/5."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32) / 16
    data = TensorDataset(images, torch.tensor(labels, dtype=torch.int64))
    held_out = len(data) // 5
    return random_split(data, [len(data) - held_out, held_out])


def train_epoch(model, loader, optimizer, loss_function, bar):
    """One pass over the training images; returns the mean loss and the images per second."""
    model.train()
    start = time.perf_counter()
    total = images = 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        images += len(y)
        bar.update()
    return total / images, images / (time.perf_counter() - start)


@torch.no_grad()
def evaluate(model, loader, loss_function):
    """The mean loss and the confusion counts, row: digit, column: what the network read."""
    model.eval()
    total = 0.0
    counts = [[0] * CLASSES for _ in range(CLASSES)]
    for x, y in loader:
        scores = model(x)
        total += loss_function(scores, y).item() * len(y)
        for digit, read in zip(y.tolist(), scores.argmax(1).tolist(), strict=True):
            counts[digit][read] += 1
    return total / sum(map(sum, counts)), counts


def accuracy(counts):
    return sum(counts[i][i] for i in range(CLASSES)) / sum(map(sum, counts))


def train(model, training, held_out, epochs):
    """Trains the network and returns, for each epoch, the loss on the training and on the held-out images."""
    loss_function = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    losses = []
    with tqdm(total=epochs * len(training), desc="training", unit="batch", mininterval=0.5) as bar:
        for epoch in range(1, epochs + 1):
            for group in optimizer.param_groups:
                group["lr"] = RATE * (1 + math.cos(math.pi * (epoch - 1) / epochs)) / 2
            loss, speed = train_epoch(model, training, optimizer, loss_function, bar)
            held_out_loss, counts = evaluate(model, held_out, loss_function)
            losses.append((loss, held_out_loss))
            tqdm.write(
                f"epoch {epoch:3d}   loss {loss:.4f}   held-out loss {held_out_loss:.4f}   "
                f"held-out accuracy {accuracy(counts):7.2%}   {speed:8,.0f} images/s"
            )
    return losses


def draw_results(losses, counts, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    epochs = range(1, len(losses) + 1)
    for values, label in zip(zip(*losses, strict=True), ("training", "held out"), strict=True):
        left.plot(epochs, values, label=label, marker=".")
    left.set(xlabel="epoch", ylabel=f"cross entropy, labels smoothed by {SMOOTHING}", title="Loss")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.grid(alpha=0.3)
    left.legend()
    right.imshow(counts, cmap="Blues")
    half = max(map(max, counts)) / 2
    for digit, row in enumerate(counts):
        for read, count in enumerate(row):
            if count:
                colour = "white" if count > half else "black"
                right.text(read, digit, count, ha="center", va="center", color=colour)
    right.set(
        xlabel="read as",
        ylabel="digit",
        xticks=range(CLASSES),
        yticks=range(CLASSES),
        title=f"Held-out digits: {accuracy(counts):.2%} read correctly",
    )
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_step(model, loader, path):
    """The graph that backward walks in one training step."""
    x, y = next(iter(loader))
    model.train()
    loss = nn.functional.cross_entropy(model(x), y)
    path.write_text(graph.to_svg(loss, params=dict(model.named_parameters())), encoding="utf-8")


def main():
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    curve, step, weights = (options.out / name for name in ("results.png", "step.svg", "weights.safetensors"))
    torch.manual_seed(options.seed)
    training_set, held_out_set = digits()
    training = DataLoader(training_set, batch_size=BATCH, shuffle=True)
    held_out = DataLoader(held_out_set, batch_size=len(held_out_set))
    model = network()

    losses = train(model, training, held_out, options.epochs)

    counts = evaluate(model, held_out, nn.CrossEntropyLoss())[1]
    safetensors.save_file(model.state_dict(), weights, {"seed": str(options.seed)})
    loaded = network()
    loaded.load_state_dict(safetensors.load_file(weights))
    loaded_counts = evaluate(loaded, held_out, nn.CrossEntropyLoss())[1]
    draw_results(losses, counts, curve)
    draw_step(model, training, step)

    print(f"accuracy on {len(held_out_set)} held-out digits: {accuracy(counts):.2%}")
    print(f"accuracy with the weights loaded again:   {accuracy(loaded_counts):.2%}")
    print(f"loss curve and confusion matrix: {curve.resolve()}")
    print(f"graph of one training step:      {step.resolve()}")
    print(f"weights:                         {weights.resolve()}")


if __name__ == "__main__":
    main()

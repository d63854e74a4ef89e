"""Trains an LSTM to tell from which module of the standard library a line of code comes.

Lines are read character by character, forwards and backwards; they have different lengths, so batches are packed.

    python lstm.py --epochs 8 --out lstm-results
"""

import argparse
import sysconfig
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import cygrad as torch
from cygrad import nn
from cygrad.nn.training import accuracy, fit
from cygrad.utils.data import DataLoader, random_split

MODULES = ("turtle", "_pydecimal", "argparse", "tarfile", "doctest", "typing")


class Reader(nn.Module):
    def __init__(self, characters=128, width=32, hidden=64):
        super().__init__()
        self.characters = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, hidden, bidirectional=True)
        self.classes = nn.Linear(2 * hidden, len(MODULES))

    def forward(self, lines):
        packed = nn.utils.rnn.pack_sequence(lines, enforce_sorted=False)
        packed = packed._replace(data=self.characters(packed.data))
        last = self.lstm(packed)[1][0]  # the state after the last character, of both directions
        return self.classes(last.transpose(0, 1).flatten(1))


def lines():
    """Pairs of a line, as a tensor of character codes, and the number of its module."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for number, module in enumerate(MODULES):
        text = (folder / f"{module}.py").read_text(encoding="utf-8")
        kept = dict.fromkeys(line.strip() for line in text.splitlines())
        kept = [bytearray(line, "ascii") for line in kept if len(line) >= 12 and line.isascii()]
        found += [(torch.tensor(line), number) for line in kept]
    return found


def collate(samples):
    tensors, numbers = zip(*samples, strict=True)
    return [t.long()[:80] for t in tensors], torch.tensor(numbers)


def forward(model, batch):
    return model(batch[0]), batch[1]


def confusion(model, loader):
    counts = [[0] * len(MODULES) for _ in MODULES]
    with torch.no_grad():
        for batch in loader:
            for wanted, found in zip(batch[1].tolist(), model(batch[0]).argmax(1).tolist(), strict=True):
                counts[wanted][found] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lines", type=int, default=None, help="use so many lines only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("lstm-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    data = [list(part)[: options.lines] for part in random_split(lines(), [0.8, 0.2])]
    training = DataLoader(data[0], batch_size=64, shuffle=True, collate_fn=collate)
    held_out = DataLoader(data[1], batch_size=256, collate_fn=collate)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    history = fit(
        model,
        nn.CrossEntropyLoss(),
        optimizer,
        training,
        epochs=options.epochs,
        validation=held_out,
        metrics={"accuracy": accuracy},
        forward=forward,
        clip_norm=1.0,
        keep_best=True,
        monitor="val_accuracy",
        mode="max",
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs),
    )
    counts = confusion(model.eval(), held_out)
    figure, axis = plt.subplots(figsize=(5, 4.4), layout="constrained")
    axis.imshow(counts, cmap="Blues")
    half = max(map(max, counts)) / 2
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            axis.text(j, i, count, ha="center", va="center", color="white" if count > half else "black")
    axis.set(xlabel="read as", ylabel="module", title="Lines of held-out code")
    axis.set_xticks(range(len(MODULES)), MODULES, rotation=45, ha="right")
    axis.set_yticks(range(len(MODULES)), MODULES)
    figure.savefig(options.out / "lstm.png", dpi=80)
    best = max(row["val_accuracy"] for row in history)
    print(f"{len(data[0]):,} lines read; accuracy on {len(data[1]):,} others: {best:.1%}")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

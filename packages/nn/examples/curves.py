"""Trains an MLP, a CNN and a GPT for some steps and writes the losses as JSON. See side_by_side.py.

    python curves.py 200 > losses.json
"""

import json
import sys
import sysconfig
from pathlib import Path

from sklearn.datasets import load_digits

import cygrad as torch

nn, F = torch.nn, torch.nn.functional


def digits(shape):
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, *shape) / 16
    data = torch.utils.data.TensorDataset(images, torch.tensor(labels))
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    while True:
        yield from loader


def text():
    """Pieces of the standard library's largest module, and the same a character later."""
    data = torch.tensor(bytearray(Path(sysconfig.get_path("stdlib"), "turtle.py").read_bytes())).long()
    while True:
        pieces = data[torch.randint(len(data) - 33, (16, 1)) + torch.arange(33)]
        yield pieces[:, :-1], pieces[:, 1:]


def mlp():
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.GELU(), nn.Linear(64, 10)
    )


def cnn():
    # A bias before the norm would have a gradient of rounding errors alone, which Adam makes full steps of.
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10),
    )


class GPT(nn.Module):
    def __init__(self, width=64, layers=2):
        super().__init__()
        self.token, self.place = nn.Embedding(128, width), nn.Embedding(32, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, activation="gelu", batch_first=True,
                                           norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 128)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.norm(self.blocks(x, mask=mask, is_causal=True)))


def train(model, batches, optimizer, steps):
    losses = []
    for _, (x, y) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps):
    losses = {}
    for name, make, batches in (("MLP", mlp, digits((64,))), ("CNN", cnn, digits((1, 8, 8))), ("GPT", GPT, text())):
        torch.manual_seed(0)
        model = make()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses[name] = train(model, batches, optimizer, steps)
    return losses


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))

"""Trains a character-level GPT on the running Python's own standard library, and lets it write.

A decoder of causal self-attention blocks (Radford et al., 2019) reads the sources of the standard library; every tenth
file is held out. The folder that ``--out`` names gets the loss curve, the sample and the weights.

    python gpt.py --steps 1000 --out gpt-results
"""

import argparse
import sysconfig
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import trange

import cygrad as torch
from cygrad import nn
from cygrad.nn import functional as F
from cygrad.utils import safetensors


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, time, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, characters, context=64, width=96, heads=4, layers=3):
        super().__init__()
        self.context = context
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.apply(self.start)
        self.head.weight = self.token.weight  # tied

    @staticmethod
    def start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        return self.head(self.norm(self.blocks(self.token(tokens) + self.place(places))))

    @torch.no_grad()
    def write(self, tokens, count, temperature=0.8):
        """`count` more characters after those of `tokens`, a 1-d tensor."""
        for _ in range(count):
            scores = self(tokens[None, -self.context :])[0, -1] / temperature
            tokens = torch.cat([tokens, torch.multinomial(scores.softmax(0), 1)])
        return tokens


def sources(limit):
    """The text of the standard library's modules, without its tests: for training, and held out."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    texts = ["".join(c if c.isascii() else "?" for c in text) for text in texts]
    held_out = "".join(texts[::10])
    training = "".join(text for i, text in enumerate(texts) if i % 10)
    return training[:limit], held_out[: limit // 5]


def batch(data, size, context):
    """Random pieces, and the same a character later."""
    starts = torch.randint(len(data) - context - 1, (size, 1))
    pieces = data[starts + torch.arange(context + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


@torch.no_grad()
def held_out_loss(model, data, batches=10):
    model.eval()
    losses = [loss_of(model, *batch(data, 32, model.context)).item() for _ in range(batches)]
    model.train()
    return sum(losses) / batches


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--characters", type=int, default=4_000_000, help="how much of the library is read")
    parser.add_argument("--sample", type=int, default=600, help="characters that it writes at the end")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("gpt-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)

    training_text, held_out_text = sources(options.characters)
    alphabet = sorted(set(training_text + held_out_text))
    number = {c: i for i, c in enumerate(alphabet)}
    training, held_out = (torch.tensor([number[c] for c in text]) for text in (training_text, held_out_text))
    model = GPT(len(alphabet))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    # rises over the first hundred steps, and falls to nothing
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 100, 1) * (1 - step / options.steps)
    )
    print(f"{len(training):,} characters to read, {len(alphabet)} kinds; "
          f"{sum(p.numel() for p in model.parameters()):,} parameters")

    losses, judged = [], []
    for step in (bar := trange(options.steps, unit="step")):
        loss = loss_of(model, *batch(training, options.batch, model.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 50 == 49 or step == options.steps - 1:
            judged.append((step, held_out_loss(model, held_out)))
            bar.set_postfix_str(f"loss {losses[-1]:.3f}   held out {judged[-1][1]:.3f}")

    model.eval()
    written = model.write(torch.tensor([number[c] for c in "def "]), options.sample)
    sample = "".join(alphabet[i] for i in written.tolist())
    (options.out / "sample.txt").write_text(sample, encoding="utf-8")
    safetensors.save_file({k: v for k, v in model.state_dict().items() if k != "head.weight"},
                          options.out / "gpt.safetensors")
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    axis.plot(losses, linewidth=0.8, label="training")
    axis.plot(*zip(*judged, strict=True), label="held-out files")
    axis.set(xlabel="step", ylabel="nats per character", title="A small GPT reads the standard library")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(options.out / "gpt.png", dpi=80)
    print(f"held-out loss: {judged[-1][1]:.3f} nats per character\n\n{sample}\n\nresults: {options.out.resolve()}")


if __name__ == "__main__":
    main()

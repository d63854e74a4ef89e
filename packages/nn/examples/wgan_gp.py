"""Trains a Wasserstein GAN with gradient penalty to draw handwritten digits.

The critic's gradient at points between real and drawn images is pulled to norm 1 (Gulrajani et al., "Improved Training
of Wasserstein GANs", 2017): a gradient of a gradient, so backward runs twice. The data are scikit-learn's digits.

    python wgan_gp.py --steps 1500 --out wgan-results
"""

import argparse
from itertools import pairwise
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from tqdm import trange

import cygrad as torch
from cygrad import nn

NOISE = 16
BATCH = 64


def layers(sizes, last):
    parts = []
    for inputs, outputs in pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*parts[:-1], *last)


def gradient_penalty(critic, real, drawn):
    between = torch.lerp(real, drawn, torch.rand(len(real), 1)).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(dim=1) - 1) ** 2).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500, help="steps of the generator (default: 1500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("wgan-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    digits = torch.tensor(load_digits().data, dtype=torch.float32) / 16
    generator = layers((NOISE, 128, 128, 64), [nn.Sigmoid()])
    critic = layers((64, 128, 128, 1), [])
    optimizers = [torch.optim.Adam(m.parameters(), lr=3e-4, betas=(0.5, 0.9)) for m in (generator, critic)]
    fixed = torch.randn(100, NOISE)

    distances = []
    for _ in (bar := trange(options.steps, unit="step")):
        for _ in range(5):  # the critic goes ahead
            real = digits[torch.randint(len(digits), (BATCH,))]
            drawn = generator(torch.randn(BATCH, NOISE)).detach()
            distance = critic(real).mean() - critic(drawn).mean()
            optimizers[1].zero_grad()
            (10 * gradient_penalty(critic, real, drawn) - distance).backward()
            optimizers[1].step()
        optimizers[0].zero_grad()
        (-critic(generator(torch.randn(BATCH, NOISE))).mean()).backward()
        optimizers[0].step()
        distances.append(distance.item())
        bar.set_postfix_str(f"distance {distances[-1]:.3f}", refresh=False)

    with torch.no_grad():
        images = nn.functional.pad(generator(fixed).view(10, 10, 8, 8), (1, 1, 1, 1))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    left.plot(distances, linewidth=0.8)
    left.set(xlabel="step", ylabel="distance that the critic sees", title="Wasserstein distance")
    left.grid(alpha=0.3)
    right.imshow(images.transpose(1, 2).reshape(100, 100).numpy(), cmap="gray_r")
    right.set(title="100 drawn digits", xticks=[], yticks=[])
    figure.savefig(options.out / "wgan_gp.png", dpi=60)
    print(f"distance at the end: {sum(distances[-100:]) / len(distances[-100:]):.3f}")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

"""Runs one training program on cygrad and on PyTorch, which differ by its import line alone, and compares the losses.

The program is curves.py: an MLP and a CNN on handwritten digits and a GPT on source text, with dropout, batch norm,
shuffled data, clipped gradients and AdamW, from the same seed. The two curves and how far they are apart are drawn.

    python side_by_side.py --steps 200 --out side-by-side-results
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PROGRAM = Path(__file__).with_name("curves.py")
LINE = "import cygrad as torch\n"


def losses(library, steps):
    source = PROGRAM.read_text(encoding="utf-8")
    if source.count(LINE) != 1 or source.count("cygrad") != 1:
        raise SystemExit(f"{PROGRAM.name} must name cygrad in one line alone: {LINE.strip()}")
    if library == "torch":
        source = source.replace(LINE, "import torch\n")
    done = subprocess.run([sys.executable, "-c", source, str(steps)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def draw(ours, theirs, path):
    figure, axes = plt.subplots(2, 3, figsize=(11, 5.5), height_ratios=[2, 1], sharex="col", layout="constrained")
    for (name, mine), top, bottom in zip(ours.items(), *axes, strict=True):
        top.plot(theirs[name], linewidth=4, alpha=0.4, label="PyTorch")
        top.plot(mine, linewidth=1, label="cygrad")
        top.set(title=name)
        apart = [abs(a - b) / b for a, b in zip(mine, theirs[name], strict=True)]
        bottom.semilogy([max(d, 1e-9) for d in apart], linewidth=0.8)
        bottom.axhline(1e-4, color="gray", linestyle=":")
        bottom.set(xlabel="step", ylim=(5e-10, 1e-3))
        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    axes[0][0].set(ylabel="loss")
    axes[1][0].set(ylabel="relative difference")
    axes[0][0].legend()
    figure.savefig(path, dpi=60)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("side-by-side-results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    ours, theirs = losses("cygrad", options.steps), losses("torch", options.steps)
    draw(ours, theirs, options.out / "side_by_side.png")
    for name, mine in ours.items():
        apart = max(abs(a - b) / b for a, b in zip(mine, theirs[name], strict=True))
        print(f"{name}: loss {mine[0]:.4f} -> {mine[-1]:.4f}; PyTorch's apart by at most {apart:.1e} of its value")
    print(f"results: {options.out.resolve()}")


if __name__ == "__main__":
    main()

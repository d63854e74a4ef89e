"""How times grow with size, as pictures: ``python benchmarks/growth.py --to docs/pictures``. Needs PyTorch, matplotlib.

Elementwise rates against the machine's copy rate, products of matrices against its best, training steps by width, and
what doubling the elements, the batch, the depth or the graph costs: a level line is twice the time for twice the work.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.beside_pytorch import Worker, compared
from benchmarks.cases import Case
from cygrad.tools.profiler import machine_limits

STEP = """from {{torch}} import nn, optim
torch.manual_seed(0)
layers = []
for _ in range({depth}):
    layers += [nn.Linear({width}, {width}), nn.ReLU()]
model = nn.Sequential(*layers)
x, y = torch.randn({batch}, {width}), torch.randint(0, {width}, ({batch},))
optimizer = optim.SGD(model.parameters(), lr=1e-3)
def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()"""


PAIR = "a, b = torch.randn({0}), torch.randn({0})"
CHAIN = """x = torch.ones(1, requires_grad=True)
def chain():
    y = x
    for _ in range({}):
        y = y * 1.000001
    y.backward()"""


def sweep(workers, rounds, sizes, make, call):
    """Seconds of both libraries for each size."""
    found = []
    for n in sizes:
        _, ours, theirs = compared(Case("growth", str(n), make(n), call), workers, rounds)
        found.append((ours, theirs))
        print(f"{call} {n}: {ours:.3g} s, {theirs:.3g} s", flush=True)
    return [list(column) for column in zip(*found, strict=True)]


def picture(path, title, across, up, series, level=None, scale="linear"):
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for label, xs, ys in series:
        axes.plot(xs, ys, marker="o", markersize=3.5, label=label)
    if level is not None:
        axes.axhline(level[1], color="gray", linestyle="--", linewidth=1, label=level[0])
    axes.set(title=title, xlabel=across, ylabel=up, xscale="log", yscale=scale)
    if scale == "linear":
        axes.set_ylim(0)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", default=".", metavar="FOLDER", help="where the pictures go")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    folder, rounds, limits = Path(options.to), options.rounds, machine_limits()
    workers = [Worker("cygrad"), Worker("torch")]
    sizes = [2**k for k in range(8, 26)]
    series = []
    for name, call, operands in (("a + b", "a + b", 3), ("exp", "a.exp()", 2)):
        both = sweep(workers, rounds, sizes, PAIR.format, call)
        for library, seconds in zip(("cygrad", "PyTorch"), both, strict=True):
            rates = [4e-9 * operands * n / s for n, s in zip(sizes, seconds, strict=True)]
            series.append((f"{name}, {library}", sizes, rates))
    picture(folder / "growth_elementwise.png", "Elementwise, float32, 2 threads", "elements", "GB/s", series,
            ("copy of large arrays", limits["GB/s"]))
    sizes = [8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536]
    both = sweep(workers, rounds, sizes, lambda n: f"a, b = torch.randn({n}, {n}), torch.randn({n}, {n})", "a @ b")
    series = [(library, sizes, [2e-9 * n**3 / s for n, s in zip(sizes, seconds, strict=True)])
              for library, seconds in zip(("cygrad", "PyTorch"), both, strict=True)]
    picture(folder / "growth_matmul.png", "Products of n x n, float32, 2 threads", "n", "GFLOP/s", series,
            ("best product", limits["GFLOP/s"]))
    sizes = [8, 16, 32, 64, 128, 256, 512, 1024, 2048]
    both = sweep(workers, rounds, sizes, lambda n: STEP.format(depth=2, width=n, batch=64), "step()")
    series = [(library, sizes, [1e6 * s for s in seconds])
              for library, seconds in zip(("cygrad", "PyTorch"), both, strict=True)]
    picture(folder / "growth_training.png", "Training step of an MLP: 2 layers, batch 64, SGD", "width", "µs", series,
            scale="log")
    series = []
    for what, sizes, make, call in (
        ("elements of a + b", [2**k for k in range(17, 27)], PAIR.format, "a + b"),
        ("batch of a training step", [2**k for k in range(8, 15)], lambda n: STEP.format(depth=2, width=64, batch=n),
         "step()"),
        ("layers of a training step", [2**k for k in range(3, 9)], lambda n: STEP.format(depth=n, width=64, batch=64),
         "step()"),
        ("nodes of a graph, forward and backward", [2**k for k in range(8, 19)], CHAIN.format, "chain()"),
    ):
        seconds, _ = sweep(workers, rounds, sizes, make, call)
        series.append((what, sizes, [s / n / (seconds[-1] / sizes[-1]) for n, s in zip(sizes, seconds, strict=True)]))
    picture(folder / "growth_doubling.png", "cygrad: time for each unit of work", "units of work",
            "time a unit / that at the largest size", series, ("twice the work, twice the time", 1))


if __name__ == "__main__":
    main()

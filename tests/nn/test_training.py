"""Whole training runs: beside PyTorch, under other numbers of threads, and how much memory they keep."""

import importlib
import os
import subprocess
import sys

import pytest


def losses(torch, nn, data, steps, make_optimizer):
    """Losses of an MLP on noise, from one seed: weights, shuffles and data are drawn from it."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = make_optimizer(model.parameters())
    x = torch.rand(256, 20) * 2 - 1
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=32, shuffle=True)
    out = []
    while len(out) < steps:
        for batch, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), labels)
            loss.backward()
            optimizer.step()
            out.append(loss.item())
    return out


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_the_same_losses_as_torch_for_two_hundred_steps(torch, nn, data, oracle, kind):
    """Only the import line differs between the two programs."""

    def make(library):
        options = {"lr": 0.02, "momentum": 0.9} if kind == "SGD" else {"lr": 3e-3}
        return lambda parameters: getattr(library.optim, kind)(parameters, **options)

    ours = losses(torch, nn, data, 200, make(torch))
    theirs = losses(oracle, oracle.nn, importlib.import_module("torch.utils.data"), 200, make(oracle))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert ours[-1] < ours[0] / 4


TRAINING = """
torch.manual_seed(0)
nn = torch.nn
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.2), nn.Linear(256, 10))
optimizer = torch.optim.Adam(net.parameters())
x, y = torch.randn(BATCH, 64), torch.arange(BATCH) % 10

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()
"""

RESIDENT = """
import resource

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

train(200)
before = resident()
train(1800)
print(resident() - before)
"""


def child(backend, batch, code, **environment):
    """What code after TRAINING prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {backend} as torch\nBATCH = {batch}\n{TRAINING}\n{code}"],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_WAIT_POLICY": "passive"} | environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_threads_do_not_change_a_run(backend, beyond_pytorch):
    code = "print(train(20), [p.sum().item() for p in net.parameters()])"
    assert len({child(backend, 600, code, OMP_NUM_THREADS=n) for n in "12"}) == 1


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the resident memory from /proc")
def test_memory_does_not_grow_with_the_steps(backend):
    assert int(child(backend, 32, RESIDENT)) < 1_000_000

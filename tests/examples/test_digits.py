"""The example that trains on handwritten digits does all that it says."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "packages/nn/examples/digits.py"


@pytest.fixture(scope="module", autouse=True)
def needed():
    for module in ("sklearn", "matplotlib", "cygrad.tools", "cygrad.utils.safetensors"):
        pytest.importorskip(module)


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_WAIT_POLICY": "passive"},
    )


def test_the_main_job(tmp_path):
    from cygrad.utils import safetensors

    out = tmp_path / "results"
    done = run("--out", str(out))
    assert done.returncode == 0, done.stderr
    epochs = re.findall(r"epoch +(\d+) +loss \d+\.\d+ .*accuracy +(\d+\.\d+)% +([\d,]+) images/s", done.stdout)
    assert [int(number) for number, _, _ in epochs] == list(range(1, 31))
    assert "100%" in done.stderr  # the progress bar
    trained, loaded = (float(p) for p in re.findall(r"accuracy (?:on|with).*: +(\d+\.\d+)%", done.stdout))
    assert trained == loaded >= 97
    for name in ("results.png", "step.svg", "weights.safetensors"):
        assert str(out / name) in done.stdout
    assert (out / "results.png").read_bytes().startswith(b"\x89PNG")
    text = "".join(ElementTree.parse(out / "step.svg").getroot().itertext())
    for name in ("0.weight", "6.bias", "AddmmBackward0", "LogSoftmaxBackward0", "AccumulateGrad"):
        assert name in text
    saved = set(safetensors.load_file(out / "weights.safetensors"))
    assert saved == {f"{layer}.{name}" for layer in (0, 3, 6) for name in ("weight", "bias")}


def test_the_seed_decides_everything(tmp_path):
    runs = [run("--epochs", "2", "--seed", seed, "--out", str(tmp_path / str(i))) for i, seed in enumerate("334")]
    losses = [re.findall(r"loss (\d+\.\d+)", done.stdout) for done in runs]
    assert losses[0] == losses[1] != losses[2] and len(losses[0]) == 4


def test_bad_arguments(tmp_path):
    done = run("--epochs", "0", "--out", str(tmp_path))
    assert done.returncode == 2 and "0 is not positive" in done.stderr and not list(tmp_path.iterdir())

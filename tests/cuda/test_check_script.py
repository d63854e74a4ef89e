"""The script for machines with a GPU runs through on an imitated device, and finds nothing wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/cuda_check.py"


@pytest.mark.usefixtures("two_devices")
def test_the_script_runs_through():
    command = [sys.executable, SCRIPT, "--no-build", "--size", "32", "--rows", "^(add|exp|sum|softmax|sort|matmul)$"]
    environment = os.environ | {"CYGRAD_CUDA_HOST": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0 and done.stdout.endswith("failures: 0\n"), done.stdout + done.stderr
    for name in ("rows: ", "training: ", "convolutions: ", "order: ", "copy bandwidth: ", "matmul", "launch: ", "GPT"):
        assert name in done.stdout

"""The script for machines with a GPU runs through on an imitated device, and survives what may happen on a real one."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks/cuda_check.py"
pytestmark = pytest.mark.usefixtures("imitated_devices")


def run(file, *options):
    command = [sys.executable, SCRIPT, "--no-build", "--tiny", "--json", file, *options]
    environment, pipe = os.environ | {"CYGRAD_CUDA_HOST": "1"}, subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def read(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_all_parts_run_through(tmp_path):
    """But for the samples of PyTorch, whose import takes as long as all the rest."""
    file = tmp_path / "found.jsonl"
    limits = "--seconds", "500", "--part-seconds", "450", "--item-seconds", "400"      # of a busy machine
    process = run(file, "--parts", "^(?!samples)", "--jobs", "2", *limits)
    said = process.communicate(timeout=500)[0]
    assert process.returncode == 0 and said.endswith("failures: 0\n"), said[-8000:]
    found = read(file)
    figures = {r["figure"] for r in found if "figure" in r}
    assert {"copy bandwidth", "add", "transposed copy", "launch: x + x", "GPT tiny fp32", "AdamW step"} <= figures
    assert all(r["fraction"] > 0 for r in found if "fraction" in r) and "MISSED" in said
    done = {r["part"] for r in found if r.get("status") == "ok"}
    assert {"smoke", "elementwise", "training", "streams", "large", "tests"} <= done
    assert "parts without time: none" in said


def test_what_fails_crashes_or_hangs_takes_nothing_along(tmp_path):
    file = tmp_path / "found.jsonl"
    process = run(file, "--parts", "faults", "--item-seconds", "2")
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 1 and said.endswith("failures: 3\n"), said
    last = {r["item"]: r for r in read(file) if r.get("status") not in (None, "begun")}
    assert [last[name]["status"] for name in ("before", "between", "behind the crash", "after")] == ["ok"] * 4
    assert "on purpose" in last["wrong"]["what"] and "SIGABRT" in last["crash"]["what"]
    assert "did not end" in last["hang"]["what"] and "CUDA_LAUNCH_BLOCKING=1: wrong, crash, hang" in said


def test_what_was_found_is_there_when_the_script_is_ended(tmp_path):
    file = tmp_path / "found.jsonl"
    process = run(file, "--parts", "faults")
    while '"item": "hang"' not in (file.read_text() if file.exists() else "") and process.poll() is None:
        time.sleep(0.05)
    process.terminate()
    said = process.communicate(timeout=30)[0]
    assert "FAILED wrong" in said and said.endswith("ended from outside\n") and process.returncode == 1
    assert {r["item"]: r["status"] for r in read(file)}["behind the crash"] == "ok"


def test_without_time_the_parts_say_so(tmp_path):
    process = run(tmp_path / "found.jsonl", "--parts", "^(smoke|rows)$", "--seconds", "3")
    assert "parts without time: smoke, rows" in process.communicate(timeout=60)[0] and process.returncode == 2

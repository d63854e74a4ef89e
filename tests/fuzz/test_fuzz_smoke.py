"""Some of the random programs of ``nox -s fuzz``, the same in every run; and the tools that draw and shrink them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="its behaviour is what programs are compared with")

HERE = Path(__file__).resolve().parent


def test_programs_agree():
    run = [sys.executable, str(HERE / "run.py"), "--programs", "150", "--seed", "33", "--jobs", "2", "--budget", "200"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_failure_is_made_small(monkeypatch):
    """Lines that do not matter go, numbers and calls become simple, and names start from 1."""
    monkeypatch.syspath_prepend(str(HERE))
    from shrink import shrink

    program = [
        "v1 = data(5, 2, 3, grad=True)",
        "v2 = data(7, 2)",
        "with torch.no_grad(): v4 = v1.t().add_(3, alpha=2)",
        "v5 = v4 * v2",
    ]

    def fails(lines):
        return any(".add_(" in line for line in lines) and any("data(" in line for line in lines)

    assert shrink(program, fails) == ["v1 = data(0)", "v1 = v1.add_(0)"]


def test_a_program_is_printed_as_a_script(monkeypatch):
    """With the hooks and Functions that it calls, and no others."""
    monkeypatch.syspath_prepend(str(HERE))
    from pair import snippet

    text = snippet(
        ["v1 = data(1, 2, grad=True)", "v2 = Square.apply(v1)", "v2.sum().backward()", "print(v1.grad.tolist())"]
    )
    assert "class Square" in text
    assert "class Dirty" not in text
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[-5.0, 0.0]\n", "")

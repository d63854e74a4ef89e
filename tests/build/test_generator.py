"""What the op generator prints is a function of its sources alone: a file that differed would be compiled again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
ROOT = Path(__file__).resolve().parents[2]

PRINT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1] + "/build_support")
from cygrad_build import import_generator
packages, out = Path(sys.argv[1], "packages"), sys.argv[2]
opgen = import_generator(packages / "storage/src/cygrad/storage")
opgen.write_storage(out)
opgen.write_autograd(out, packages / "autograd/src/cygrad/autograd")
"""


def printed(folder, seed):
    folder.mkdir()
    env = os.environ | {"PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", PRINT, str(ROOT), str(folder)], env=env, check=True)
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_every_run_prints_the_same(tmp_path):
    """In whatever order Python's sets come."""
    first = printed(tmp_path / "first", "1")
    assert len(first) > 10
    for seed in ("2", "3"):
        again = printed(tmp_path / seed, seed)
        assert first.keys() == again.keys()
        assert [name for name in first if first[name] != again[name]] == []

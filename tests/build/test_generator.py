"""What the op generator prints: the same in every run, and of an edited row only what depends on it.

A file that differs is compiled again, with everything that includes it.
"""

import os
import re
import shutil
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


STORAGE = Path("packages/storage/src/cygrad/storage")
AUTOGRAD = Path("packages/autograd/src/cygrad/autograd")
EDITS = {  # row of the table, key, what its value becomes -> files that change
    "docstring": ("exp", "doc", "{} Edited.", {"forms_table.h"}),
    "formula": ("square", "fwd", "1 * ({})", {"complex_rows.h", "pointwise_loops.pxi"}),
    "comparison": ("eq", "fwd", "b == a", {"comparisons_loops.pxi", "complex_rows.h"}),
    "rare": ("erfc", "fwd", "1 * ({})", {"special_loops.pxi"}),
    "gradient": ("tanh", "grad.x", "1 * ({})", {"gradients_loops.pxi", "gradients_pointwise.pxi"}),
    "gradient of a reduction": ("mean", "grad.x", "1 * ({})", {"gradients_others.pxi"}),
    "gradient that reads another value": ("softmax", "grad.x", "{} + 0 * x", {"gradients_others.pxi"}),
}


def printed(folder, seed="0", root=ROOT):
    folder.mkdir()
    env = os.environ | {"PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", PRINT, str(root), str(folder)], env=env, check=True)
    return {path.name: path.read_text() for path in folder.iterdir()}


def edit(table, row, key, new):
    """Change a row, wherever in the folder of the table it is."""
    head = re.compile(rf'^\[{re.escape(row)}\]\n(?:(?!\[).*\n)*?{re.escape(key)}\s*= "(.*)"$', re.M)
    found = [(path, match) for path in table.glob("*.toml") for match in head.finditer(path.read_text())]
    assert len(found) == 1, found
    path, match = found[0]
    text = path.read_text()
    path.write_text(text[: match.start(1)] + new.format(match[1]) + text[match.end(1) :])


def test_every_run_prints_the_same(tmp_path):
    """In whatever order Python's sets come."""
    first = printed(tmp_path / "first", "1")
    assert len(first) > 10
    for seed in ("2", "3"):
        again = printed(tmp_path / seed, seed)
        assert first.keys() == again.keys()
        assert [name for name in first if first[name] != again[name]] == []


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return printed(tmp_path_factory.mktemp("before") / "out")


@pytest.mark.parametrize("what", EDITS)
def test_an_edit_changes_what_depends_on_it_only(tmp_path, before, what):
    """Above all: never ops.pxi, and with it the engine of autograd, which takes longest to compile."""
    row, key, new, changed = EDITS[what]
    for folder in (STORAGE / "opgen", STORAGE / "optable", STORAGE / "kernels", AUTOGRAD, Path("build_support")):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for path in (ROOT / STORAGE).glob("*.p*"):
        shutil.copy(path, tmp_path / STORAGE)
    shutil.copytree(ROOT / STORAGE / "cuda", tmp_path / STORAGE / "cuda", ignore=shutil.ignore_patterns("*.so"))
    edit(tmp_path / STORAGE / "optable", row, key, new)
    after = printed(tmp_path / "out", root=tmp_path)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == changed

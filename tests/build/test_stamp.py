"""The stamp that keeps modules of two builds apart changes with what numbers kernels and operations, and only then."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build_support"))
from cygrad_build import abi_stamp

ROW = '[double]\nsig = "x -> y"\nfwd = "x + x"\ngrad.x = "g + g"\ndoc = "Twice."\n'


def stamp(folder, row=ROW, declaration="cdef int one()"):
    (folder / "rows.toml").write_text(row)
    (folder / "core.pxd").write_text(declaration)
    return abi_stamp([folder])


@pytest.mark.parametrize("change", [("x + x", "2 * x"), ("Twice", "Two times"), ("g + g", "2 * g")])
def test_a_formula_is_no_interface(tmp_path, change):
    assert stamp(tmp_path) == stamp(tmp_path, ROW.replace(*change))


@pytest.mark.parametrize("change", [("[double]", "[twice]"), ("x -> y", "x, b -> y"), ('grad.x = "g + g"\n', "")])
def test_what_numbers_operations_is_one(tmp_path, change):
    assert stamp(tmp_path) != stamp(tmp_path, ROW.replace(*change))


def test_declarations_are_one(tmp_path):
    assert stamp(tmp_path) != stamp(tmp_path, declaration="cdef long one()")

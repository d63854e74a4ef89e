"""The stamp that keeps modules of two builds apart changes with what numbers kernels and operations, and only then."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build_support"))
from cygrad_build import abi_stamp, with_includes

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


def test_a_module_is_built_anew_for_headers_of_headers_only(tmp_path):
    """What Cython finds names the first header; those that it includes count too, and no other."""
    headers = {name: tmp_path / name for name in ("loops.h", "types.h", "other.h")}
    for path, text in zip(headers.values(), ('#include "types.h"\n#include <math.h>\n', "", ""), strict=True):
        path.write_text(text)
    found = with_includes([str(headers["loops.h"]), "core.pxd"], headers)
    assert set(found) == {str(headers["loops.h"]), "core.pxd", str(headers["types.h"])}

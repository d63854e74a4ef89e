"""The stubs of modules whose names are declared elsewhere list all of them; `nox -s types` checks compiled modules."""

import ast
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "packages/autograd/src/cygrad"


@pytest.mark.parametrize("name", ["linalg", "fft", "special", "signal.windows"])
def test_a_stub_has_the_names_of_its_module(name):
    module = importlib.import_module(f"cygrad.{name}")
    body = ast.parse((SOURCE / f"{name.replace('.', '/')}.pyi").read_text()).body
    listed = {alias.asname: alias.name for node in body for alias in node.names}
    assert listed.keys() == set(module.__all__)
    for public, own in listed.items():
        assert getattr(module, public).__name__ == own

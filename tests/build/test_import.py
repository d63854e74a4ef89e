"""``import cygrad`` is short: it loads few modules of the standard library and none of other packages."""

import subprocess
import sys

import pytest

# What runs at import; adding to it makes each start of each program longer.
NEEDED = {
    "collections", "contextlib", "ctypes", "cython_runtime", "functools", "importlib", "itertools", "keyword", "math",
    "operator", "reprlib", "struct", "threading", "types", "warnings", "weakref",
}
CODE = """
import sys
before = set(sys.modules)
import cygrad
x = cygrad.ones(2, requires_grad=True)
(x * 2).sum().backward()
repr(x.grad)
with cygrad.no_grad():
    x + 1
print(*(set(sys.modules) - before))
"""


def loaded():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_import_loads_little():
    others = {name for name in loaded() if not name.startswith("_") and name != "cygrad"}
    assert others <= NEEDED, sorted(others - NEEDED)


@pytest.mark.parametrize("name", ["typing", "inspect", "dataclasses", "re", "enum", "numpy", "json"])
def test_what_is_slow_to_load_is_not_loaded(name):
    assert name not in loaded()


def test_names_that_are_loaded_late_are_there():
    code = (
        "import cygrad.autograd.graph as graph, cygrad.autograd.nan as nan\n"
        "found = graph.saved_tensors, graph.SavedTensors, nan.NanReport, nan.Values\n"
        "print(*(f.__name__ for f in found))\n"
        "for module in (graph, nan):\n"
        "    try: module.nothing\n"
        "    except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "saved_tensors SavedTensors NanReport Values",
        "module 'cygrad.autograd.graph' has no attribute 'nothing'",
        "module 'cygrad.autograd.nan' has no attribute 'nothing'",
    ]

"""Importing the tools costs nothing until they are used."""

import subprocess
import sys

import pytest

import cygrad.tools


def test_modules_are_loaded_on_demand():
    code = (
        "import sys, cygrad.tools\n"
        "before = {m for m in sys.modules if m.startswith('cygrad.tools.')}\n"
        "cygrad.tools.show_storage\n"
        "after = {m for m in sys.modules if m.startswith('cygrad.tools.')}\n"
        "print(sorted(before), 'cygrad.tools.storage_picture' in after, 'cygrad.tools.gradcheck' in after)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True False"


def test_what_is_there_is_listed():
    assert {"gradcheck", "graph", "show_storage", "storage_picture"} <= set(dir(cygrad.tools))
    for name in cygrad.tools.__all__:
        assert getattr(cygrad.tools, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'debugger'"):
        cygrad.tools.debugger  # noqa: B018

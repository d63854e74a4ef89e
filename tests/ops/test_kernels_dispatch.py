"""Which instruction set runs: the best by default, another by CYGRAD_ISA, and never one of another build."""

import os
import subprocess
import sys

import pytest

from cygrad.storage import dispatch

ISAS = dispatch.isas_available()


def python(code, **environment):
    env = {k: v for k, v in os.environ.items() if k != "CYGRAD_ISA"} | environment
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


ASK = "from cygrad.storage import dispatch; print(dispatch.isa(), *dispatch.isas_available())"


def test_the_best_one_is_the_default():
    assert python(ASK).stdout.split() == [ISAS[0], *ISAS]
    assert python(ASK, CYGRAD_ISA=" ").stdout.split()[0] == ISAS[0]
    assert ISAS[-1] == "base"


@pytest.mark.parametrize("isa", ISAS)
def test_each_one_can_be_chosen(isa):
    assert python(ASK, CYGRAD_ISA=isa).stdout.split() == [isa, *ISAS]


def test_only_the_chosen_modules_are_loaded():
    code = "import sys, cygrad.storage.dispatch; print(*{m.rpartition('_')[2] for m in sys.modules if '._k_' in m})"
    assert python(code, CYGRAD_ISA="base").stdout.split() == ["base"]


def test_an_unknown_one_is_refused_with_the_choices():
    found = python(ASK, CYGRAD_ISA="avx1024")
    assert found.returncode == 1
    wanted = f"ImportError: CYGRAD_ISA='avx1024' is not available: this CPU and this build have {', '.join(ISAS)}"
    assert wanted in found.stderr


def test_kernels_of_another_table_are_refused():
    code = (
        "import importlib.machinery, sys, types; name = 'cygrad.storage.kernels._k_pointwise_base';"
        "sys.modules[name] = m = types.ModuleType(name); m.__spec__ = importlib.machinery.ModuleSpec(name, None);"
        "m.table_stamp = lambda: 0; import cygrad.storage.dispatch"
    )
    found = python(code, CYGRAD_ISA="base")
    assert "_k_pointwise_base was compiled for another op table" in found.stderr

"""The compiler turned the pointwise loops into vector code: registers are as wide as the options allow.

A loop that falls back to one element at a time still gives right results, so no other test would notice.
"""

import importlib.util
import platform
import re
import shutil
import subprocess

import pytest

WIDEST = {"base": "xmm", "avx2": "ymm", "avx512": "zmm"}
ARITHMETIC = r"\bv?(?:add|sub|mul|div|fn?m(?:add|sub)\d+)ps\b"
OWN = ("exp", "expm1", "log", "log1p", "tanh", "erf")  # polynomials of vecmath.h, which a loop can take in

pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the register names are those of x86-64"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump and nm"),
]


def kernels(isa):
    spec = importlib.util.find_spec(f"cygrad.storage.kernels._k_pointwise_{isa}")
    assert spec is not None, f"this build has no kernels for {isa}"
    return spec.origin


def printed(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("isa", WIDEST)
def test_pointwise_kernels_use_wide_registers(isa):
    text = printed("objdump", "-d", "--no-show-raw-insn", kernels(isa))
    packed = re.findall(rf"{ARITHMETIC}.*%{WIDEST[isa]}", text)
    assert len(packed) > 300


@pytest.mark.parametrize("isa", WIDEST)
def test_own_functions_are_not_calls(isa):
    called = re.findall(r"U (\w+)", printed("nm", "-D", "--undefined-only", kernels(isa)))
    assert "cosf" in called  # one that has no polynomial yet: the list of calls is really read
    assert not {name + suffix for name in OWN for suffix in ("", "f")} & set(called)

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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the register names are those of x86-64")
@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize("isa", WIDEST)
def test_pointwise_kernels_use_wide_registers(isa):
    spec = importlib.util.find_spec(f"cygrad.storage.kernels._k_pointwise_{isa}")
    assert spec is not None, f"this build has no kernels for {isa}"
    command = ["objdump", "-d", "--no-show-raw-insn", spec.origin]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    packed = re.findall(rf"{ARITHMETIC}.*%{WIDEST[isa]}", text)
    assert len(packed) > 300

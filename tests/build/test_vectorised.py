"""Each pointwise loop over floats is vector code, as wide as its instruction set allows: read from the machine code.

A loop that falls back to one element at a time still gives right results, so no other test would notice.
"""

import importlib.util
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from cygrad.storage import dispatch
from cygrad.storage.opgen.parse import load
from cygrad.storage.opgen.scalar import kernels

CODE = {"b8": 0, "u8": 1, "i32": 4, "i64": 5, "u64": 14, "f32": 8, "f64": 9}
# a load or store of a whole register; base has it in xmm registers, where scalar code only uses parts
WIDE = {
    "base": r"mov[au]p[sd]\s.*\(.*%xmm|mov[au]p[sd]\s+%xmm\d+,.*\(",
    "avx2": r"%ymm",
    "avx512": r"%zmm",
}
# libm computes these one by one: f64 powers always, the others where there is no fused multiply-add
POWERS = {(name, t) for name in ("pow", "pow_g_a", "round_decimals") for t in ("f32", "f64")}
REMAINDERS = {(name, "f64") for name in ("floor_divide", "remainder", "fmod", "remainder_g_b")}
# SSE2 has no short way from a comparison of doubles to a byte
BYTES = {(k.name, "f64") for k in kernels(load()) if k.truth}
BUILT = [isa for isa in WIDE if importlib.util.find_spec(dispatch.module_name("pointwise", isa))]
FUSED = [name for name in dispatch.isas_available() if name != "base"]
EVERY = [(k.name, t.name) for k in kernels(load()) if not k.row.rare for t in k.types]
LOOPS = [(name, t) for name, t in EVERY if t in ("f32", "f64")]

pytestmark = [
    pytest.mark.skipif(BUILT == ["base"], reason="CYGRAD_QUICK_BUILD=1 hardly optimises"),
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the register names are those of x86-64"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump"),
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the load address of a module"),
]


@cache
def code(group, isa):
    """Address of each loop -> its instructions, from one disassembly of the module."""
    path = importlib.util.find_spec(dispatch.module_name(group, isa)).origin
    inside = [(name, t) for name, t in EVERY if dispatch.KERNELS[name][3] == group]
    starts = sorted({dispatch.loop_address(name, CODE[t], isa) for name, t in inside})
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(path)]
    base = min(int(fields[0].split("-")[0], 16) for fields in maps)
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", path]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [(int(m[1], 16), m[2]) for m in re.finditer(r"^\s*([0-9a-f]+):\t(.*)$", text, re.M)]
    ends = [*starts[1:], base + lines[-1][0]]
    found, at = {}, 0
    for start, end in zip(starts, ends, strict=True):
        while lines[at][0] + base < start:
            at += 1
        first = at
        while at < len(lines) and lines[at][0] + base < end:
            at += 1
        found[start] = "\n".join(line for _, line in lines[first:at])
    return found


def is_wide(name, type, isa):
    found = code(dispatch.KERNELS[name][3], isa)
    return re.search(WIDE[isa], found[dispatch.loop_address(name, CODE[type], isa)]) is not None


@pytest.mark.parametrize("isa", dispatch.isas_available())
def test_loops_are_wide(isa):
    expected = [loop for loop in LOOPS if loop not in POWERS | REMAINDERS | (BYTES if isa == "base" else set())]
    assert not [f"{name}_{t}" for name, t in expected if not is_wide(name, t, isa)]


@pytest.mark.parametrize("isa", FUSED)
def test_fused_arithmetic_makes_remainders_and_powers_wide(isa):
    wanted = REMAINDERS | {("pow", "f32"), ("pow_g_a", "f32")}
    assert not [loop for loop in wanted if not is_wide(*loop, isa)]


@pytest.mark.parametrize("isa", FUSED)
def test_a_loop_that_calls_libm_is_seen(isa):
    assert not is_wide("pow", "f64", isa)

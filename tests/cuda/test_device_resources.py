"""What the main kernels take of the device, as nvcc reports it, beside a recorded table; loads of 16 bytes.

It takes minutes of nvcc, so it runs where CYGRAD_TEST_NVCC is set, as `nox -s cuda_compile` does.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cygrad.storage import opgen

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build_support"))
from cygrad_cuda import find_nvcc

STORAGE = Path(__file__).resolve().parents[2] / "packages/storage/src/cygrad/storage"
TABLE = tomllib.loads(Path(__file__).with_name("resources.toml").read_text())
NVCC = find_nvcc()

if NVCC is None or not os.environ.get("CYGRAD_TEST_NVCC"):
    pytest.skip("set CYGRAD_TEST_NVCC, where nvcc is, to compile for a device", allow_module_level=True)


def compiled(name, folder, *options):
    command = [NVCC, "-std=c++17", "-diag-suppress", "186", "-arch=sm_90", *options, f"-I{folder}", f"-I{STORAGE}/cuda",
               f"-I{STORAGE}/kernels", STORAGE / "cuda" / f"{name}.cu"]  # fmt: skip
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


def readable(name):
    text = subprocess.run(["c++filt", name], check=True, capture_output=True, text=True).stdout
    return re.sub(r"\(anonymous namespace\)::|^void cyg_kernel<| ?>\(.*", "", text).strip()


@pytest.mark.parametrize("source", TABLE)
def test_registers_and_spills(source, tmp_path):
    """Nearly nothing is spilled, and none of the kernels in the table takes more registers than is recorded."""
    report = compiled(source, tmp_path, "-Xptxas", "-v", "-cubin", "-o", "out.cubin").stderr
    found = {}
    for name, rest in re.findall(r"Compiling entry function '(\S+)'(.*?Used \d+ registers)", report, re.S):
        spilled, registers = (
            re.search(r"(\d+) bytes spill stores", rest)[1],
            re.search(r"Used (\d+) registers", rest)[1],
        )
        found[readable(name)] = int(registers), int(spilled)
    assert found, report
    frames = map(int, re.findall(r"(\d+) bytes stack frame", report))
    assert source == "optim" or max(frames) <= 8, "arrays that are no registers"      # 8: what is spilled
    assert {name: spilled for name, (_, spilled) in found.items() if spilled > 8} == {}
    for name, most in TABLE[source].items():
        assert found[name][0] <= most, f"{name}: {found[name][0]} registers, {most} are recorded"


@pytest.mark.parametrize("source", ("copy", "lines"))
def test_dense_memory_is_read_in_16_bytes(source, tmp_path):
    compiled(source, tmp_path, "-ptx", "-o", "out.ptx")
    text = (tmp_path / "out.ptx").read_text()
    assert re.search(r"ld\.(global(\.nc)?\.)?v4\.[bfu]32", text), f"{source}.cu: no vector load"
    assert re.search(r"st\.(global\.)?v4\.[bfu]32", text) or source == "lines", f"{source}.cu: no vector store"


@pytest.mark.parametrize("source", sorted(p.stem for p in (STORAGE / "cuda").glob("*.cu")))
def test_device_code_calls_no_function_of_the_host(source, tmp_path):
    """nvcc only warns of such calls, which have no meaning on the device."""
    opgen.write_cuda(tmp_path)
    compiled(source, tmp_path, "-G", "-ptx", "-Werror", "cross-execution-space-call", "-o", "out.ptx")

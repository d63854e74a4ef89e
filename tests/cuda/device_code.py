"""The device code as a library of the host: every .cu compiled with -DCYG_HOST, and what a test calls it with."""

import ctypes
import hashlib
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cygrad.storage import opgen

STORAGE = Path(__file__).resolve().parents[2] / "packages/storage/src/cygrad/storage"
COMPILER = shutil.which("g++")
MAXOPS, MAXDIM = 6, 64
CODES = {"bool": 0, "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "bfloat16": 7,
         "float32": 8, "float64": 9, "complex64": 10, "complex128": 11, "uint16": 12, "uint32": 13,
         "uint64": 14}  # fmt: skip


class Iter(ctypes.Structure):
    """The struct of core.pxd."""

    _fields_ = [("nop", ctypes.c_int), ("ndim", ctypes.c_int), ("numel", ctypes.c_int64),
                ("p", ctypes.c_void_p * MAXOPS), ("sizes", ctypes.c_int64 * MAXDIM),
                ("st", (ctypes.c_int64 * MAXOPS) * MAXDIM)]  # fmt: skip


@cache
def library():
    """The shared object, compiled once for a run of tests."""
    if COMPILER is None:
        pytest.skip("no g++: the device code cannot be compiled for the host")
    folder = STORAGE.parents[2] / "build/cuda_host"
    folder.mkdir(parents=True, exist_ok=True)
    opgen.write_cuda(folder)
    includes = (folder, STORAGE / "cuda", STORAGE / "kernels")
    flags = ["-std=c++17", "-O0", "-DCYG_HOST", "-fPIC", "-w", *(f"-I{p}" for p in includes)]

    def compiled(path):
        """The object of a source; one that is there from an earlier run is of the same text, by its name."""
        rule = subprocess.run([COMPILER, *flags, "-MM", "-x", "c++", path], check=True, capture_output=True, text=True)
        read = rule.stdout.replace("\\\n", " ").split()[1:]
        text = b"".join(Path(p).read_bytes() for p in read)
        made = folder / f"{path.stem}-{hashlib.sha256(text).hexdigest()[:16]}.o"
        if not made.exists():
            for old in folder.glob(f"{path.stem}-*.o"):
                old.unlink()
            subprocess.run([COMPILER, *flags, "-x", "c++", "-c", path, "-o", made], check=True)
        return made

    sources = [p for p in sorted((STORAGE / "cuda").glob("*.cu")) if p.stem != "runtime"]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sources))
    subprocess.run([COMPILER, "-shared", "-o", folder / "device.so", *objects, "-ldl"], check=True)
    return ctypes.CDLL(str(folder / "device.so"))


def iterate(*arrays):
    """An `Iter` over arrays that broadcast to the first one, the result; dimensions are merged as iter.pxi does."""
    it = Iter(nop=len(arrays), numel=arrays[0].size)
    views = [np.broadcast_to(a, arrays[0].shape) for a in arrays]
    dims = [(size, [v.strides[d] for v in views]) for d, size in enumerate(arrays[0].shape) if size != 1]
    dims.sort(key=lambda dim: abs(dim[1][0]))
    joined = []
    for size, strides in dims or [(1, [0] * len(arrays))]:
        if joined and all(s == joined[-1][0] * t for s, t in zip(strides, joined[-1][1], strict=True)):
            joined[-1] = (joined[-1][0] * size, joined[-1][1])
        else:
            joined.append((size, strides))
    it.ndim = len(joined)
    for d, (size, strides) in enumerate(joined):
        it.sizes[d] = size
        for k, stride in enumerate(strides):
            it.st[d][k] = stride
    for k, a in enumerate(arrays):
        it.p[k] = a.ctypes.data
    return it


def call(name, *arguments):
    """Run an entry point of kernels.h, which has to succeed; Python floats are doubles, and arrays their addresses."""

    def convert(a):
        if isinstance(a, np.ndarray):
            return ctypes.c_void_p(a.ctypes.data)
        if isinstance(a, float):
            return ctypes.c_double(a)
        return ctypes.byref(a) if isinstance(a, ctypes.Structure) else ctypes.c_int64(a) if isinstance(a, int) else a

    error = getattr(library(), name)(*map(convert, arguments), None)
    assert error == 0, f"{name} returned {error}"

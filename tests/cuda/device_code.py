"""The device code as a library of the host: every .cu compiled with -DCYG_HOST, and what a test calls it with."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cygrad.storage import opgen

sys.path.append(str(Path(__file__).resolve().parents[2] / "build_support"))
import cygrad_cuda

STORAGE = Path(__file__).resolve().parents[2] / "packages/storage/src/cygrad/storage"
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
    """The shared object, linked once for a run of tests from the objects that a build with CYGRAD_CUDA=host has too."""
    folder = STORAGE.parents[2] / "build/cuda_host"
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch, open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)                 # other processes may run tests, too
        opgen.write_cuda(folder)
        patch.setenv("CYGRAD_CUDA", "host")
        if shutil.which(cygrad_cuda.compiler()[0]) is None:
            pytest.skip("no C++ compiler: the device code cannot be compiled for the host")
        objects = cygrad_cuda.objects(STORAGE / "cuda", folder, folder, 2)
        objects = [o for o in objects if Path(o).stem != "runtime"]
        made = folder / f"device-{os.getpid()}.so"
        subprocess.run([*cygrad_cuda.compiler(), "-shared", "-o", made, *objects, "-ldl"], check=True)
        found = ctypes.CDLL(str(made))
        made.unlink()
    return found


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

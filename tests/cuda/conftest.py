"""Tests of the CUDA extension share the modules of this folder, and devices that are there during a test only.

`any_devices` are two that the build imitates, or the real ones. Tests that need more say so: `two_devices` where one
would not do, `imitated_devices` where they rest on what an imitation does (work is put off until something waits, a
stream that is none is refused, devices can be taken away). ``CYGRAD_CUDA_HOST=1 pytest tests/cuda`` imitates one
device, so that a test which lacks its mark is found without a GPU.
"""

import os
import sys
from pathlib import Path

import pytest

from cygrad.storage import cuda

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def any_devices(monkeypatch):
    """Devices; the first is chosen at the end, and their work is done."""
    if cuda.is_host():
        monkeypatch.setenv("CYGRAD_CUDA_HOST", os.environ.get("CYGRAD_CUDA_HOST", "").strip("0") or "2")
    elif cuda.why_not() is not None:
        pytest.skip(f"{cuda.why_not()}; CYGRAD_CUDA=host builds imitated devices")
    count = cuda.device_count()
    yield count
    for device in reversed(range(min(count, 2))):
        cuda.extension().synchronize(device)
    cuda.extension().choose(0)


@pytest.fixture
def two_devices(any_devices):
    if any_devices < 2:
        pytest.skip("there is one device, and this needs two")


@pytest.fixture
def imitated_devices(any_devices):
    if not cuda.is_host():
        pytest.skip("rests on what an imitated device does")


@pytest.fixture
def last_device(any_devices):
    """The name of a device that is not the first one, where there is one."""
    return f"cuda:{min(any_devices, 2) - 1}"

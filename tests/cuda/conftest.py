"""Tests of the CUDA extension share the modules of this folder, and devices that are there during a test only."""

import sys
from pathlib import Path

import pytest

from cygrad.storage import cuda

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def two_devices(monkeypatch):
    """Two devices that the build imitates; the first is chosen at the end, and its work is done."""
    if not cuda.is_host():
        pytest.skip("cygrad-storage was not built with CYGRAD_CUDA=host")
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "2")
    yield
    for device in (1, 0):
        cuda.extension().synchronize(device)
    cuda.extension().choose(0)

"""Fixtures of the tests of nn, optim and utils.

With ``CYGRAD_TEST_BACKEND=torch`` the same tests run on PyTorch, whose behaviour they describe: that is how the tests
themselves are checked. A test that uses ``beyond_pytorch`` asks for more than PyTorch does; one that uses ``oracle``
compares with PyTorch, where it is installed.
"""

import gc
import importlib
import multiprocessing
import os

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")


@pytest.fixture(scope="session")
def torch():
    """The library under test."""
    return importlib.import_module(BACKEND)


@pytest.fixture(scope="session")
def backend():
    """Its name."""
    return BACKEND


@pytest.fixture(scope="session")
def nn(torch):
    return torch.nn


@pytest.fixture(scope="session")
def data(torch):
    return importlib.import_module(BACKEND + ".utils.data")


@pytest.fixture(scope="session")
def safetensors(torch):
    return importlib.import_module("safetensors.torch" if BACKEND == "torch" else BACKEND + ".utils.safetensors")


@pytest.fixture
def beyond_pytorch():
    """Marks what PyTorch does not promise."""
    if BACKEND == "torch":
        pytest.skip("asks for more than PyTorch offers")


@pytest.fixture
def oracle():
    """PyTorch, to compare with."""
    return pytest.importorskip("torch")


@pytest.fixture
def seeded(torch):
    """Start the random numbers from a known place."""
    torch.manual_seed(0)


@pytest.fixture
def nothing_left():
    """After each test, no process and no shared memory is left over."""
    before = set(os.listdir("/dev/shm"))
    yield
    gc.collect()  # what an error's traceback keeps
    assert not multiprocessing.active_children()
    assert not {name for name in set(os.listdir("/dev/shm")) - before if "torch" in name or "cygrad" in name}

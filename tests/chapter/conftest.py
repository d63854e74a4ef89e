"""Fixtures of the chapter's lessons.

The lessons run on cygrad. They describe PyTorch's behaviour, so with ``CYGRAD_TEST_BACKEND=torch`` they must pass on
PyTorch as well: that is how the lessons themselves are checked.
"""
import importlib
import os

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")


@pytest.fixture(scope="session")
def torch():
    """The library under test, under the name that a user of the chapter gives it."""
    return importlib.import_module(BACKEND)


@pytest.fixture
def beyond_pytorch():
    """Marks a lesson about something that PyTorch does not have."""
    if BACKEND != "cygrad":
        pytest.skip("the chapter asks here for more than PyTorch offers")

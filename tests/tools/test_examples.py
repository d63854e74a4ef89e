"""The examples in the docstrings print what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["gradcheck", "graph", "memory", "storage_picture"])
def test_examples_of(name):
    result = doctest.testmod(importlib.import_module(f"cygrad.tools.{name}"))
    assert result.attempted >= 2
    assert result.failed == 0

"""One version, in one file; the installed distributions carry it and pin one another exactly."""

import re
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest

VERSION = (Path(__file__).resolve().parents[2] / "VERSION").read_text().strip()
PINS = {
    "storage": set(),
    "autograd": {"storage"},
    "nn": {"autograd", "storage"},
    "tools": {"autograd", "storage"},
}


@pytest.mark.parametrize("name", PINS)
def test_installed_version_is_the_file_and_siblings_are_pinned(name):
    try:
        found = version(f"cygrad-{name}")
    except PackageNotFoundError:
        pytest.skip(f"cygrad-{name} is used from its source folder, not installed")
    assert found == VERSION
    siblings = {r for r in requires(f"cygrad-{name}") or [] if r.startswith("cygrad-")}
    assert siblings == {f"cygrad-{s}=={VERSION}" for s in PINS[name]}


def test_changelog_knows_the_version():
    changelog = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(VERSION)}\b", changelog, re.M)

"""What the README files show is true: their examples run, and their commands exist."""

import ast
import doctest
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {
    "README.md": "cygrad.autograd",
    "docs/autograd.md": "cygrad.autograd",
    "docs/data.md": "cygrad.nn",
    "docs/finding_mistakes.md": "cygrad.nn",
    "docs/nn.md": "cygrad.nn",
    "docs/saving.md": "cygrad.nn",
} | {
    f"packages/{name}/README.md": f"cygrad.{name}" for name in ("storage", "autograd", "nn", "tools")
}
PATTERNS = ("*.md", "packages/*/README.md", "docs/**/*.md")
PAGES = sorted(p.relative_to(ROOT).as_posix() for pattern in PATTERNS for p in ROOT.glob(pattern))


def installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("page", NEEDS)
def test_examples_print_what_the_page_shows(page):
    if not installed(NEEDS[page]):
        pytest.skip(f"{NEEDS[page]} is not installed")
    text = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S))
    test = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("page", PAGES)
def test_sessions_that_a_page_names_exist(page):
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    sessions = {f.name for f in tree.body if isinstance(f, ast.FunctionDef) and f.decorator_list}
    named = set(re.findall(r"nox -s ([a-z_]+)", (ROOT / page).read_text()))
    assert named <= sessions


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    missing = [target for target in links if not (ROOT / page).parent.joinpath(target).exists()]
    paths = re.findall(r"`((?:packages|tests|benchmarks|docs|build_support)/[\w./-]+)`", text)
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_the_readme_has_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "pip install nox && nox -s demo" in text
    assert "pip install nox && nox -s tests" in text
    assert "pip install nox && nox -s tests" in (ROOT / ".ci/run").read_text()

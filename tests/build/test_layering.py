"""The four distributions import and cimport downwards only: nn and tools -> autograd -> storage.

A module's ``__getattr__`` may reach up: it answers for names that exist only where a higher distribution is installed.
"""

import ast
import re
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[2] / "packages"
MAY_USE = {
    "storage": {"storage"},
    "autograd": {"autograd", "storage"},
    "nn": {"nn", "autograd", "storage"},
    "tools": {"tools", "autograd", "storage"},
}
OWNER = {
    "storage": "storage", "nn": "nn", "optim": "nn", "distributions": "nn", "utils": "nn", "tools": "tools"
}  # fmt: skip
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+(.+)|c?import\s+([\w., ]+))", re.M)


def owner(module: str) -> str | None:
    """The distribution that ships `module`; everything of cygrad that is not named is autograd's."""
    parts = module.split(".")
    if parts[0] != "cygrad":
        return None
    return OWNER.get(parts[1], "autograd") if len(parts) > 1 else "autograd"


def absolute(module: str, dots: int, package: list[str]) -> str:
    return ".".join([*package[: len(package) - dots + 1], *filter(None, [module])]) if dots else module


def python_imports(text: str, package: list[str]):
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == "__getattr__")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.module or "", node.level, package)
            yield from imported_from(base, [alias.name for alias in node.names])


def cython_imports(text: str, package: list[str]):
    for source, names, plain in CYTHON_IMPORT.findall(text):
        if plain:
            yield from (name.split()[0] for name in plain.split(",") if name.strip())
        else:
            base = absolute(source.lstrip("."), len(source) - len(source.lstrip(".")), package)
            words = re.sub(r"[()]|#.*", "", names).split(",")
            yield from imported_from(base, [word.split()[0] for word in words if word.strip()])


def imported_from(base: str, names: list[str]):
    """`from cygrad import nn` reaches cygrad.nn; of other modules the names do not matter."""
    return [f"cygrad.{name}" for name in names] if base == "cygrad" else [base]


def upward(text: str, path: Path, distribution: str) -> set[str]:
    """Modules that a file at `path` (relative to its src folder) may not use but does."""
    package = list(path.parent.parts)
    imports = python_imports if path.suffix == ".py" else cython_imports
    return {m for m in imports(text, package) if owner(m) not in MAY_USE[distribution] | {None}}


@pytest.mark.parametrize("distribution", MAY_USE)
def test_imports_point_downwards(distribution):
    src = PACKAGES / distribution / "src"
    files = [p for p in sorted(src.rglob("*")) if p.suffix in (".py", ".pyx", ".pxd", ".pxi")]
    assert files
    wrong = {str(p): upward(p.read_text(), p.relative_to(src), distribution) for p in files}
    assert not {path: modules for path, modules in wrong.items() if modules}


@pytest.mark.parametrize(
    ("distribution", "path", "text"),
    [
        ("storage", "cygrad/storage/core.pyx", "from cygrad.autograd._core cimport Tensor"),
        ("storage", "cygrad/storage/core.pyx", "cimport cygrad.autograd._core as c"),
        ("storage", "cygrad/storage/core.py", "def f():\n    import cygrad"),
        ("storage", "cygrad/storage/a/b.py", "from ...autograd import grad"),
        ("autograd", "cygrad/autograd/x.py", "from cygrad import nn"),
        ("autograd", "cygrad/autograd/x.py", "from .. import nn"),
        ("autograd", "cygrad/x.pyx", "from .tools.graph import to_dot"),
        ("nn", "cygrad/nn/x.py", "import os, cygrad.tools"),
        ("tools", "cygrad/tools/x.py", "from cygrad.utils.data import DataLoader"),
    ],
)
def test_an_upward_import_is_seen(distribution, path, text):
    assert upward(text, Path(path), distribution)

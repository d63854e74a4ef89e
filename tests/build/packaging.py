"""Install cygrad in every supported way, each into a fresh environment, and check what arrived.

Run by ``nox -s packaging``. Works on a copy of the checkout, so that the first build is as cold as a user's; prints how
long each way took. Needs the ``build`` package; everything else comes from the checkout and the package index.
Arguments choose among the ways: ``nox -s packaging -- editable archives``.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("storage", "autograd", "nn", "tools")
PIPS = {"today's pip": "pip", "pip 23": "pip<24"}

EVERYTHING_WORKS = """
import cygrad, cygrad.nn, cygrad.optim, cygrad.storage, cygrad.tools
x = cygrad.tensor([1.0, 2.0], requires_grad=True)
layer = cygrad.nn.Linear(2, 1)
optimiser = cygrad.optim.SGD(layer.parameters(), lr=0.1)
(layer(x).sum() + (x * x).sum()).backward()
optimiser.step()
assert x.grad.shape == (2,) and layer.weight.grad is not None
"""
STORAGE_WORKS = """
import cygrad.storage.core, importlib.util
assert cygrad.storage.core.abi() > 0
assert importlib.util.find_spec("cygrad.autograd") is None
"""
# The three ways in which a program asks for a package, with what must be said when it is not there.
MISSING = """
import cygrad
assert cygrad.tensor([1.0]).sum().item() == 1.0
for statement in ("import cygrad.{name}", "from cygrad import {name}", "cygrad.{name}"):
    try:
        exec(statement)
    except (ImportError, AttributeError) as error:
        assert "pip install cygrad-{package}" in str(error), (statement, error)
    else:
        raise AssertionError(statement + " worked")
"""
WITHOUT_AUTOGRAD = """
import cygrad.storage
for name in ("nn", "optim", "distributions", "utils", "utils.data"):
    try:
        exec("import cygrad." + name)
    except ImportError as error:
        assert "pip install cygrad-autograd" in str(error), (name, error)
    else:
        raise AssertionError("cygrad." + name + " worked")
"""


def run(*command, cwd):
    """Run a command quietly; show everything it printed if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout)
        raise SystemExit(f"failed: {' '.join(words)}")
    return done.stdout


class Environment:
    """A fresh virtual environment with the chosen pip."""

    def __init__(self, room: Path, requirement: str):
        self.room = Path(tempfile.mkdtemp(dir=room))
        run(sys.executable, "-m", "venv", self.room / "venv", cwd=room)
        self.python = self.room / "venv" / "bin" / "python"
        self.pip("install", "--upgrade", requirement)

    def pip(self, *words, cwd=None):
        return run(self.python, "-m", "pip", *words, cwd=cwd or self.room)

    def check(self, code):
        run(self.python, "-c", code, cwd=self.room)


def copy_checkout(target: Path) -> Path:
    """Copy what git knows or would add: no build leftovers."""
    names = run("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    return target


def together(room, checkout, pip):
    """All four in one command; then one package after the other is taken away."""
    env = Environment(room, pip)
    env.pip("install", *(f"./packages/{name}" for name in PACKAGES), cwd=checkout)
    env.check(EVERYTHING_WORKS)
    env.pip("uninstall", "-y", "cygrad-tools")
    env.check(MISSING.format(name="tools", package="tools") + "import cygrad.nn")
    env.pip("uninstall", "-y", "cygrad-autograd")
    env.check(WITHOUT_AUTOGRAD)
    env.check(STORAGE_WORKS)
    env.pip("uninstall", "-y", "cygrad-nn")
    env.pip("install", "--no-deps", "./packages/autograd", cwd=checkout)
    for name in ("nn", "optim", "distributions", "utils"):
        env.check(MISSING.format(name=name, package="nn"))
    env.pip("uninstall", "-y", "cygrad-autograd", "cygrad-storage")
    left = [p for p in env.room.glob("venv/lib/*/site-packages/cygrad/**/*") if p.is_file()]
    assert not left, f"left over after uninstalling: {left}"


def storage_alone(room, checkout, pip):
    """Storage with its own tests."""
    env = Environment(room, pip)
    env.pip("install", "./packages/storage", "pytest", "hypothesis", cwd=checkout)
    env.check(STORAGE_WORKS)
    print(run(env.python, "-m", "pytest", "-q", "tests/storage", cwd=checkout).splitlines()[-1])


def editable(room, checkout, pip):
    """All four with -e: they merge into one import name from four source folders."""
    env = Environment(room, pip)
    env.pip("install", *(word for name in PACKAGES for word in ("-e", f"./packages/{name}")), cwd=checkout)
    env.check(EVERYTHING_WORKS)
    env.check("import cygrad.storage; assert 'packages' in cygrad.storage.__file__")
    for so in checkout.glob("packages/*/src/**/*.so"):
        so.unlink()


def archives(room, checkout, pip):
    """sdist -> wheel -> install, away from the checkout."""
    env = Environment(room, pip)
    sdists, wheels = env.room / "sdists", env.room / "wheels"
    for name in PACKAGES:
        run(sys.executable, "-m", "build", "--sdist", f"packages/{name}", "-o", sdists, cwd=checkout)
    env.pip("wheel", "--no-deps", "-w", wheels, *sorted(sdists.iterdir()))
    check_wheels(sorted(wheels.iterdir()))
    env.pip("install", *sorted(wheels.iterdir()))
    env.check(EVERYTHING_WORKS)


def check_wheels(wheels):
    """What must and must not be in the wheels."""
    version = (ROOT / "VERSION").read_text().strip()
    owners = {}
    for wheel in wheels:
        archive = zipfile.ZipFile(wheel)
        names = archive.namelist()
        for name in names:
            owners.setdefault(name, []).append(wheel.name)
        assert any(n.endswith("/licenses/LICENSE") for n in names), f"no licence in {wheel.name}"
        assert any(n.endswith("/py.typed") for n in names), f"no py.typed in {wheel.name}"
        sources = [n for n in names if n.endswith((".pyx", ".pxi", ".c"))]
        assert not sources, f"sources in {wheel.name}: {sources}"
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        for pin in re.findall(r"^Requires-Dist: (cygrad-.*)$", metadata, re.M):
            assert pin.endswith(f"=={version}"), f"{wheel.name} pins its sibling loosely: {pin}"
        public = {n.split(".")[0] for n in names if n.endswith(".so") and "/_k_" not in n}
        untyped = public - {n.removesuffix(".pyi") for n in names if n.endswith(".pyi")}
        assert not untyped, f"compiled modules without type stubs in {wheel.name}: {untyped}"
    shared = {name: who for name, who in owners.items() if len(who) > 1}
    assert not shared, f"files that two wheels ship: {shared}"
    assert owners["cygrad/__init__.py"] == [w.name for w in wheels if "autograd" in w.name]


def main():
    ways = (together, storage_alone, editable, archives)
    chosen = [way for way in ways if way.__name__ in sys.argv[1:]] or ways
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        checkout = copy_checkout(room / "checkout")
        env = Environment(room, "pip")
        start = time.perf_counter()
        env.pip("install", *(f"./packages/{name}" for name in PACKAGES), cwd=checkout)
        print(f"cold install of all four: {time.perf_counter() - start:.0f} s", flush=True)
        env.check(EVERYTHING_WORKS)
        for label, requirement in PIPS.items():
            for way in chosen:
                start = time.perf_counter()
                way(room, checkout, requirement)
                rows.append(f"{way.__name__:14} {label:12} {time.perf_counter() - start:4.0f} s")
                print(rows[-1], flush=True)
    print("\nall ways work:", *rows, sep="\n  ")


if __name__ == "__main__":
    main()

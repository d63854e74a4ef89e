"""What building costs: a cold install of all four packages, the wheels, and an edit of one row of the op table.

Run by ``nox -s build_cost``. Works on a copy of the checkout and compiles as for a release: time it on an idle machine.
Each time is printed with the CPU time of all processes, which says more on a busy one.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("storage", "autograd", "nn", "tools")
TABLE = "packages/storage/src/cygrad/storage/optable"
# What is edited: (its name here, table, row, key, the new value with {} for the old one, to which it is equal)
EDITS = (
    ("docstring", "pointwise", "exp", "doc", "{} Edited."),
    ("gradient", "pointwise", "tanh", "grad.x", "1 * ({})"),
    ("gradient of a reduction", "reduce", "mean", "grad.x", "1 * ({})"),
    ("formula, arithmetic", "pointwise", "square", "fwd", "1 * ({})"),
    ("formula, elementary function", "pointwise", "sigmoid", "fwd", "1 * ({})"),
    ("formula, comparison", "pointwise", "eq", "fwd", "b == a"),
    ("formula, special function", "special", "erfc", "fwd", "1 * ({})"),
)


def timed(*command, cwd):
    """Seconds of wall time and of CPU time that a command takes; what it printed is shown if it fails."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed: {' '.join(map(str, command))}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show(what, wall, cpu):
    print(f"{what:45s}{wall:6.0f} s{cpu:6.0f} s CPU", flush=True)


def edit(tree, table, row, key, new):
    """Change a row of the table."""
    path = tree / TABLE / f"{table}.toml"
    text = path.read_text()
    start = text.index(f"[{row}]\n")
    line = re.compile(rf'^({re.escape(key)}\s*= )"(.*)"$', re.M)
    found = line.search(text, start)
    if found is None or "\n[" in text[start + 1 : found.start()]:
        raise SystemExit(f"{path.name} [{row}] has no {key} of one line: choose another row")
    path.write_text(f'{text[: found.start()]}{found[1]}"{new.format(found[2])}"{text[found.end() :]}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the copy of the checkout, and say where it is")
    arguments = parser.parse_args()
    os.environ.pop("CYGRAD_QUICK_BUILD", None)
    room = Path(tempfile.mkdtemp())
    tree, wheels = room / "checkout", room / "wheels"
    command = ("git", "ls-files", "-co", "--exclude-standard")
    for name in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tree / name)
    try:
        paths = [tree / "packages" / name for name in PACKAGES]
        pip = (sys.executable, "-m", "pip")
        wall, cpu = timed(*pip, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", wheels, *paths, cwd=tree)
        found = sorted(wheels.glob("*.whl"))
        more = timed(*pip, "install", "--no-deps", "--target", room / "installed", *found, cwd=tree)
        show("cold install of all four", wall + more[0], cpu + more[1])
        for wheel in found:
            print(f"{wheel.name.partition('-')[0]:45s}{wheel.stat().st_size / 1e6:6.1f} MB")
        for what, *change in EDITS:
            edit(tree, *change)
            times = [timed(sys.executable, "setup.py", "-q", "build_ext", cwd=path) for path in paths[:3]]
            show(f"edit of one row: {what}", *map(sum, zip(*times, strict=True)))
    finally:
        if arguments.keep:
            print(tree)
        else:
            shutil.rmtree(room)


if __name__ == "__main__":
    main()

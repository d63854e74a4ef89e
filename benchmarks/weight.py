"""What it costs to have the library at hand, beside PyTorch: ``python benchmarks/weight.py``.

Time of ``import`` and memory after it, each in fresh interpreters turn by turn (medians), and the size on disk of
everything that an installation needs. Both have to be installed by pip: sizes come from what pip wrote down.
"""

import argparse
import importlib.metadata
import re
import statistics
import subprocess
import sys

CHILD = """
import time
start = time.perf_counter()
import {library}
seconds = time.perf_counter() - start
with open("/proc/self/status") as file:
    resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
print(seconds, resident * 1024)
"""
INSTALLED = {"cygrad": ("cygrad-storage", "cygrad-autograd", "cygrad-nn"), "torch": ("torch",)}


def imported(library):
    """Seconds, and bytes resident afterwards."""
    command = [sys.executable, "-c", CHILD.format(library=library)]
    return [float(x) for x in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def needed(name, found):
    """Names of a distribution and of all that it requires without extras, into `found`."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in found:
        return
    found[name] = importlib.metadata.distribution(name)
    for line in found[name].requires or ():
        words, _, marker = line.partition(";")
        if not marker:
            needed(re.match(r"[\w.-]+", words)[0], found)


def size(library):
    """Bytes on disk of a library and all that it needs."""
    found = {}
    for name in INSTALLED[library]:
        needed(name, found)
    files = {path.locate().resolve() for d in found.values() for path in d.files or ()}
    return sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc"), sorted(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    rounds = [[imported("cygrad"), imported("torch")] for _ in range(parser.parse_args().rounds)]
    print("| | cygrad | PyTorch | ratio |\n|---|---|---|---|")
    for k, (name, unit, digits) in enumerate((("import", 1e-3, "ms"), ("resident after import", 1e6, "MB"))):
        ours, theirs = (statistics.median(pair[i][k] for pair in rounds) / unit for i in (0, 1))
        print(f"| {name} | {ours:.0f} {digits} | {theirs:.0f} {digits} | {ours / theirs:.2f} |")
    (ours, mine), (theirs, those) = size("cygrad"), size("torch")
    print(f"| installed, with what it needs | {ours / 1e6:.0f} MB | {theirs / 1e6:.0f} MB | {ours / theirs:.2f} |")
    print(f"\ncygrad: {', '.join(mine)}. PyTorch: {', '.join(those)}.")


if __name__ == "__main__":
    main()

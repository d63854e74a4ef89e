"""Build of cygrad-storage: op generator, core modules, and one kernel module per group and instruction set."""

import os
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
os.chdir(HERE)
COPIES = HERE / "_siblings"  # exists only in an sdist
sys.path.insert(0, str(COPIES if COPIES.is_dir() else HERE.parents[1] / "build_support"))

import cygrad_cuda  # noqa: E402
from cygrad_build import Package  # noqa: E402


def generate(opgen, folder):
    """The op table as loops; where CUDA is asked for, as device code too."""
    return [*opgen.write_storage(folder), *(opgen.write_cuda(folder) if cygrad_cuda.mode() != "0" else ())]

PACKAGE = Package(
    "storage",
    requires=("numpy>=1.24", "scipy-openblas32>=0.3.27"),
    single=("complex", "complex_rows", "special"),
    generate=generate,
)

if __name__ == "__main__":
    setup(**PACKAGE.setup_arguments())

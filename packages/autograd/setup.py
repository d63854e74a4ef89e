"""Build of cygrad-autograd: the generated operations and the engine as one extension module."""

import os
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
os.chdir(HERE)
COPIES = HERE / "_siblings"  # exists only in an sdist
sys.path.insert(0, str(COPIES if COPIES.is_dir() else HERE.parents[1] / "build_support"))

from cygrad_build import Package  # noqa: E402

PACKAGE = Package(
    "autograd",
    siblings=("storage",),
    generate=lambda opgen, folder: opgen.write_autograd(folder, "src/cygrad/autograd"),
    data={"_core.pyi": "cygrad/autograd/_core.pyi"},
)

if __name__ == "__main__":
    setup(**PACKAGE.setup_arguments())

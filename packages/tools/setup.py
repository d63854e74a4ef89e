"""Build of cygrad-tools: Python only."""

import os
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
os.chdir(HERE)
COPIES = HERE / "_siblings"  # exists only in an sdist
sys.path.insert(0, str(COPIES if COPIES.is_dir() else HERE.parents[1] / "build_support"))

from cygrad_build import Package  # noqa: E402

PACKAGE = Package("tools", siblings=("autograd", "storage"))

if __name__ == "__main__":
    setup(**PACKAGE.setup_arguments())

"""Build of cygrad-nn: Python layers, and the optimisers' update loops as one extension module."""

import os
import sys
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).resolve().parent
os.chdir(HERE)
COPIES = HERE / "_siblings"  # exists only in an sdist
sys.path.insert(0, str(COPIES if COPIES.is_dir() else HERE.parents[1] / "build_support"))

from cygrad_build import NUMERIC, Package  # noqa: E402

PACKAGE = Package(
    "nn",
    requires=("tqdm", "safetensors>=0.8"),
    siblings=("autograd", "storage"),
    flags={"cygrad.optim._step": NUMERIC},
)

if __name__ == "__main__":
    setup(**PACKAGE.setup_arguments())

"""One function gives a tensor its memory: it is also where a block of more than five sizes gets its owner."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_only_adopt_sets_the_memory_of_a_tensor():
    writers = []
    for pattern in ("*/src/**/*.px[di]", "*/src/**/*.pyx", "*/src/**/*.pxi.in", "storage/src/**/opgen/*.py"):
        for path in (ROOT / "packages").glob(pattern):
            lines = path.read_text().splitlines()
            writers += [(path.name, line.strip()) for line in lines if re.search(r"\.mem = ", line)]
    # The second makes .data, an alias of the memory that counts versions of its own.
    assert writers == [("opcall.pxi", "y.mem = s"), ("tensor.pxi.in", "y.mem = storage_alias(self.mem)")]

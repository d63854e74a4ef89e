"""A part of `batched.py` in every test run: vmap equals the loop for some of all operations, compositions too."""

import random
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's samples need it")
sys.path.insert(0, str(Path(__file__).resolve().parent))

PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_vmap_equals_the_loop(part):
    from batched import differences, op_db

    infos = random.Random(0).sample(op_db, len(op_db))[part::PARTS][:12]
    compared, wrong = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in infos:
            count, more = differences(info, most=1)
            compared, wrong = compared + count, wrong + more
    assert not wrong
    assert compared

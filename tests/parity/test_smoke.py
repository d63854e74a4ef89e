"""A part of the parity session that every test run includes: few rows, dtypes and samples, the same each time."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's samples need it")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import check

SPEC = importlib.util.spec_from_file_location("parity_run", Path(__file__).with_name("run.py"))
run = importlib.util.module_from_spec(SPEC)     # other folders of tests have a run.py too
SPEC.loader.exec_module(run)

# One row of each kind: how its arguments are made, where its results lie, what its gradients need.
ROWS = {
    "add": "float32 int64 complex64", "atan2": "float64 bfloat16", "where": "float32 bool", "sum": "float16 uint8",
    "std_mean": "float64", "cumprod": "complex128 int32", "sort": "float32 int16", "as_strided": "float32",
    "unfold": "float64", "index_put": "float64 bool", "scatter_reduce.amax": "float32", "gather": "complex64",
    "matmul": "float64 int64", "linalg.solve": "complex128", "svd": "float64", "einsum": "float32",
    "cat": "float32 int8", "arange": "float32", "bernoulli": "float32", "softmax.with_dtype": "float32",
    "special.erfcx": "float64", "masked_select": "int64 float32",
}


@pytest.fixture(scope="module")
def infos():
    return run.samples()


@pytest.mark.parametrize("row", ROWS)
def test_row(row, infos, monkeypatch):
    for name in ("MAX_SAMPLES", "MAX_GRADIENTS", "MAX_FORMS"):
        monkeypatch.setattr(check, name, 3)
    result = check.check_row(row, run.table()[row], infos[row], ROWS[row].split(), seed=0, examples=3)
    result = run.accept(row, result, tomllib.loads(Path(run.HERE, "differences.toml").read_text()))
    said = [x for t in result["dtypes"].values() for _, x, _ in t["reasons"].values()]
    assert result["status"] in ("ok", "accepted"), (result["reason"], said)
    assert result["dtypes"]

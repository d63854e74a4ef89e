"""`out` of several tensors is written as a whole or not at all; what is no tensor is refused."""

import pytest

import cygrad

OF_TWO = {
    "sort": lambda out: cygrad.sort(cygrad.tensor([3.0, 1, 2]), out=out),
    "topk": lambda out: cygrad.topk(cygrad.tensor([3.0, 1, 2]), 3, out=out),
    "max": lambda out: cygrad.max(cygrad.ones(3, 2), 1, out=out),
    "median": lambda out: cygrad.median(cygrad.ones(3, 2), 1, out=out),
    "cummax": lambda out: cygrad.cummax(cygrad.tensor([3.0, 1, 2]), 0, out=out),
    "frexp": lambda out: cygrad.frexp(cygrad.tensor([3.0, 1, 2]), out=out),
    "eigh": lambda out: cygrad.linalg.eigh(cygrad.eye(3), out=out),
    "lu": lambda out: cygrad.lu(cygrad.eye(3), out=out),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_all_parts_of_out_are_checked_before_one_is_written(name):
    leaf = cygrad.zeros(3, requires_grad=True)
    for wrong in (cygrad.zeros(7), cygrad.zeros(7, dtype=cygrad.int64), cygrad.zeros(1).expand(3), leaf, "text", None):
        first = cygrad.empty(0)
        with pytest.raises((RuntimeError, TypeError)):
            OF_TWO[name]((first, wrong))
        assert first.shape == (0,) and first._version == 0
    with pytest.raises(TypeError, match="out"):
        OF_TWO[name]([[], []])


def test_arguments_of_decompositions_are_tensors():
    for name in ("svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "qr", "inv", "det", "cholesky", "lu_factor"):
        for wrong in (object(), None, [[1.0]], 3):
            with pytest.raises(TypeError):
                getattr(cygrad.linalg, name)(wrong)

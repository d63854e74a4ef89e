"""Functions of nn at the top of the library."""

import pytest


def test_every_name_is_there(torch):
    import cygrad
    from cygrad import _later
    from cygrad.nn import toplevel

    assert set(toplevel.__all__) == _later.FROM_NN
    for name in toplevel.__all__:
        assert getattr(cygrad, name) is getattr(toplevel, name)
    with pytest.raises(AttributeError, match="no attribute 'no_such_function'"):
        cygrad.no_such_function  # noqa: B018


def test_those_with_other_arguments_are_pytorchs():
    oracle = pytest.importorskip("torch")
    import cygrad

    def values(lib):
        x = lib.arange(24.0).reshape(2, 4, 3) % 5
        w, b = lib.arange(4.0) + 1, lib.arange(4.0)
        yield lib.layer_norm(x, (3,), w[:3], b[:3], 1e-3, False)
        yield lib.group_norm(x, 2, w, b, 1e-3, False)
        yield lib.batch_norm(x, w, b, b.clone(), w.clone(), True, 0.1, 1e-3, False)
        yield lib.batch_norm(x, w, b, b, w, False, 0.1, 1e-3, False)
        yield lib.instance_norm(x, w, b, None, None, True, 0.1, 1e-3, False)
        yield lib.embedding(x[0], lib.tensor([1, 0]), -1)
        lib.manual_seed(3)
        yield lib.dropout(x, 0.5, True)
        yield lib.dropout_(x.clone(), 0.5, True)
        yield lib.alpha_dropout(x, 0.5, True)
        yield lib.feature_dropout(x, 0.5, True)
        yield lib.feature_alpha_dropout(x, 0.5, True)
        yield lib.selu_(x - 2)

    for ours, theirs in zip(values(cygrad), values(oracle), strict=True):
        assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), rel=1e-5, abs=1e-6)

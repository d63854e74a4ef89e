"""autograd.functional: values, options, errors."""

import pytest

import cygrad
from cygrad.autograd import functional as F


def t64(x):
    return cygrad.tensor(x, dtype=cygrad.float64)


X, Y = t64([1.0, 2.0]), t64([3.0, 4.0])


def square(x):
    return x**2


def cubes(x):
    return (x**3).sum()


def lists(value):
    return tuple(lists(v) for v in value) if isinstance(value, (tuple, list)) else value.tolist()


# ---- products


def test_vjp():
    assert lists(F.vjp(square, X, X)) == ([1, 4], [2, 8])
    assert lists(F.vjp(cubes, X)) == (9, [3, 12])
    assert lists(F.vjp(lambda x, y: (x * y, x + y), (X, Y), (X, Y))) == (([3, 8], [4, 6]), ([6, 12], [4, 8]))
    assert lists(F.vjp(lambda x: cygrad.ones(2), X, X)) == ([1, 1], [0, 0])


def test_jvp():
    assert lists(F.jvp(square, X, X)) == ([1, 4], [2, 8])
    assert lists(F.jvp(square, X[:1])) == ([1], [2])
    assert lists(F.jvp(lambda x, y: (x * y, y), (X, Y), (X, Y))) == (([3, 8], [3, 4]), ([6, 16], [3, 4]))
    assert lists(F.jvp(lambda x: cygrad.ones(2), X, X)) == ([1, 1], [0, 0])


@pytest.mark.parametrize("product", [F.vhp, F.hvp])
def test_products_with_the_hessian(product):
    assert lists(product(cubes, X, X)) == (9, [6, 24])
    assert lists(product(lambda x: x.sum(), X, X)) == (3, [0, 0])
    assert lists(product(lambda x: t64(1.0), X, X)) == (1, [0, 0])
    assert lists(product(lambda x, y: (x**2 * y).sum(), (X, Y), (X, Y))) == (19, ([12, 32], [2, 8]))
    assert lists(product(lambda x: x**3, X[:1])) == ([1], [6])


@pytest.mark.parametrize("product", [F.vjp, F.jvp, F.vhp, F.hvp])
def test_graphs_of_products(product):
    x = X.clone().requires_grad_()
    value, result = product(cubes, x, X if product is not F.vjp else t64(1.0))
    assert not value.requires_grad
    assert not result.requires_grad
    value, result = product(cubes, x, X if product is not F.vjp else t64(1.0), create_graph=True)
    assert value.requires_grad
    assert cygrad.autograd.grad(result.sum(), x)[0].abs().sum() > 0
    with cygrad.no_grad():
        assert lists(product(cubes, x, X if product is not F.vjp else t64(1.0))[1]) == lists(result)


# ---- whole matrices


def test_jacobian():
    assert lists(F.jacobian(square, X)) == [[2, 0], [0, 4]]
    expected = (([[3, 0], [0, 4]], [[1, 0], [0, 2]]), ([0, 0], [1, 1]))
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        assert lists(F.jacobian(lambda x, y: (x * y, y.sum()), (X, Y), **options)) == expected
        assert lists(F.jacobian(lambda x: (x * 2,), (X,), **options)) == (([[2, 0], [0, 2]],),)
        assert lists(F.jacobian(lambda x: cygrad.ones(2), X, **options)) == [[0, 0], [0, 0]]
        assert F.jacobian(lambda x: x * 2, X[:0], **options).shape == (0, 0)


def test_hessian():
    expected = (([[6, 0], [0, 8]], [[2, 0], [0, 4]]), ([[2, 0], [0, 4]], [[0, 0], [0, 0]]))
    for options in ({}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}):
        assert lists(F.hessian(cubes, X, **options)) == [[6, 0], [0, 12]]
        assert lists(F.hessian(lambda x, y: (x**2 * y).sum(), (X, Y), **options)) == expected
        assert lists(F.hessian(lambda x: x.sum(), X, **options)) == [[0, 0], [0, 0]]
        assert lists(F.hessian(lambda x: t64(1.0), X, **options)) == [[0, 0], [0, 0]]


@pytest.mark.parametrize("matrix", [F.jacobian, F.hessian])
def test_graphs_of_matrices(matrix):
    x = X.clone().requires_grad_()
    assert not matrix(cubes, x).requires_grad
    m = matrix(cubes, x, create_graph=True)
    expected = [6, 12] if matrix is F.jacobian else [6, 6]
    assert lists(cygrad.autograd.grad(m.sum(), x)[0]) == expected


# ---- errors


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp", "jacobian", "hessian"])
def test_what_is_no_tensor(name):
    function = getattr(F, name)
    rest = () if name in ("jacobian", "hessian") else (X,)
    with pytest.raises(TypeError, match=f"inputs given to {name}.*float"):
        function(cubes, 3.0, *rest)
    with pytest.raises(TypeError, match=f"inputs given to {name}.*index 1.*float"):
        function(cubes, (X, 3.0), *rest)
    with pytest.raises(TypeError, match=f"outputs of the user-provided function given to {name}.*int"):
        function(lambda x: 3, X, *rest)
    if rest:
        with pytest.raises(TypeError, match=f"v given to {name}.*float"):
            function(cubes, X, 3.0)


def test_vectors_that_do_not_fit():
    with pytest.raises(RuntimeError, match="v can only be None"):
        F.vjp(square, X)
    for function in (F.jvp, F.vhp, F.hvp):
        with pytest.raises(RuntimeError, match="v can only be None if the input"):
            function(cubes, X)
    two = lambda x, y: (x * y, x + y)  # noqa: E731
    with pytest.raises(RuntimeError, match="should be 2 but got 1"):
        F.vjp(two, (X, Y), X)
    with pytest.raises(RuntimeError, match=r"^v has invalid size"):
        F.vjp(square, X, t64([1.0, 2.0, 3.0]))
    with pytest.raises(RuntimeError, match="Entry 1 in v"):
        F.jvp(two, (X, Y), (X, t64([1.0, 2.0, 3.0])))


@pytest.mark.parametrize("function", [F.vhp, F.hvp, F.hessian])
def test_functions_of_more_than_one_value(function):
    rest = () if function is F.hessian else (X,)
    with pytest.raises(RuntimeError, match="single element"):
        function(square, X, *rest)
    with pytest.raises(RuntimeError, match="single Tensor"):
        function(lambda x: (x.sum(), x.sum()), X, *rest)


@pytest.mark.parametrize("function", [F.vjp, F.jvp, F.jacobian])
def test_strict_first_derivatives(function):
    rest = () if function is F.jacobian else (X,)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        function(lambda x: cygrad.ones(2), X, *rest, strict=True)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        function(lambda x, y: x * 2, (X, Y), *((X,) if function is F.vjp else ((X, Y),) if rest else ()), strict=True)
    with pytest.raises(RuntimeError, match=r"jacobian.*independent of input 0.*create_graph"):
        function(lambda x: x * 2, X, *rest, strict=True, create_graph=True)


@pytest.mark.parametrize("function", [F.vhp, F.hvp, F.hessian])
def test_strict_second_derivatives(function):
    rest = () if function is F.hessian else (X,)
    with pytest.raises(RuntimeError, match=r"hessian.*input 0 is independent"):
        function(lambda x: x.sum(), X, *rest, strict=True)
    with pytest.raises(RuntimeError, match="does not require gradients"):
        function(lambda x: t64(1.0), X, *rest, strict=True)
    with pytest.raises(RuntimeError, match="independent"):
        function(lambda x, y: (x**2 + y).sum(), (X, Y), *((X, Y),) * bool(rest), strict=True)


def test_options_that_exclude_each_other():
    with pytest.raises(RuntimeError, match="vectorize"):
        F.jacobian(square, X, strict=True, vectorize=True)
    with pytest.raises(NotImplementedError, match="vectorize"):
        F.jacobian(square, X, strategy="forward-mode")
    with pytest.raises(NotImplementedError, match="create_graph"):
        F.jacobian(square, X, strategy="forward-mode", vectorize=True, create_graph=True)
    with pytest.raises(RuntimeError, match="strict"):
        F.jacobian(square, X, strategy="forward-mode", vectorize=True, strict=True)
    with pytest.raises(NotImplementedError, match="vectorize"):
        F.hessian(cubes, X, outer_jacobian_strategy="forward-mode")
    with pytest.raises(AssertionError, match="strategy"):
        F.jacobian(square, X, strategy="none")
    with pytest.raises(AssertionError, match="strategy"):
        F.hessian(cubes, X, outer_jacobian_strategy="none")

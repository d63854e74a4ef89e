"""Programs of func's transforms, nested and odd ones, beside PyTorch: the same results, and the same kinds of errors.

A program gets the library, x of shape (3,) and M of shape (3, 4), both float64.
"""

import warnings

import pytest

import cygrad

torch = pytest.importorskip("torch")


def vector(T):
    return T.arange(1, 4, dtype=T.float64) / 3


def matrix(T):
    return T.arange(12, dtype=T.float64).reshape(3, 4) / 7 + 0.1


def f(T):
    return lambda x: (x.sin() * x).cumsum(0)


def written(y, where, value):
    y[where] = value
    return y


def scaled(y, where, value):
    y[where].mul_(value)
    return y


def filled(T, x):
    """A buffer that the function makes, and writes row by row."""
    y = T.zeros(3, dtype=x.dtype)
    y[0] = x[0] ** 2 * x[1]
    y[1:] = x[1:].sin()
    y[1:] += x[:2] * x[1:]
    return y


def grown(T, x):
    """Buffers in other ways: a whole copy, a loop, an operation in place, one like the input."""
    y, z = T.empty(3, dtype=x.dtype), T.zeros_like(x)
    y.copy_(x**3)
    for i in range(3):
        z[i] = x[i] * x[i - 1]
    y.mul_(T.ones(3, dtype=x.dtype)).add_(z)
    return (y * z).sum()


JACOBIANS = {
    **{
        f"{a} of {b} of a buffer, {make.__name__}": lambda T, x, M, make=make, a=a, b=b: getattr(T.func, a)(
            getattr(T.func, b)(lambda x: make(T, x))
        )(x)
        for make in (filled, grown)
        for a in ("jacrev", "jacfwd")
        for b in ("jacrev", "jacfwd")
    },
    "products with buffers": lambda T, x, M: T.func.jvp(lambda x: filled(T, x), (x,), (x * 2,)),
    "buffers of a vmap": lambda T, x, M: T.func.vmap(T.func.hessian(lambda x: grown(T, x)))(T.stack([x, x * 2])),
    "trees of outputs": lambda T, x, M: T.func.jacrev(lambda x: (x.sin(), {"a": x.sum() * x}))(x),
    "chunks": lambda T, x, M: [T.func.jacrev(lambda x: (x @ M).sin(), chunk_size=c)(x) for c in (1, 2, 3, 100, None)],
    "chunks of several outputs": lambda T, x, M: T.func.jacrev(lambda x: (x @ M, x, x.sum()), chunk_size=3)(x),
    "argnums": lambda T, x, M: T.func.jacrev(lambda a, b: a @ b, argnums=(1, 0))(x, M),
    "one argnum in a tuple": lambda T, x, M: T.func.jacrev(lambda a, b: a @ b, argnums=(1,))(x, M),
    "aux": lambda T, x, M: T.func.jacrev(lambda a, b: (a @ b, {"k": a * 2}), argnums=-1, has_aux=True)(x, M),
    "aux forward": lambda T, x, M: T.func.jacfwd(lambda a, b: (a * b, {"k": a * 2}), argnums=1, has_aux=True)(x, x),
    "trees of inputs": lambda T, x, M: T.func.jacfwd(lambda p: {"z": (p["a"] @ p["b"]).exp()})({"a": x, "b": M}),
    "hessian by two": lambda T, x, M: T.func.hessian(lambda a, b: (a.sin() @ b).prod(), argnums=(0, 1))(x, M),
    "hessian of a vector": lambda T, x, M: T.func.hessian(f(T))(x),
    "third": lambda T, x, M: T.func.jacrev(T.func.jacfwd(T.func.jacrev(lambda x: (x**4).prod())))(x),
    "third forward": lambda T, x, M: T.func.jacfwd(T.func.jacfwd(T.func.grad(lambda x: (x**4).prod())))(x),
    "no dependence": lambda T, x, M: T.func.jacrev(lambda x: x.detach() * 2)(x),
    "no dependence forward": lambda T, x, M: T.func.jacfwd(lambda x: x.detach() * 2)(x),
    "numbers": lambda T, x, M: T.func.jacrev(lambda x: x**3)(x[0]),
    "numbers twice": lambda T, x, M: T.func.hessian(lambda x: x**3)(x[0]),
    "of no elements": lambda T, x, M: T.func.jacrev(lambda x: x[:0])(x),
    "of no elements forward": lambda T, x, M: T.func.jacfwd(lambda x: x[:0])(x),
    "softmax": lambda T, x, M: T.func.hessian(lambda M: T.softmax(M @ M.t(), -1)[0].sum())(M),
    "convolution": lambda T, x, M: T.func.hessian(
        lambda w: T.nn.functional.conv1d(M[None].sin(), w).sin().sum()
    )(M[:2, :3].reshape(1, 3, 2)),
    "mask": lambda T, x, M: T.func.jacrev(lambda x: x[x > 0.5] ** 2)(x),
    "mask forward": lambda T, x, M: T.func.jacfwd(lambda x: x[x > 0.5] ** 2)(x),
    "mask twice": lambda T, x, M: T.func.hessian(lambda x: (x[x > 0.5] ** 3).sum())(x),
    "control flow": lambda T, x, M: T.func.jacfwd(lambda x: x * 2 if x.sum() > 0 else x)(x),
    "control flow twice": lambda T, x, M: T.func.hessian(lambda x: (x**3).sum() if (x * x).sum() > 0 else x.sum())(x),
    "item": lambda T, x, M: T.func.jacfwd(lambda x: x * x[0].item())(x),
    "item twice": lambda T, x, M: T.func.hessian(lambda x: (x * x).sum() * x.exp()[0].item())(x),
    "expanded": lambda T, x, M: T.func.jacfwd(lambda x: x.expand(2, 3)[0] * x)(x),
    "expanded argument": lambda T, x, M: T.func.jacfwd(
        lambda x: T.func.grad(lambda z: (z[0] ** 2).sum() + z[1, 0] ** 3)(x.expand(2, 3))
    )(x),
    "in place": lambda T, x, M: T.func.jacfwd(lambda x: x.clone().mul_(x).add_(1))(x),
    "in place twice": lambda T, x, M: T.func.hessian(lambda x: x.clone().mul_(x).add_(x.sin()).sum())(x),
    "in place on a view": lambda T, x, M: T.func.jacfwd(lambda x: scaled(x.clone(), slice(1, 3), x[:2]))(x),
    "in place on a view, backward": lambda T, x, M: T.func.jacrev(lambda x: scaled(x.clone(), slice(1, 3), x[:2]))(x),
    "in place on a view, twice": lambda T, x, M: T.func.hessian(
        lambda x: scaled(x * 2, slice(1, 3), x[:2] ** 2).prod()
    )(x),
    "a buffer": lambda T, x, M: T.func.jacfwd(lambda x: written(T.zeros(2, dtype=x.dtype), 0, x[1] ** 2))(x),
    "a buffer twice": lambda T, x, M: T.func.hessian(lambda x: written(x.new_zeros(2), 0, x[1] ** 3).sum())(x),
    "drawn the same": lambda T, x, M: T.func.jacfwd(lambda x: x * (T.rand(3) < 2), randomness="same")(x),
}

VMAPS = {
    "jacrev in vmap": lambda T, x, M: T.func.vmap(T.func.jacrev(lambda x: x.sin() * x.sum()))(M),
    "jacfwd in vmap": lambda T, x, M: T.func.vmap(T.func.jacfwd(lambda x: x.sin() * x.sum()), in_dims=1, out_dims=2)(M),
    "hessian in vmap": lambda T, x, M: T.func.vmap(T.func.hessian(lambda x: (x.sin() * x.sum()).sum()))(M),
    "vmap in jacrev": lambda T, x, M: T.func.jacrev(T.func.vmap(lambda x: x.sin() * x.sum()))(M),
    "vmap in jacfwd": lambda T, x, M: T.func.jacfwd(T.func.vmap(lambda x: x.sin() * x.sum()))(M),
    "vmap of grad by what is shared": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: (w * m).sin().sum()), in_dims=(None, 1)
    )(x, M),
    "vmap of grad of grad": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda a: T.func.grad(lambda b: (a * b) ** 3)(a))
    )(x),
    "what all share decides": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: (w * m).sum() if w.sum() > 0 else w.sum()), in_dims=(None, 1)
    )(x, M),
    "what all share picks": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: (w[w > 0.5] ** 2).sum() * m.sum()), in_dims=(None, 1)
    )(x, M),
    "what all share stays so": lambda T, x, M: T.func.vmap(
        lambda m: (T.func.grad(lambda w: (w**3).sum())(x), m), in_dims=1, out_dims=(None, 0)
    )(M),
    "gradients of what all share, in a graph": lambda T, x, M: (lambda w: T.autograd.grad(
        T.func.vmap(T.func.grad(lambda w, m: (w * m).sin().sum()), in_dims=(None, 1))(w, M).prod(), w
    ))(x.clone().requires_grad_()),
    "gradients of a shared result, in a graph": lambda T, x, M: (lambda w: T.autograd.grad(
        T.func.vmap(lambda m: (T.func.grad(lambda w: (w**3).sum())(w), m), in_dims=1, out_dims=(None, 0))(M)[0].sum(), w
    ))(x.clone().requires_grad_()),
    "trees of in_dims": lambda T, x, M: T.func.vmap(
        lambda p, q: {"s": p["a"] @ q[0], "t": (p["b"] + q[1],)}, in_dims=({"a": 0, "b": None}, (None, 1)),
        out_dims={"s": 0, "t": (1,)},
    )({"a": M, "b": x}, (M[0], T.stack([x, x, x], 1))),
    "vmap in vmap": lambda T, x, M: T.func.vmap(T.func.vmap(T.dot, in_dims=(None, 0)), in_dims=(0, None))(M, M),
    "chunks": lambda T, x, M: T.func.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None), chunk_size=2)(M, M[0]),
    "jvp of vmap": lambda T, x, M: T.func.jvp(T.func.vmap(lambda a: a.exp().prod()), (M,), (M.cos(),)),
    "vmap of jvp": lambda T, x, M: T.func.vmap(lambda a, t: T.func.jvp(lambda a: a.exp().prod(), (a,), (t,))[1])(M, M),
    "vmap of vjp": lambda T, x, M: T.func.vmap(lambda a, t: T.func.vjp(lambda a: a.exp() * a.sum(), a)[1](t))(M, M),
    "argmax of what all share": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: (w[w.argmax()] * m).sum() + (w.sort()[0] * m).sum()), in_dims=(None, 1)
    )(x, M),
    "indices that vary": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, i: (w**2)[i].sum()), in_dims=(None, 0)
    )(x, T.tensor([[0, 1], [2, 2]])),
    "concatenated": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: (T.cat([w, m]) ** 3).cumsum(0).sum()), in_dims=(None, 1)
    )(x, M),
}

FUNCTIONAL = {
    "jacobian": lambda T, x, M: T.autograd.functional.jacobian(lambda a, b: (a @ b, a * 2), (x, M), vectorize=True),
    "forward": lambda T, x, M: T.autograd.functional.jacobian(
        lambda a, b: (a @ b, a * 2), (x, M), vectorize=True, strategy="forward-mode"
    ),
    "independent": lambda T, x, M: T.autograd.functional.jacobian(lambda a, b: a.exp(), (x, M), vectorize=True),
    "independent forward": lambda T, x, M: T.autograd.functional.jacobian(
        lambda a, b: a.exp(), (x, M), vectorize=True, strategy="forward-mode"
    ),
    "of nothing": lambda T, x, M: T.autograd.functional.jacobian(lambda a: a.detach(), x, vectorize=True),
    "number": lambda T, x, M: T.autograd.functional.jacobian(lambda a: a**2, x[0], vectorize=True),
    "hessian": lambda T, x, M: T.autograd.functional.hessian(lambda a, b: (a @ b).sin().sum(), (x, M), vectorize=True),
    "hessian forward": lambda T, x, M: T.autograd.functional.hessian(
        lambda a: (a**3).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "strict": lambda T, x, M: T.autograd.functional.jacobian(lambda a: a * 2, x, vectorize=True, strict=True),
    "a graph": lambda T, x, M: (lambda y: T.autograd.grad(
        T.autograd.functional.jacobian(lambda a: a**3, y, vectorize=True, create_graph=True).sum(), y
    ))(x.clone().requires_grad_()),
    "grads batched": lambda T, x, M: (lambda y: T.autograd.grad(
        [y**3, y.sum()], (y,), (T.eye(3, dtype=y.dtype), T.ones(3, dtype=y.dtype)), is_grads_batched=True
    ))(x.clone().requires_grad_()),
    "grads batched, of another shape": lambda T, x, M: (lambda y: T.autograd.grad(
        [y**3], (y,), (T.ones(3, dtype=y.dtype),), is_grads_batched=True
    ))(x.clone().requires_grad_()),
    "grads batched, none": lambda T, x, M: (lambda y: T.autograd.grad(
        [y**3], (y,), (None,), is_grads_batched=True
    ))(x.clone().requires_grad_()),
}

REFUSED = {
    "integers": lambda T, x, M: T.func.jacrev(lambda x: x * 2)(T.tensor([1, 2])),
    "integers forward": lambda T, x, M: T.func.jacfwd(lambda x: x * 2)(T.tensor([1, 2])),
    "integer output": lambda T, x, M: T.func.jacrev(lambda x: x.long())(x),
    "integer output of vjp": lambda T, x, M: T.func.vjp(lambda x: x.long(), x),
    "complex": lambda T, x, M: T.func.jacrev(lambda x: x * 2)(x.to(T.complex128)),
    "complex output": lambda T, x, M: T.func.jacrev(lambda x: x * 2j)(x),
    "complex forward": lambda T, x, M: T.func.jacfwd(lambda x: x * 2)(x.to(T.complex128)),
    "complex output forward": lambda T, x, M: T.func.jacfwd(lambda x: x * 2j)(x),
    "chunk size": lambda T, x, M: T.func.jacrev(lambda x: x, chunk_size=0)(x),
    "random numbers": lambda T, x, M: T.func.jacfwd(lambda x: x * T.rand(3))(x),
    "no tensor": lambda T, x, M: T.func.jacrev(lambda x: 3)(x),
    "a number": lambda T, x, M: T.func.jacrev(lambda x: x)(2.0),
    "values that vary decide": lambda T, x, M: T.func.vmap(lambda m: m if m.sum() > 0 else -m)(M),
    "values that vary pick": lambda T, x, M: T.func.vmap(lambda m: m[m > 0.5])(M),
    "one example decides": lambda T, x, M: T.func.vmap(lambda m: m if m.sum() > 0 else -m)(M[:1]),
    "written into what all share": lambda T, x, M: T.func.vmap(lambda m: T.zeros(4, dtype=m.dtype).add_(m))(M),
    "written into a copy of what all share": lambda T, x, M: T.func.vmap(
        T.func.grad(lambda w, m: w.clone().mul_(m).sum()), in_dims=(None, 1)
    )(x, M),
    "a result that differs without out_dims": lambda T, x, M: T.func.vmap(lambda m: m, out_dims=None)(M),
}


def plain(t, number):
    """Trees of tensors as trees of shapes and numbers."""
    if isinstance(t, (list, tuple)):
        return [plain(a, number) for a in t]
    if isinstance(t, dict):
        return {k: plain(v, number) for k, v in t.items()}
    return list(t.shape), [number(v) for v in t.detach().flatten().tolist()]


def outcome(T, program, number=float):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(program(T, vector(T), matrix(T)), number)


GOOD = {
    **JACOBIANS,
    **{f"vmap: {k}": v for k, v in VMAPS.items()},
    **{f"functional: {k}": v for k, v in FUNCTIONAL.items()},
}


@pytest.mark.parametrize("name", GOOD)
def test_the_same_result(name):
    try:
        expected = outcome(torch, GOOD[name], lambda v: pytest.approx(v, rel=1e-9, abs=1e-12))
    except Exception as error:
        with pytest.raises(type(error)):
            outcome(cygrad, GOOD[name])
    else:
        assert outcome(cygrad, GOOD[name]) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_kind_of_error(name):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as theirs:
        outcome(torch, REFUSED[name])
    with pytest.raises(type(theirs.value)):
        outcome(cygrad, REFUSED[name])

"""Transforms, forward mode, vmap and checkpoints leave nothing behind."""

import pytest

STEPS = {
    "forward mode": """
        fw = torch.autograd.forward_ad
        x, t = torch.randn(50, requires_grad=True), torch.randn(50)
        def step(i):
            with fw.dual_level():
                d = fw.make_dual(x, t)
                y = (d * d).sin()
                y[:10].mul_(d[:10])
                moved = fw.unpack_dual(y).tangent
                g, = torch.autograd.grad(y.sum(), x, create_graph=i % 2 == 1)
                fw.unpack_dual(g)
            if i % 3 == 0:
                moved.sum()
        """,
    "transforms": """
        func = torch.func
        x, w = torch.randn(6), torch.randn(6, requires_grad=True)
        f = lambda x: (x * w).sin().prod()
        def step(i):
            func.grad(func.grad(lambda v: (v ** 3).sum() if v.ndim == 0 else v.sum()))(x[0])
            value, pull = func.vjp(f, x)
            pull(torch.ones(()))
            func.jvp(f, (x,), (x,))
            func.linearize(f, x)[1](x)
            h = func.hessian(f)(x)
            if i % 4 == 0:
                h.sum().backward()
                w.grad = None
            func.jacrev(f, chunk_size=2)(x)
        """,
    "vmap": """
        func = torch.func
        x, w = torch.randn(5, 4), torch.randn(4, requires_grad=True)
        def loss(w, x):
            y = x.new_zeros(4)
            y[1:] = (x * w)[1:]
            return (y.sort()[0] * torch.randn(4)).sum()
        def step(i):
            func.vmap(func.grad(loss), (None, 0), randomness="different")(w, x)
            y = func.vmap(func.vmap(lambda a: a * w.sum()))(x)
            y.sum().backward()
            w.grad = None
            func.vmap(lambda a: a.sum(), chunk_size=2)(x)
        """,
    "transforms that fail": """
        func = torch.func
        x = torch.randn(5, 4)
        def refused(f, *args):
            try:
                f(*args)
            except (RuntimeError, ValueError, IndexError):
                return
            raise AssertionError
        def step(i):
            refused(func.vmap(lambda a: a if a.sum() > 0 else -a), x)
            refused(func.vmap(func.grad(lambda a: a * 2)), x)
            refused(func.jvp, lambda a: a[7], (x,), (x,))
            refused(func.vmap(func.vmap(lambda a: torch.ones(3).add_(a))), x)
            refused(func.hessian(lambda a: a.nonzero()), x)
        """,
    "functional": """
        functional = torch.autograd.functional
        x = torch.randn(5, requires_grad=True)
        f = lambda x: (x ** 3).sum()
        def step(i):
            functional.jacobian(lambda x: x.exp(), x, vectorize=i % 2 == 0)
            functional.hessian(f, x, vectorize=True, outer_jacobian_strategy="forward-mode")
            functional.hvp(f, x, x.detach())
            functional.vhp(f, x, x.detach())
            functional.jvp(lambda x: x.exp(), x, x.detach(), create_graph=True)
        """,
    "functions in both modes": """
        func = torch.func
        class Cube(torch.autograd.Function):
            generate_vmap_rule = True
            @staticmethod
            def forward(x):
                return x ** 3
            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)
            @staticmethod
            def backward(ctx, g):
                return 3 * g * ctx.saved_tensors[0] ** 2
            @staticmethod
            def jvp(ctx, t):
                return 3 * t * ctx.saved_tensors[0] ** 2
        x = torch.randn(20)
        def step(i):
            func.jvp(Cube.apply, (x,), (x,))
            func.vmap(func.grad(lambda v: Cube.apply(v)))(x)
            func.jacfwd(func.grad(lambda v: Cube.apply(v).sum()))(x)
        """,
}
CHECKPOINTS = """
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.randn(30, requires_grad=True)
    fails = []
    def inner(x):
        if fails:
            raise ValueError
        return (x.exp().tanh() * torch.rand(30)).sin()
    def outer(x):
        return checkpoint(inner, checkpoint(inner, x, use_reentrant=False), use_reentrant=False).cos()
    def step(i):
        y = checkpoint(outer, x, use_reentrant=i % 2 == 0).sum()
        if i % 3 == 1:
            fails.append(1)
            try:
                y.backward()
            except ValueError:
                pass
            fails.clear()
        elif i % 3:
            y.backward()
        x.grad = None
    """


@pytest.mark.parametrize("what", STEPS)
def test_nothing_more_is_there(growth, what):
    grown, objects, storages = growth(STEPS[what])
    assert objects < 20
    assert storages < 5
    assert grown < 2**20, f"{grown / 2**20:.2f} MB more"


def test_checkpoints(growth):
    pytest.importorskip("cygrad.nn")
    grown, objects, storages = growth(CHECKPOINTS)
    assert objects < 20 and storages < 5 and grown < 2**20, f"{grown / 2**20:.2f} MB more"

"""Memory: what was dropped is gone, at once and without the garbage collector."""
import gc
import weakref

import pytest

STEPS = {
    "training": """
        torch.manual_seed(0)
        x, target = torch.randn(64, 20), torch.randn(64, 5)
        w1, w2 = torch.randn(20, 50) * 0.1, torch.randn(50, 5) * 0.1
        b1, b2 = torch.zeros(50), torch.zeros(5)
        parameters = [w1, b1, w2, b2]
        for p in parameters:
            p.requires_grad_()
        def step(i):
            loss = (((x @ w1 + b1).tanh() @ w2 + b2 - target) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                for p in parameters:
                    p -= 0.05 * p.grad
                    p.grad = None
        """,
    "training with batches of changing size": """
        torch.manual_seed(0)
        x, w = torch.randn(400, 30), torch.randn(30, 10, requires_grad=True)
        def step(i):
            batch = x[i % 7: 50 + 13 * (i % 23)]
            torch.log_softmax(batch @ w, 1)[:, 0].sum().backward()
            with torch.no_grad():
                w.sub_(1e-4 * w.grad)
                w.grad.zero_()
        """,
    "graphs dropped without backward": """
        x = torch.randn(100, 100, requires_grad=True)
        def step(i):
            y = x
            for _ in range(5):
                y = (y * y).exp() - y
        """,
    "second derivatives": """
        x = torch.randn(200, requires_grad=True)
        def step(i):
            g, = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
            h, = torch.autograd.grad((g * g).sum(), x)
        """,
    "custom functions": """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x * x
                ctx.save_for_backward(x, y)
                ctx.note = [x.shape]
                return y, x.sum()
            @staticmethod
            def backward(ctx, g, h):
                x, y = ctx.saved_tensors
                return 2 * g * x + h
        x = torch.randn(300, requires_grad=True)
        def step(i):
            y, z = Square.apply(x)
            if i % 2:
                (y.sum() + z).backward()
                x.grad = None
        """,
    "hooks": """
        x = torch.randn(300, requires_grad=True)
        def step(i):
            y = x * 2
            handle = y.register_hook(lambda g: g * 2)
            y.register_hook(lambda g: None)
            y.retain_grad()
            if i % 3 == 0:
                handle.remove()
            if i % 2:
                y.sum().backward()
                x.grad = None
        """,
    "views and changes in place": """
        x = torch.randn(30, 20, requires_grad=True)
        def step(i):
            y = x * 1
            v = y.t()[1:].reshape(19, 30)[::2]
            y[3:5] = y[0:2] * 2
            y.t()[2].mul_(3)
            y[y > 0] += 1
            (y.sum() + v.detach().sum()).backward()
            x.grad = None
        """,
    "errors": """
        x = torch.randn(30, 20, requires_grad=True)
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                raise ValueError(ctx.saved_tensors[0].shape)
        def step(i):
            y = x.exp()
            for wrong in (lambda: y @ y, lambda: y.view(7), lambda: y[40], lambda: y + torch.ones(3),
                          lambda: y.backward(), lambda: torch.tensor([[1], [1, 2]]),
                          lambda: Broken.apply(y * 2).sum().backward(),
                          lambda: torch.zeros(-1), lambda: x.add_(1), lambda: y.sum(5), lambda: torch.cat([y, y[0]])):
                try:
                    wrong()
                except (RuntimeError, ValueError, IndexError):
                    pass
                else:
                    raise AssertionError("a wrong call went through")
        """,
    "numpy and scalars": """
        import numpy as np
        array = np.arange(1000.0)
        def step(i):
            t = torch.from_numpy(array[i % 5:])
            t.numpy(), torch.tensor(array), t.tolist(), t[3].item(), repr(t[:4]), torch.tensor([1.0, i])
        """,
    "cycles that the collector must find": """
        x = torch.randn(1000, requires_grad=True)
        def step(i):
            y = x * 2
            y.mine = [y]
            if i % 50 == 0:
                gc.collect()
        """,
}


@pytest.mark.parametrize("what", STEPS)
def test_memory_does_not_grow(growth, what):
    """After all rounds the process holds what it held after a tenth of them, within 1 MB."""
    grown, objects, storages = growth(STEPS[what])
    assert grown < 2**20, f"{grown / 2**20:.2f} MB more"
    assert objects < 20
    assert storages < 5


def test_memory_of_a_cycle_through_a_hook(growth, beyond_pytorch):
    """A tensor held by its own hook is a cycle that the collector can see."""
    grown, objects, storages = growth("""
        x = torch.randn(1000, requires_grad=True)

        def step(i):
            y = x * 2
            y.register_hook(lambda g: y)
            if i % 50 == 0:
                gc.collect()
        """)
    assert grown < 2**20
    assert objects < 20
    assert storages < 5


@pytest.fixture
def no_collector():
    """The test's objects must die by reference counting alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def watch_all(*objects):
    """A function that tells how many of the objects are still alive."""
    references = [weakref.ref(o) for o in objects]
    return lambda: sum(r() is not None for r in references)


def test_a_recorded_chain_dies_with_its_end(leaf, no_collector):
    """Dropping the last result frees every intermediate tensor."""
    x = leaf(1.0, 2.0)
    a = x.exp()
    b = a * a
    c = b.sin().sum()
    alive = watch_all(a, b, c)
    del a, b
    assert alive() == 3
    del c
    assert alive() == 0


def test_backward_frees_as_it_goes(torch, leaf, no_collector):
    """While backward runs, what later nodes had saved is already gone."""
    alive_below = []

    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            alive_below.append(alive())
            return g

    x = leaf(1.0)
    h = Probe.apply(x)
    late = h * 3
    out = (late * late).sum()
    alive = watch_all(late)
    del late
    assert alive() == 1
    out.backward()
    assert alive_below == [0]


def test_views_keep_their_base_and_only_that(leaf, no_collector):
    """A view keeps its base alive; the base does not keep its views alive."""
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    first, second = base[:2], base[1:]
    alive_base, alive_second = watch_all(base), watch_all(second)
    del base, second
    assert alive_second() == 0
    assert alive_base() == 1
    del first
    assert alive_base() == 0


def test_changes_in_place_make_no_cycle(leaf, no_collector):
    """A base and a view that were changed in place die at once."""
    x = leaf(1.0, 2.0, 3.0)
    base = x * 1
    view = base[1:]
    view.mul_(2)
    base.add_(1)
    assert view.grad_fn is not None
    total = (base.sum() + view.sum())
    alive = watch_all(base, view, total)
    del base, view, total
    assert alive() == 0


def test_saved_outputs_make_no_cycle(leaf, no_collector):
    """A node that needs its own result does not hold it in a way that holds itself."""
    x = leaf(1.0, 2.0)
    results = [getattr(x, name)() for name in ("exp", "tanh", "sigmoid", "sqrt", "reciprocal")]
    results += [x.softmax(0), x.log_softmax(0), x.prod(), x.amax(), x.norm(), x.logsumexp(0)]
    alive = watch_all(*results)
    assert alive() == len(results)
    del results
    assert alive() == 0


def test_tensors_with_attributes_and_hooks(leaf, no_collector):
    """Attributes and hooks go with their tensor."""
    class Marker:
        pass

    x = leaf(1.0)
    y = x * 2
    y.note, in_hook = Marker(), Marker()
    y.register_hook(lambda g, keep=in_hook: None)
    alive = watch_all(y, y.note, in_hook)
    del in_hook
    assert alive() == 3
    del y
    assert alive() == 0


def test_a_failed_backward_lets_go(torch, leaf, no_collector):
    """After an exception in backward nothing of the pass is kept, once the exception itself is gone."""
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("on purpose")

    x = leaf(1.0)
    h = x * 3
    y = (Broken.apply(h * h) + h).sum()
    alive = watch_all(h, y)
    with pytest.raises(ValueError, match="on purpose"):
        y.backward()
    del h, y
    assert alive() == 0


def test_gradients_of_second_order(torch, leaf, no_collector):
    """Gradients made with ``create_graph`` by ``autograd.grad`` form no cycle with what they were made of."""
    x = leaf(1.0, 2.0)
    y = (x ** 3).exp()
    g, = torch.autograd.grad(y.sum(), x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x, create_graph=True)
    alive = watch_all(y, g, h)
    del y, g, h
    assert alive() == 0

"""Recording on and off: blocks, decorators, generators and threads."""
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

# --- modes ----------------------------------------------------------------------------------------------------------


def test_modes_nest_and_are_restored(torch):
    """Each block restores the mode that held before it, also after an exception."""
    assert torch.is_grad_enabled()
    with torch.no_grad():
        with torch.enable_grad():
            with torch.set_grad_enabled(False):
                assert not torch.is_grad_enabled()
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
        with pytest.raises(KeyError), torch.enable_grad():
            raise KeyError("inside")
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()


def test_one_context_object_used_again_and_again(torch):
    """The same ``no_grad`` object can be entered again."""
    context = torch.no_grad()
    for _ in range(3):
        with context:
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled()


def test_set_grad_enabled_as_a_function(torch):
    """Called as a function it switches at once and stays."""
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()


def test_modes_as_decorators(torch):
    """A decorated function keeps its name, passes arguments and results, and holds the mode while it runs only."""
    @torch.no_grad()
    def f(a, *, b):
        """Text."""
        return a, b, torch.is_grad_enabled()

    @torch.enable_grad()
    def g():
        return torch.is_grad_enabled()

    @torch.no_grad
    def h():
        return torch.is_grad_enabled()

    assert f(1, b=2) == (1, 2, False)
    assert (f.__name__, f.__doc__) == ("f", "Text.")
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert g()
    assert not h()


def test_modes_on_generators(torch):
    """A decorated generator holds the mode while its own code runs, not while the caller's does."""
    @torch.no_grad()
    def numbers():
        received = None
        for i in range(3):
            received = yield i, torch.is_grad_enabled(), received

    generator = numbers()
    got = [next(generator)]
    assert torch.is_grad_enabled()
    got.append(generator.send("a"))
    assert torch.is_grad_enabled()
    got.append(generator.send("b"))
    assert got == [(0, False, None), (1, False, "a"), (2, False, "b")]
    with pytest.raises(StopIteration):
        next(generator)
    assert torch.is_grad_enabled()


def test_backward_does_not_record_by_itself(torch, leaf):
    """Inside backward recording is off, and on with ``create_graph``; afterwards the mode is the caller's."""
    modes = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            modes.append(torch.is_grad_enabled())
            return g * 1

    x = leaf(1.0)
    Look.apply(x).sum().backward()
    torch.autograd.grad(Look.apply(x).sum(), x, create_graph=True)
    assert modes == [False, True]
    assert torch.is_grad_enabled()


def test_backward_under_no_grad(torch, leaf):
    """``no_grad`` forbids recording, not going back through what was recorded before."""
    x = leaf(3.0)
    y = (x * x).sum()
    with torch.no_grad():
        y.backward()
    assert x.grad.tolist() == [6.0]


# --- Python threads -------------------------------------------------------------------------------------------------


def run_threads(count, work):
    """Run ``work(i)`` in ``count`` threads at once and return their results, raising what any of them raised."""
    results, errors = [None] * count, []
    barrier = threading.Barrier(count)

    def body(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:     # handed to the test's own thread below
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_the_mode_belongs_to_the_thread(torch):
    """``no_grad`` in one thread does not hold in another; a new thread starts with recording on."""
    with torch.no_grad():
        assert run_threads(2, lambda i: torch.is_grad_enabled()) == [True, True]

    def work(i):
        with torch.no_grad() if i % 2 else torch.enable_grad():
            return [torch.is_grad_enabled() for _ in range(1000)]

    for i, seen in enumerate(run_threads(4, work)):
        assert set(seen) == {i % 2 == 0}


def test_independent_graphs_in_several_threads(torch):
    """Each thread trains a model of its own; the results are those of one after the other."""
    def work(i):
        w = torch.tensor([0.1 * (i + 1)] * 50, dtype=torch.float64, requires_grad=True)
        for _ in range(100):
            loss = ((w * w).sin() - 0.5).pow(2).sum()
            g, = torch.autograd.grad(loss, w)
            with torch.no_grad():
                w -= 0.05 * g
        return w.tolist()

    assert run_threads(4, work) == [work(i) for i in range(4)]


def test_a_shared_frozen_part_in_several_threads(torch, leaf):
    """Several threads may differentiate through the same recorded part as long as it is retained."""
    base = leaf(1.0, 2.0, 3.0)
    shared = (base * base).exp()

    def work(i):
        g, = torch.autograd.grad((shared * (i + 1)).sum(), base, retain_graph=True)
        return g.tolist()

    want = 2 * np.array([1.0, 2, 3]) * np.exp(np.array([1.0, 4, 9]))
    for _ in range(20):
        for i, got in enumerate(run_threads(4, work)):
            assert_allclose(got, want * (i + 1), rtol=1e-12)

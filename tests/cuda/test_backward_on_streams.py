"""Backward passes run on the streams of the forward pass. Imitated devices do no work before something waits for it."""

import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


def streams_of(tensors, seen):
    for name, t in tensors.items():
        t.register_hook(lambda g, name=name: seen.__setitem__(name, cygrad.cuda.current_stream()))


def test_each_node_runs_where_it_was_made():
    s, t, first = cygrad.cuda.Stream(), cygrad.cuda.Stream(), cygrad.cuda.current_stream()
    x, seen = cygrad.full((1000,), 2.0, device="cuda", requires_grad=True), {}
    s.wait_stream(first)
    with cygrad.cuda.stream(s):
        y = x * 3
        t.wait_stream(s)
    with cygrad.cuda.stream(t):
        a, b = (y * y).split(500)
        z = a.clone()
    first.wait_stream(t)
    total = (z.sum() + b.sum()) * 2
    streams_of({"x": x, "y": y, "z": z, "total": total}, seen)
    with cygrad.cuda.stream(s):                             # whoever calls it
        s.wait_stream(first)
        total.backward()
        assert x.grad.tolist() == [72.0] * 1000             # which waits for s alone
        assert cygrad.cuda.current_stream() == s
    assert (seen["y"], seen["z"], seen["total"]) == (s, t, first)
    assert cygrad.cuda.current_stream() == first


def test_gradients_are_there_for_the_caller():
    s = cygrad.cuda.Stream()
    x = cygrad.ones(1000, device="cuda", requires_grad=True)
    s.wait_stream(cygrad.cuda.current_stream())
    for k in range(3):
        with cygrad.cuda.stream(s):
            y = (x * x).sum()
        cygrad.cuda.current_stream().wait_stream(s)
        y.backward()
        assert x.grad.tolist() == [2.0 * (k + 1)] * 1000    # no synchronisation by hand
    (g,) = cygrad.autograd.grad((x * 2).sum(), x)
    assert g.tolist() == [2.0] * 1000


def test_memory_that_a_pass_frees_is_not_written_too_early():
    s, first = cygrad.cuda.Stream(), cygrad.cuda.current_stream()
    x = cygrad.ones(3000, device="cuda", requires_grad=True)
    s.wait_stream(first)
    y = x * 2
    s.wait_stream(first)
    with cygrad.cuda.stream(s):
        z = y.exp().sum()
    first.wait_stream(s)
    z.backward()
    del z, y
    others = [cygrad.full((3000,), -1.0, device="cuda") for _ in range(8)]
    with cygrad.cuda.stream(s):
        others += [cygrad.full((3000,), -1.0, device="cuda") for _ in range(8)]
    cygrad.testing.assert_close(x.grad.cpu(), cygrad.full((3000,), 2 * 7.389056))
    assert len(others) == 16


@pytest.mark.usefixtures("two_devices")
def test_custom_functions_and_both_devices():
    class Double(cygrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(cygrad.cuda.current_stream(g.device))
            return g * 2

    seen = []
    s, far = cygrad.cuda.Stream(), cygrad.cuda.Stream("cuda:1")
    x = cygrad.ones(500, device="cuda", requires_grad=True)
    s.wait_stream(cygrad.cuda.current_stream())
    with cygrad.cuda.stream(s):
        y = Double.apply(x)
        with cygrad.cuda.stream(far):
            z = Double.apply(y.to("cuda:1")).sum()
            z.backward()
    assert seen == [far, s]
    cygrad.cuda.synchronize(0)
    assert x.grad.tolist() == [4.0] * 500


def test_an_error_gives_the_streams_back():
    s = cygrad.cuda.Stream()
    x = cygrad.ones(3, device="cuda", requires_grad=True)
    with cygrad.cuda.stream(s):
        y = (x * 2).sum()

    def fail(g):
        raise ValueError("no")

    y.register_hook(fail)
    with pytest.raises(ValueError, match="no"):
        y.backward()
    assert cygrad.cuda.current_stream().cuda_stream == 0


@pytest.mark.usefixtures("two_devices")
def test_a_pass_that_cannot_wait_gives_all_streams_back(monkeypatch):
    streams = [cygrad.cuda.Stream(f"cuda:{k}") for k in range(2)]
    first = [cygrad.cuda.current_stream(k) for k in range(2)]
    x, total = [cygrad.ones(3, device=f"cuda:{k}", requires_grad=True) for k in range(2)], 0
    for t, s in zip(x, streams, strict=True):
        s.wait_stream(cygrad.cuda.current_stream(s.device_index))
        with cygrad.cuda.stream(s):
            y = (t * t).sum()
        cygrad.cuda.current_stream(s.device_index).wait_stream(s)
        total = total + y.cpu()

    def refuse(self, event):
        raise RuntimeError("no event today")

    with monkeypatch.context() as patched:
        patched.setattr(cygrad.cuda.Stream, "wait_event", refuse)
        patched.setattr(cygrad.cuda.Stream, "wait_stream", lambda self, other: None)
        with pytest.raises(RuntimeError, match="no event today"):
            total.backward()
    assert [cygrad.cuda.current_stream(k) for k in range(2)] == first
    cygrad.cuda.synchronize(0)
    cygrad.cuda.synchronize(1)

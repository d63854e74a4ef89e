"""Faults of the engine that were found once and stay fixed, each as the smallest program that showed it."""

import gc
import threading
import weakref

import pytest

import cygrad as torch

Function = torch.autograd.Function


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class Triple(Function):
    """Returns its input; the gradient shows whether the Function was passed by."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return 3 * g


def leaf(n):
    return torch.arange(1.0, n + 1, dtype=torch.float64).requires_grad_()


# ---- in-place writes and what they destroy --------------------------------------------------------------------------


@pytest.mark.parametrize("write", [lambda x: x.mul_(2), Double.apply])
def test_a_leaf_that_is_a_view_cannot_be_written(write):
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        write(x)


@pytest.mark.parametrize("write", [
    lambda b: b[0].mul_(b[0]),
    lambda b: b[0].mul_(b[1]),
])
def test_an_operand_in_the_written_memory_counts_as_changed(write):
    x = leaf(4)
    b = x.reshape(2, 2) * 1
    write(b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_an_operand_with_the_same_elements_in_another_order_is_refused():
    """What an element becomes would depend on which is written first."""
    b = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="refer to a single memory location"):
        b.mul_(b.t())
    assert b._version == 0


def test_a_leaf_that_no_longer_requires_grad_gets_none():
    x = leaf(2)
    y = (x * 2).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None


def test_a_sum_with_an_operand_in_the_written_memory_needs_no_values():
    x = leaf(4)
    b = x * 1
    b[:2].add_(b[2:])
    b.sum().backward()
    assert x.grad.tolist() == [1, 1, 2, 2]


def views_of(kind, b):
    if kind == "split":
        return b.split(2)[0]
    if kind == "no_grad":
        with torch.no_grad():
            return b[:2]
    return Triple.apply(b)


@pytest.mark.parametrize("kind", ["split", "no_grad", "function"])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_view_that_cannot_be_taken_again_is_refused_after_its_base_was_written(kind, recorded):
    b = leaf(4) * 1
    v = views_of(kind, b)
    with torch.set_grad_enabled(recorded):
        b.mul_(5)
    with pytest.raises(RuntimeError, match="has been modified inplace"):
        v * 3


def test_values_of_such_a_view_can_be_read():
    b = leaf(4) * 1
    v = b.split(2)[0]
    b.mul_(5)
    assert v.detach().tolist() == [5, 10]


def test_second_derivative_through_the_result_of_a_write_through_a_view():
    x = leaf(2)
    b = x * 1
    b[:1].exp_()
    g, = torch.autograd.grad((b**2).sum(), x, create_graph=True)
    e = torch.exp(torch.tensor(2.0, dtype=torch.float64)).item()
    assert torch.allclose(g, torch.tensor([2 * e, 4], dtype=torch.float64))
    h, = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(h, torch.tensor([4 * e, 2], dtype=torch.float64))


# ---- gradients that are kept ----------------------------------------------------------------------------------------


def test_a_retained_gradient_follows_the_view_that_is_written():
    b = leaf(3) * 1
    v = b[:2]
    v.retain_grad()
    v.mul_(2)
    (v * 5).sum().backward()
    assert v.grad.tolist() == [5, 5]


def test_a_retained_gradient_follows_the_base_of_a_view_that_is_written():
    b = leaf(3) * 1
    b.retain_grad()
    b[:2].mul_(2)
    (b * 5).sum().backward()
    assert b.grad.tolist() == [5, 5, 5]


def test_a_retained_gradient_follows_a_view_whose_base_is_written():
    b = leaf(3) * 1
    v = b[:2]
    v.retain_grad()
    b.mul_(2)
    (v * 5).sum().backward()
    assert v.grad.tolist() == [5, 5]


def test_grad_is_not_the_tensor_that_a_hook_kept():
    x = leaf(2)
    kept = []
    x.register_hook(lambda g: kept.append(g))
    (x * 3).sum().backward()
    x.grad.mul_(5)
    assert kept[0].tolist() == [3, 3]


# ---- hooks and threads ----------------------------------------------------------------------------------------------


def test_a_post_hook_gives_a_gradient_for_each_input():
    x = leaf(2)
    y = x * 2
    y.grad_fn.register_hook(lambda grad_inputs, grad_outputs: ())
    with pytest.raises(RuntimeError, match="got 0, but expected 2"):
        y.sum().backward()


def test_a_backward_may_run_the_node_that_it_belongs_to():
    inner = []

    class Nested(Double):
        @staticmethod
        def backward(ctx, g):
            if not inner:
                inner.append(None)
                inner[0], = torch.autograd.grad(s, x, retain_graph=True)
            return 2 * g

    x = leaf(3)
    b = x * 1
    Nested.apply(b[:2])
    s = (b * b).sum()
    s.backward(retain_graph=True)
    assert x.grad.tolist() == inner[0].tolist() == [8, 16, 6]


@pytest.mark.parametrize("how", ["view", "hook"])
def test_threads_may_share_a_graph_with_a_write_through_a_view_or_a_post_hook(how):
    n = 400_000
    x = torch.ones(n, requires_grad=True)
    w = torch.ones(n, requires_grad=True)
    b = x * 1
    if how == "view":
        b[:].mul_(w)
    else:
        b = b * w
        b.grad_fn.register_hook(lambda grad_inputs, grad_outputs: None)
    s = (b * b).sum()
    seen = []

    def passes(k):
        for _ in range(15):
            try:
                seen.append([g.sum().item() / n / k for g in torch.autograd.grad(s * k, [x, w], retain_graph=True)])
            except Exception as error:
                seen.append(error)

    threads = [threading.Thread(target=passes, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == [[2.0, 2.0]] * 45


# ---- custom Functions -----------------------------------------------------------------------------------------------


def test_a_dirty_view_is_the_only_output():
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x, x + 1

        @staticmethod
        def backward(ctx, g, h):
            return 2 * (g + h)

    with pytest.raises(RuntimeError, match="only output"):
        Two.apply((leaf(3) * 1)[:2])


def test_an_input_without_gradient_that_is_returned_keeps_its_history():
    class Cut(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            ctx.mark_non_differentiable(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    b = leaf(3) * 1
    y = Cut.apply(b)
    assert y is not b
    assert (y.requires_grad, (y * 2).requires_grad, b.requires_grad) == (False, False, True)


def test_an_output_taken_as_a_view_before_forward_wrote_keeps_its_gradient():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            t = x * 2
            v = t[:2]
            t.add_(1)
            return t, v

        @staticmethod
        def backward(ctx, g, h):
            r = 2 * g
            r[:2] += 20 * h
            return r

    x = leaf(3)
    t, v = Both.apply(x)
    (t.sum() + v.sum()).backward()
    assert x.grad.tolist() == [22, 22, 2]


def test_a_node_does_not_own_the_input_that_it_changed():
    gc.collect()
    gc.disable()
    try:
        y = Double.apply(leaf(2) * 1)
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
    finally:
        gc.enable()


def test_a_slice_of_a_leaf_that_is_a_view_is_not_written():
    """The leaf is a view of a tensor that needs no gradient; writing to a slice would change it behind its graph."""
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        x[0] = 2.0
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with torch.no_grad():
        x[0] = 2.0
    assert x[0].tolist() == [2.0, 2.0, 2.0]


def test_hooks_after_accumulation_run_for_chosen_inputs_too():
    x = torch.ones(2, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 3).sum().backward(inputs=[x])
    assert seen == [[3.0, 3.0]]


def test_a_quotient_may_be_written_over():
    """Its gradient reads the operands only."""
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([2.0, 4.0], requires_grad=True)
    z = a / b
    z.add_(1)
    z.sum().backward()
    assert b.grad.tolist() == [-0.25, -0.125]


@pytest.mark.parametrize("call", [
    lambda dtype: torch.nanmean(torch.tensor([1.0, float("nan")]), dtype=dtype),
    lambda dtype: torch.fft.fftfreq(3, dtype=dtype),
    lambda dtype: torch.fft.rfftfreq(3, dtype=dtype),
    lambda dtype: torch.logspace(0, 1, 3, dtype=dtype),
], ids=["nanmean", "fftfreq", "rfftfreq", "logspace"])
def test_compositions_take_types_of_python_as_dtypes(call):
    assert call(float).dtype is torch.float64
    assert torch.equal(call(float), call(torch.float64))
    with pytest.raises(TypeError, match="dtype"):
        call("float64")


def test_a_multivariate_gamma_function_of_too_many_dimensions_ends():
    """It was a loop over the dimensions, which no interrupt but the user's ended."""
    with pytest.raises(RuntimeError, match="allocate"):
        torch.mvlgamma(torch.ones(3), 2**50)


def test_more_parts_than_there_may_be_dimensions():
    x = torch.arange(200.0, requires_grad=True)
    parts = x.split([1] * 100 + [0] * 50 + [2] * 50)
    assert len(parts) == 200 and parts[-1].tolist() == [198.0, 199.0]
    (parts[3] * 5 + parts[120].sum()).sum().backward()
    assert x.grad.nonzero().tolist() == [[3]]
    assert len(torch.empty(0).chunk(100)) == 100
    for sizes in ([1] * 99 + [1.5], [1] * 99 + [None]):
        with pytest.raises(TypeError, match="split_size_or_sections"):
            x.split(sizes)


@pytest.mark.parametrize(("call", "want"), [
    (lambda: torch.ones(3).chunk(2**63 - 1), [1, 1, 1]),
    (lambda: torch.ones(3).split(2**63 - 1), [3]),
    (lambda: torch.empty(0, 2**60).split(2**59, 1), [0, 0]),
    (lambda: torch.empty(0, 2**60).chunk(2, 1), [0, 0]),
])
def test_sizes_of_parts_near_the_largest_integer(call, want):
    parts = call()
    assert [len(p) for p in parts] == want and sum(p.shape[-1] for p in parts) in (3, 2**60)


def test_operands_of_few_and_of_many_dimensions():
    """Strides were compared beyond the end of the shorter ones, which only AddressSanitizer saw."""
    many = torch.ones([1] * 62 + [3, 3])
    for y in (torch.full((3, 3), 5.0) - many, torch.full((3, 3), 5.0).clamp(max=many * 4)):
        assert y.ndim == 64 and y.flatten().tolist() == [4.0] * 9


@pytest.mark.parametrize("call", [
    lambda x: x.tolist(), lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.t().chunk(2**50), lambda x: list(x),
], ids=["tolist", "unbind", "split", "chunk", "iter"])
def test_results_of_which_there_are_too_many(call):
    with pytest.raises(RuntimeError, match="allocate memory"):
        call(torch.empty(2**50, 0))


def test_nodes_under_other_names_have_gradients(torch, check_gradients):
    """_unsafe_view and its like are rows under another name, which are made before any row has its gradient."""
    x = torch.linspace(0.5, 1.5, 24, dtype=torch.float64).reshape(2, 3, 4).requires_grad_()
    w = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(4, 2).requires_grad_()
    y = x @ w
    assert y.grad_fn.name() == "UnsafeViewBackward0"
    check_gradients(lambda x, w: x @ w, x, w)
    check_gradients(lambda x: x.transpose(0, 1).reshape(-1) * 2, x)
    check_gradients(lambda x: torch.roll(x, 1), x)
    check_gradients(lambda x: x @ w[:, 0], x)

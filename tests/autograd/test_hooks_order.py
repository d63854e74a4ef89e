"""When hooks run, in which order, and what they may return."""
import pytest


@pytest.fixture
def log():
    """A list, with a maker of hooks that write to it."""
    class Log(list):
        def hook(self, name, result=None):
            def called(*args):
                self.append(name)
                return None if result is None else result(*args)

            return called

        def taken(self):
            seen = list(self)
            self.clear()
            return seen

    return Log()


def test_hooks_of_an_intermediate_value(torch, leaf, log):
    """Those of the tensor in order, then retain_grad, then those of the node."""
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(log.hook("first", lambda g: g * 2))
    y.grad_fn.register_prehook(log.hook("before", lambda grads: (grads[0] * 3,)))
    y.register_hook(log.hook("second", lambda g: g + 1))
    y.grad_fn.register_hook(log.hook("after"))
    y.sum().backward()
    assert log == ["first", "second", "before", "after"]
    assert y.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [18.0, 18.0]


def test_what_grad_returns(torch, backend, leaf, log):
    """The gradient after the tensor's hooks; those of the node run when the node does."""
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(log.hook("tensor", lambda g: g * 2))
    y.grad_fn.register_prehook(log.hook("before", lambda grads: (grads[0] * 3,)))
    y.grad_fn.register_hook(log.hook("after"))
    g, = torch.autograd.grad(y.sum(), y, retain_graph=True)
    assert g.tolist() == [2.0, 2.0] and log.taken() == ["tensor"]
    g, h = torch.autograd.grad(y.sum(), (y, x))
    assert g.tolist() == ([1.0, 1.0] if backend == "torch" else [2.0, 2.0])     # its own documentation says 2
    assert h.tolist() == [12.0, 12.0]
    assert log == ["tensor", "before", "after"]


@pytest.mark.parametrize("inputs", [False, True])
def test_hooks_of_a_leaf(torch, leaf, log, inputs):
    x = leaf(1.0, 2.0)
    node = (x * 1).grad_fn.next_functions[0][0]
    seen = []
    x.register_hook(log.hook("tensor", lambda g: g * 2))
    node.register_prehook(log.hook("before", lambda grads: (grads[0] * 3,)))
    node.register_hook(log.hook("after", lambda given, arrived: seen.append((given, arrived[0].tolist()))))
    x.register_post_accumulate_grad_hook(log.hook("accumulated", lambda t: seen.append(t.grad.tolist())))
    (x * 5).sum().backward(**({"inputs": [x]} if inputs else {}))
    assert log.taken() == ["tensor", "before", "accumulated", "after"]
    assert x.grad.tolist() == [30.0, 30.0] and seen == [[30.0, 30.0], ((), [30.0, 30.0])]
    g, = torch.autograd.grad((x * 5).sum(), x)
    assert g.tolist() == [10.0, 10.0] and log == ["tensor"]


def test_backward_into_an_intermediate_value(torch, leaf, log):
    """Its .grad is retained from then on, its hooks run, and nothing behind it is computed."""
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(log.hook("tensor", lambda g: g * 2))
    (y * y).sum().backward(inputs=[y])
    assert log == ["tensor"] and y.retains_grad and y.grad.tolist() == [8.0, 16.0] and x.grad is None


def test_hooks_registered_and_removed_by_hooks(torch, leaf, log):
    """Take effect in the next pass."""
    x = leaf(1.0)
    y = x * 2
    late = []
    y.register_hook(log.hook("adds", lambda g: late.append(y.register_hook(log.hook("late")))))
    y.register_hook(log.hook("second"))
    y.sum().backward(retain_graph=True)
    assert log.taken() == ["adds", "second"]
    y.sum().backward(retain_graph=True)
    assert log.taken() == ["adds", "second", "late"]
    for handle in late:
        handle.remove()
        handle.remove()
    z = x * 2
    handles = []
    z.register_hook(log.hook("removes", lambda g: handles[0].remove()))
    handles.append(z.register_hook(log.hook("other")))
    z.sum().backward(retain_graph=True)
    assert log.taken() == ["removes", "other"]
    z.sum().backward()
    assert log == ["removes"]


def test_before_and_after_a_change_in_place(torch, leaf, log):
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = {}
    y.register_hook(log.hook("before", lambda g: seen.update(before=g.tolist())))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(log.hook("after", lambda g: seen.update(after=g.tolist())))
    y.sum().backward()
    assert log == ["after", "before"] and seen == {"after": [1.0, 1.0], "before": [3.0, 3.0]}
    assert y.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [6.0, 6.0]


def test_before_and_after_a_change_of_a_view(torch, leaf, log):
    """Hooks of the base see its old and its new value; those of the view, which nobody uses, none."""
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    v = y[:2]
    v.register_hook(log.hook("view before"))
    v.retain_grad()
    y.register_hook(log.hook("base before"))
    y.retain_grad()
    v.mul_(3)
    v.register_hook(log.hook("view after"))
    y.register_hook(log.hook("base after"))
    y.sum().backward()
    assert log == ["base after", "base before"]
    assert y.grad.tolist() == [1.0, 1.0, 1.0] and v.grad is None


def test_a_gradient_may_be_taken_away(torch, leaf, log):
    x, y = leaf(1.0), leaf(2.0)
    z = x * y
    z.grad_fn.register_hook(lambda given, arrived: (None, given[1]))
    z.backward()
    assert x.grad is None and y.grad.tolist() == [1.0]
    z = x * 2
    z.grad_fn.register_prehook(lambda grads: (None,))
    z.backward()
    assert x.grad is None


def test_gradients_that_a_node_does_not_give(torch, leaf):
    """Are None for post-hooks: those of operands that need none, and those that nobody asked for."""
    x, y = leaf(1.0), leaf(2.0)
    seen = []
    z = x + y.detach()
    z.grad_fn.register_hook(lambda given, arrived: seen.append([g is not None for g in given]))
    z.backward()
    z = x * y
    z.grad_fn.register_hook(lambda given, arrived: seen.append([g is not None for g in given]))
    z.backward(inputs=[x])
    assert seen == [[True, False], [True, False]]


WRONG = [
    ("number", lambda g: 5, TypeError, "expected Variable, but hook returned 'int'"),
    ("sum", lambda g: g.sum(), RuntimeError, "has changed the size of value"),
    ("reshaped", lambda g: g.reshape(2, 1), RuntimeError, "has changed the size of value"),
    ("float", lambda g: g.float(), RuntimeError, "has changed the type of value"),
    ("long", lambda g: g.long(), RuntimeError, "has changed the type of value"),
]


@pytest.mark.parametrize(("hook", "kind", "text"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_results_of_tensor_hooks(torch, leaf, hook, kind, text):
    x = leaf(1.0, 2.0)
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(kind, match=text):
        y.sum().backward()
    x.register_hook(hook)
    with pytest.raises(kind, match=text):
        (x * 2).sum().backward()
    assert x.grad is None


def test_wrong_results_of_node_hooks(torch, leaf):
    def failing(before=None, after=None):
        x = leaf(1.0, 2.0)
        y = x * 2
        if before:
            y.grad_fn.register_prehook(before)
        if after:
            y.grad_fn.register_hook(after)
        with pytest.raises((RuntimeError, TypeError)) as error:
            y.sum().backward()
        assert x.grad is None
        return f"{type(error.value).__name__}: {error.value}"

    few = "RuntimeError: hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)"
    assert failing(before=lambda grads: (grads[0], grads[0])) == few
    assert failing(before=lambda grads: grads[0]).startswith("TypeError: expected tuple, but hook returned 'Tensor'")
    assert failing(after=lambda given, arrived: 5).startswith("TypeError: expected tuple, but hook returned 'int'")
    assert "has changed the size of value" in failing(after=lambda given, arrived: (given[0].sum(), given[1]))
    assert "can't replace a None gradient" in failing(after=lambda given, arrived: (given[0], given[0]))


def test_where_hooks_may_be_registered(torch, leaf):
    plain = torch.ones(2)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        plain.register_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        plain.register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        plain.retain_grad()
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad


def test_hooks_of_several_outputs(torch, leaf, log):
    a, b = leaf(1.0, 2.0, 3.0).split([1, 2])
    b.register_hook(log.hook("b"))
    b.retain_grad()
    node = b.grad_fn
    node.register_prehook(log.hook("before", lambda grads: None))
    (b * 2).sum().backward()
    assert log == ["b", "before"] and b.grad.tolist() == [2.0, 2.0]
    assert a.grad_fn is node


# --- .grad ----------------------------------------------------------------------------------------------------------


def test_what_may_be_assigned_to_grad(torch, leaf):
    x = leaf(1.0, 2.0)
    for wrong, kind in ((torch.ones(3, dtype=torch.float64), RuntimeError), (torch.ones(2), RuntimeError),
                        (5, TypeError), (torch.ones(2).long(), RuntimeError), ("x", TypeError), (x, RuntimeError)):
        with pytest.raises(kind):
            x.grad = wrong
        assert x.grad is None
    x.grad = torch.ones(2, dtype=torch.float64)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    x.grad = None
    plain = torch.ones(2)
    plain.grad = torch.ones(2)
    assert plain.grad.tolist() == [1.0, 1.0]


def test_accumulation_in_place_and_not(torch, leaf):
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    first, version = x.grad, x.grad._version
    (x * 2).sum().backward()
    assert x.grad is first and first._version == version + 1
    x.grad = None
    (x * 2).sum().backward(create_graph=True)
    first = x.grad
    (x * 2).sum().backward(create_graph=True)
    assert x.grad is not first and first.tolist() == [2.0, 2.0] and x.grad.tolist() == [4.0, 4.0]


def test_a_stale_view_is_no_leaf(torch, leaf):
    """Neither does it claim to be one before somebody asked for its grad_fn."""
    base = torch.zeros(3, dtype=torch.float64)
    views = [base[:2], base[1:], base[:]]
    base.mul_(leaf(1.0, 2.0, 3.0))
    assert not views[0].is_leaf and views[0].requires_grad
    with pytest.raises(RuntimeError, match="non-leaf"):
        views[2].register_post_accumulate_grad_hook(print)


def test_a_hook_that_gives_the_leaf_another_shape(torch, leaf):
    x = leaf(1.0, 2.0, 3.0)

    def swap(grad):
        x.data = torch.ones(2, dtype=torch.float64)

    x.register_hook(swap)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0] and x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("inputs", [False, True])
def test_grad_is_laid_out_as_the_leaf(torch, inputs):
    """With the strides of a dense leaf, row-major beside another; whatever the strides of the gradient that arrives."""
    image = torch.ones(2, 3, 4, 4)
    for leaf, arriving in ((torch.ones(3, 2).t(), torch.ones(2, 3)), (torch.ones(3, 2).t(), torch.ones(3, 2).t()),
                           (torch.ones(2, 3), torch.ones(3, 2).t()), (torch.ones(4, 3)[::2], torch.ones(3, 2).t()),
                           (torch.ones(1, 3).expand(2, 3), torch.ones(3, 2).t()),
                           (torch.ones(2, 3), torch.ones(1, 3).expand(2, 3)),
                           (image.to(memory_format=torch.channels_last), image)):
        x = leaf.detach().requires_grad_()
        kind = torch.preserve_format if x.stride() == torch.empty_like(x).stride() else torch.contiguous_format
        wanted = torch.empty_like(x, memory_format=kind).stride()
        for _ in range(2):
            (x * 1).backward(arriving, **({"inputs": [x]} if inputs else {}))
            assert x.grad.stride() == wanted
        assert x.grad.flatten()[0] == 2.0


def test_a_retained_gradient_is_row_major(torch):
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 1
    y.retain_grad()
    (y.t() * 1).backward(torch.ones(3, 2))
    assert y.grad.stride() == (3, 1)


def test_create_graph_warns_of_the_cycle(run_child):
    """Once."""
    out = run_child("""
        import warnings
        x = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.autograd.grad((x * x).sum(), x, create_graph=True)
            (x * x).sum().backward(create_graph=True)
            (x * x).sum().backward(create_graph=True)
        print(len(seen), "will create a reference cycle" in str(seen[0].message))
        """)
    assert out == "1 True"


def test_a_leaf_that_stopped_requiring_a_gradient(torch, leaf):
    """What was recorded before still reaches it and its hooks, but .grad is not written."""
    x = leaf(1.0, 2.0)
    calls = []
    x.register_hook(lambda g: calls.append(g.tolist()))
    x.register_post_accumulate_grad_hook(lambda t: calls.append(t.grad))
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert calls == [[2.0, 2.0], None]
    assert x.grad is None

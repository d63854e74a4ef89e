"""Recomputation in place of memory."""
import contextlib
import functools
import gc
import importlib
import os

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")
torch = importlib.import_module(BACKEND)
ck = importlib.import_module(BACKEND + ".utils.checkpoint")


def leaf(*shape):
    torch.manual_seed(3)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def block(x, w):
    return torch.tanh(x @ w).exp() * x


def gradients(make):
    x, w = leaf(4, 4), leaf(4, 4)
    y = make(x, w)
    return y, torch.autograd.grad(y.sum(), (x, w))


@pytest.mark.parametrize("reentrant", [False, True])
def test_same_values_and_gradients(reentrant):
    x, w = leaf(4, 4), leaf(4, 4)
    y = ck.checkpoint(block, x, w, use_reentrant=reentrant)
    y.sum().backward()
    v, u = leaf(4, 4), leaf(4, 4)
    z = block(v, u)
    z.sum().backward()
    assert torch.equal(y, z) and torch.equal(x.grad, v.grad) and torch.equal(w.grad, u.grad)


def test_autograd_grad_and_second_derivatives():
    def twice(f):
        x, w = leaf(3, 3), leaf(3, 3)
        g, = torch.autograd.grad(f(x, w).sum(), x, create_graph=True)
        return torch.autograd.grad((g * g).sum(), (x, w))

    plain = twice(block)
    again = twice(lambda x, w: ck.checkpoint(block, x, w, use_reentrant=False))
    assert all(torch.allclose(a, b) for a, b in zip(plain, again, strict=True))


def test_what_runs_when():
    calls = []

    def f(x):
        calls.append(torch.is_grad_enabled())
        return x.exp().tanh()

    x = leaf(3)
    y = ck.checkpoint(f, x, use_reentrant=False)
    z = ck.checkpoint(f, x, use_reentrant=True)
    assert calls == [True, False]
    y.sum().backward()
    assert calls == [True, False, True]
    z.sum().backward()
    assert calls == [True, False, True, True]
    with torch.no_grad():
        ck.checkpoint(f, x, use_reentrant=False)
    assert calls[4:] == [False]


def test_keywords_other_arguments_and_results():
    def f(x, *, scale, names):
        return {"y": (x * scale).exp(), "names": [*names, "new"]}

    x = leaf(3)
    out = ck.checkpoint(f, x, scale=2.0, names=["old"], use_reentrant=False)
    assert out["names"] == ["old", "new"]
    out["y"].sum().backward()
    assert torch.allclose(x.grad, 2 * (2 * x).exp())
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        ck.checkpoint(f, x, scale=2.0, use_reentrant=True)


def test_early_stop():
    calls = []

    def f(x):
        y = x.exp()
        calls.append("exp")
        y = y * 2
        calls.append("rest")
        return y

    def recomputed(**options):
        x = leaf(3)
        y = ck.checkpoint(f, x, use_reentrant=False, **options)
        calls.clear()
        y.sum().backward()
        return list(calls)

    assert recomputed() == []
    assert recomputed(early_stop=False) == ["exp", "rest"]
    with ck.set_checkpoint_early_stop(False):
        assert recomputed() == ["exp", "rest"]
    assert recomputed() == []


def test_the_functions_own_handlers_do_not_catch_the_stop():
    def f(x):
        try:
            return x.exp()
        except Exception:
            return x * 0

    x = leaf(3)
    ck.checkpoint(f, x, use_reentrant=False).sum().backward()
    assert torch.allclose(x.grad, x.exp())


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("preserve", [False, True])
def test_random_numbers(reentrant, preserve):
    masks = []

    def f(x):
        mask = torch.rand(50) < 0.5
        masks.append(mask)
        return (x * mask).exp()

    torch.manual_seed(0)
    x = leaf(50)
    y = ck.checkpoint(f, x, use_reentrant=reentrant, preserve_rng_state=preserve)
    torch.rand(3)
    state = torch.get_rng_state()
    if preserve:
        with ck.set_checkpoint_early_stop(False):
            y.sum().backward()
        assert torch.equal(*masks) and torch.equal(torch.get_rng_state(), state)
    else:
        y.sum().backward()
        assert len(masks) == 2 and not torch.equal(*masks)


def test_nested():
    calls = []

    def inner(x, w):
        calls.append("inner")
        return block(x, w).sin()

    def outer(x, w):
        calls.append("outer")
        y = ck.checkpoint(inner, x, w, use_reentrant=False).tanh()
        return ck.checkpoint(inner, y, w, use_reentrant=False).cos()

    def both(x, w):
        return ck.checkpoint(outer, x, w, use_reentrant=False).exp()

    y, found = gradients(both)
    z, wanted = gradients(lambda x, w: block(block(x, w).sin().tanh(), w).sin().cos().exp())
    assert torch.equal(y, z) and all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))
    assert calls[:3] == ["outer", "inner", "inner"] and calls.count("outer") == 2


def test_retain_graph_recomputes_for_each_pass():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp() * x

    x = leaf(3)
    y = ck.checkpoint(f, x, use_reentrant=False).sum()
    for n in range(2, 5):
        y.backward(retain_graph=True)
        assert len(calls) == n
    assert torch.allclose(x.grad, 3 * x.exp() * (x + 1))


def test_context_fn():
    seen = []

    @contextlib.contextmanager
    def named(name):
        seen.append(name)
        yield
        seen.append("end of " + name)

    x = leaf(3)
    y = ck.checkpoint(torch.exp, x, use_reentrant=False, context_fn=lambda: (named("forward"), named("again")))
    assert seen == ["forward", "end of forward"]
    y.sum().backward()
    assert seen[2:3] == ["again"]
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        ck.checkpoint(torch.exp, x, use_reentrant=True, context_fn=lambda: (named("a"), named("b")))


def changing(first, then):
    state = iter([first, then])
    return lambda x: next(state)(x)


def test_recomputation_that_differs():
    x = leaf(4)
    y = ck.checkpoint(changing(lambda x: x.exp().tanh(), lambda x: x.exp()), x, use_reentrant=False)
    with pytest.raises(ck.CheckpointError, match="A different number of tensors was saved"):
        y.sum().backward()
    y = ck.checkpoint(changing(lambda x: x.exp(), lambda x: x[:2].exp()), x, use_reentrant=False)
    with pytest.raises(ck.CheckpointError, match="have different metadata than during the forward pass"):
        y.sum().backward()
    y = ck.checkpoint(changing(lambda x: x.exp(), lambda x: x.expand(2, 4).exp()[0].exp()), x, use_reentrant=False,
                      determinism_check="none")
    y.sum().backward()
    with pytest.raises(ValueError, match="determinism_check"):
        ck.checkpoint(torch.exp, x, use_reentrant=False, determinism_check="some")
    assert issubclass(ck.CheckpointError, RuntimeError)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch logs operations in place of calls")
def test_debug_names_the_calls():
    x = leaf(4)

    def first(x):
        return x.exp()

    def other(x):
        return x[:2].exp()

    for context, debug in ((ck.set_checkpoint_debug_enabled(True), False), (contextlib.nullcontext(), True)):
        with context:
            y = ck.checkpoint(changing(first, other), x, use_reentrant=False, debug=debug)
        with pytest.raises(ck.CheckpointError) as error:
            y.sum().backward()
        assert "return x.exp()" in str(error.value) and "return x[:2].exp()" in str(error.value)


def test_reading_saved_tensors_twice():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors  # noqa: B018
            ctx.saved_tensors  # noqa: B018
            return g * 2

    y = ck.checkpoint(lambda x: Twice.apply(x.exp()), leaf(3), use_reentrant=False)
    with pytest.raises(ck.CheckpointError, match="already unpacked once"):
        y.sum().backward()


def test_the_reentrant_form_needs_a_whole_backward():
    x = leaf(3)
    y = ck.checkpoint(torch.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        torch.autograd.grad(y.sum(), x)
    y = ck.checkpoint(torch.exp, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        y.sum().backward(inputs=[x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        ck.checkpoint(torch.exp, x.detach(), use_reentrant=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        ck.checkpoint(torch.exp, x)
    y = ck.checkpoint(lambda x: x.detach(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        y.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(reentrant, segments):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(4, 4).double() for _ in range(5)]
    x, v = leaf(2, 4), leaf(2, 4)
    ck.checkpoint_sequential(torch.nn.Sequential(*layers), segments, x, use_reentrant=reentrant).sum().backward()
    found = [p.grad for layer in layers for p in layer.parameters()]
    for layer in layers:
        layer.zero_grad()
    torch.nn.Sequential(*layers)(v).sum().backward()
    assert torch.allclose(x.grad, v.grad)
    wanted = [p.grad for layer in layers for p in layer.parameters()]
    assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))
    with pytest.raises(ValueError, match="Unexpected keyword arguments: what"):
        ck.checkpoint_sequential(layers, 2, x, use_reentrant=False, what=1)


@pytest.mark.skipif(BACKEND == "torch", reason="asks for cygrad's counters")
@pytest.mark.parametrize("reentrant", [False, True])
def test_memory_is_lower(reentrant):
    """A chain of n blocks of m operations keeps n tensors and, in backward, m more; not n m."""
    from cygrad.storage.core import memory_stats, reset_peak

    def chain(x):
        for _ in range(20):
            x = x.tanh()
        return x

    def used(run):
        gc.collect()
        x = torch.ones(10_000, requires_grad=True)
        before = memory_stats()["live_bytes"]
        y = x
        for _ in range(10):
            y = run(y)
        kept = memory_stats()["live_bytes"] - before
        reset_peak()
        y.sum().backward()
        return kept / 40_000, (memory_stats()["peak_bytes"] - before) / 40_000, x.grad

    kept, peak, grad = used(chain)
    less, low, same = used(lambda x: ck.checkpoint(chain, x, use_reentrant=reentrant))
    assert torch.equal(grad, same)
    assert 199 < kept < 202 and peak > 199
    assert less < 12 and low < 36


@pytest.mark.skipif(BACKEND == "torch", reason="asks for cygrad's counters")
def test_nothing_is_left_behind():
    from cygrad.storage.core import memory_stats

    gc.collect()
    gc.disable()
    try:
        before = memory_stats()["live_storages"]
        for reentrant in (False, True):
            x = torch.ones(10, requires_grad=True)
            ck.checkpoint(lambda x: x.exp().tanh(), x, use_reentrant=reentrant).sum().backward()
            y = ck.checkpoint(lambda x: x.exp().tanh(), x, use_reentrant=reentrant)
            del x, y
        assert memory_stats()["live_storages"] == before
    finally:
        gc.enable()


@pytest.mark.parametrize("reentrant", [False, True])
def test_autocast_is_that_of_the_forward_pass(reentrant):
    seen = []

    def f(x, w):
        y = x @ w
        seen.append(y.dtype)
        return y.float().exp()

    x, w = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = ck.checkpoint(f, x, w, use_reentrant=reentrant)
    y.sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        y = ck.checkpoint(f, x, w, use_reentrant=reentrant)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y.sum().backward()
    assert seen == [torch.bfloat16] * 2 + [torch.float32] * 2


def test_what_contexts_and_debug_may_do():
    x = leaf(3)

    def fails(x):
        raise KeyError("mine")

    for given in (x, x.detach()):
        with pytest.raises(RuntimeError, match="suppressed an exception raised during the checkpointed forward"):
            ck.checkpoint(fails, given, use_reentrant=False,
                          context_fn=lambda: (contextlib.suppress(KeyError), contextlib.nullcontext()))
    with pytest.raises(KeyError, match="mine"):
        ck.checkpoint(fails, x, use_reentrant=False)
    with torch.no_grad(), pytest.raises(KeyError, match="mine"):           # nothing is recorded: no context is entered
        ck.checkpoint(fails, x, use_reentrant=False,
                      context_fn=lambda: (contextlib.suppress(KeyError), contextlib.nullcontext()))
    with pytest.raises(ValueError, match="debug=True is incompatible with non-default context_fn"):
        ck.checkpoint(torch.exp, x, use_reentrant=False, debug=True, context_fn=lambda: ck.noop_context_fn())
    ck.checkpoint(torch.exp, x, use_reentrant=True, determinism_check="ignored")


def test_the_pieces():
    x, y = leaf(3), leaf(3).detach()
    a, b, c = ck.detach_variable((x * 1, y, "text"))
    assert a.requires_grad and a.is_leaf and not b.requires_grad and b.data_ptr() == y.data_ptr() and c == "text"
    with pytest.raises(RuntimeError, match="Unsupported input type: list"):
        ck.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        ck.check_backward_validity((y, 3))
    ck.check_backward_validity((y, x))


def test_what_is_in_containers_takes_part_without_reentry():
    x, w = leaf(3), leaf(3)

    def f(parts):
        return {"y": (parts["x"] * parts["w"][0]).exp().tanh()}

    ck.checkpoint(f, {"x": x, "w": [w]}, use_reentrant=False)["y"].sum().backward()
    v, u = leaf(3), leaf(3)
    f({"x": v, "w": [u]})["y"].sum().backward()
    assert torch.equal(x.grad, v.grad) and torch.equal(w.grad, u.grad)


def test_a_graph_without_outputs_that_need_gradients():
    x = leaf(3)
    y = ck.checkpoint(lambda x: (x.detach() * 2, x.exp()), x, use_reentrant=False)
    assert not y[0].requires_grad
    y[1].sum().backward()
    assert torch.allclose(x.grad, x.exp())


def test_a_part_of_the_outputs_and_inputs_as_outputs():
    calls = []

    def f(x, w):
        calls.append(1)
        return x, (x * w).exp(), w.sin().exp()

    x, w = leaf(3), leaf(3)
    a, b, c = ck.checkpoint(f, x, w, use_reentrant=False)
    assert torch.equal(a, x)
    c.sum().backward(retain_graph=True)
    assert x.grad is None and len(calls) == 2
    torch.autograd.backward([a.sum(), b.sum()], inputs=[x])
    assert torch.allclose(x.grad, 1 + w * (x * w).exp())


def test_an_error_in_the_recomputation_leaves_the_graph_as_it_was():
    fail = []

    def f(x):
        if fail:
            raise ValueError("again")
        return x.exp().tanh()

    x = leaf(3)
    y = ck.checkpoint(f, x, use_reentrant=False).sum()
    fail.append(1)
    with pytest.raises(ValueError, match="again"):
        y.backward(retain_graph=True)
    assert x.grad is None
    fail.clear()
    y.backward()
    v = leaf(3)
    f(v).sum().backward()
    assert torch.equal(x.grad, v.grad)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_nested_in_either_form(outer, inner):
    x, w = leaf(4, 4), leaf(4, 4)

    def whole(x, w):
        return ck.checkpoint(block, x, w, use_reentrant=inner).sin() * x

    ck.checkpoint(whole, x, w, use_reentrant=outer).sum().backward()
    v, u = leaf(4, 4), leaf(4, 4)
    (block(v, u).sin() * v).sum().backward()
    assert torch.allclose(x.grad, v.grad) and torch.allclose(w.grad, u.grad)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch has no transforms of functions with hooks on saved tensors")
def test_forward_mode_over_a_recomputation():
    x, w, t = leaf(3), leaf(3), torch.ones(3, dtype=torch.float64)

    def f(x):
        return (x * w).exp().sin() * x

    def slope(f):
        return torch.func.jvp(torch.func.grad(lambda x: f(x).sum()), (x,), (t,))

    for a, b in zip(slope(f), slope(lambda x: ck.checkpoint(f, x, use_reentrant=False)), strict=True):
        assert torch.allclose(a, b)


# ---- results that are kept


def watched(addresses):
    """A function whose matrix product notes where its result lies."""

    def f(x, w):
        y = x @ w
        addresses.append(y.data_ptr())
        return (y.sin() @ w).exp().sum()

    return f


@pytest.fixture
def chosen():
    """Checkpoints with a policy; products have no common name in the two libraries."""
    mm = "mm" if BACKEND == "cygrad" else torch.ops.aten.mm.default

    def run(f, *args, policy=(mm,), **options):
        policy = list(policy) if isinstance(policy, tuple) else policy
        contexts = functools.partial(ck.create_selective_checkpoint_contexts, policy, **options)
        return ck.checkpoint(f, *args, use_reentrant=False, context_fn=contexts)

    run.mm = mm
    return run


def test_saved_results_are_given_back(chosen):
    addresses = []
    x, w = leaf(3, 3), leaf(3, 3)
    chosen(watched(addresses), x, w).backward()
    assert len(addresses) == 2 and addresses[0] == addresses[1]
    u, v = leaf(3, 3), leaf(3, 3)
    watched([])(u, v).backward()
    assert torch.equal(x.grad, u.grad) and torch.equal(w.grad, v.grad)


@pytest.mark.parametrize("saves", [ck.CheckpointPolicy.MUST_SAVE, ck.CheckpointPolicy.PREFER_SAVE])
def test_a_policy_is_asked_in_both_runs(chosen, saves):
    calls = []

    def policy(ctx, op, *args, **kwargs):
        calls.append((ctx.is_recompute, op == chosen.mm, len(args)))
        return saves if op == chosen.mm else ck.CheckpointPolicy.PREFER_RECOMPUTE

    addresses = []
    chosen(watched(addresses), leaf(3, 3), leaf(3, 3), policy=policy).backward()
    assert addresses[0] == addresses[1]
    assert calls.count((False, True, 2)) == 2
    if BACKEND == "cygrad":              # PyTorch asks for fewer where the run ends early
        assert calls.count((True, True, 2)) == 2


def test_a_policy_that_saves_nothing(chosen):
    x, w, u, v = leaf(3, 3), leaf(3, 3), leaf(3, 3), leaf(3, 3)
    chosen(watched([]), x, w, policy=lambda ctx, op, *args, **kwargs: ck.CheckpointPolicy.MUST_RECOMPUTE).backward()
    watched([])(u, v).backward()
    assert torch.equal(x.grad, u.grad) and torch.equal(w.grad, v.grad)


def test_a_saved_result_that_was_written(chosen):
    def f(x, w):
        return (x @ w).mul_(2).sin().sum()

    with pytest.raises(RuntimeError, match="mutated"):
        chosen(f, leaf(3, 3), leaf(3, 3)).backward()
    chosen(f, leaf(3, 3), leaf(3, 3), allow_cache_entry_mutation=True).backward()


def test_a_region_is_run_again_once(chosen):
    y = chosen(watched([]), leaf(3, 3), leaf(3, 3))
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="only allowed to backward once"):
        y.backward()


def test_what_policies_must_be(chosen):
    with pytest.raises(TypeError, match="policy_fn_or_list"):
        ck.create_selective_checkpoint_contexts(3)
    if BACKEND == "cygrad":
        with pytest.raises(ValueError, match=r"no results of sin can be saved.*mm"):
            ck.create_selective_checkpoint_contexts(["mm", "sin"])
        with pytest.raises(TypeError, match="CheckpointPolicy or a bool"):
            chosen(watched([]), leaf(3, 3), leaf(3, 3), policy=lambda ctx, op, *args: "yes")


def test_an_error_ends_the_choice(chosen):
    """What runs after a function that failed is not asked of."""
    asked = []

    def policy(ctx, op, *args, **kwargs):
        asked.append(op)
        return False

    def f(x):
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        chosen(f, leaf(3, 3), policy=policy)
    _ = leaf(3, 3) @ leaf(3, 3)
    assert not asked

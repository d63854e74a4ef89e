"""Hooks around forward and backward of modules."""

import gc
import importlib
import pickle
import warnings
import weakref

import pytest


@pytest.fixture
def layer(torch, nn):
    layer = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return layer


@pytest.fixture
def everywhere(backend):
    """Hooks on all modules of the process; what the test registers is removed afterwards."""
    module = importlib.import_module(backend + ".nn.modules.module")
    handles = []

    def register(kind, hook, **options):
        handles.append(getattr(module, f"register_module_{kind}_hook")(hook, **options))

    yield register
    for handle in handles:
        handle.remove()


# ---- forward
def test_forward_hooks_see_and_replace(torch, layer):
    seen = []
    layer.register_forward_pre_hook(lambda module, args: seen.append(("pre", module, args)))
    layer.register_forward_pre_hook(lambda module, args: args[0] * 2)
    layer.register_forward_hook(lambda module, args, output: output + 1)
    layer.register_forward_hook(lambda module, args, output: seen.append(("post", args, output)))
    x = torch.tensor([[1.0, 0.0]])
    assert layer(x).tolist() == [[3, 7]]
    assert seen[0][1] is layer and seen[0][2] == (x,)
    assert seen[1][1][0].tolist() == [[2, 0]] and seen[1][2].tolist() == [[3, 7]]


def test_order_prepend_and_removal(torch, layer):
    seen = []
    handles = [layer.register_forward_hook(lambda *a, i=i: seen.append(i), prepend=i == 2) for i in range(3)]
    layer(torch.zeros(1, 2))
    assert seen == [2, 0, 1]
    handles[0].remove()
    handles[0].remove()
    with handles[1]:
        layer(torch.zeros(1, 2))
    layer(torch.zeros(1, 2))
    assert seen == [2, 0, 1, 2, 1, 2]


def test_keyword_arguments(torch, nn):
    class Scale(nn.Module):
        def forward(self, x, *, by=1):
            return x * by

    scale = Scale()
    seen = []
    scale.register_forward_pre_hook(lambda m, args, kwargs: (args, kwargs | {"by": 5}), with_kwargs=True)
    scale.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert scale(torch.tensor(2.0), by=3).item() == 10 and seen == [{"by": 5}]
    scale.register_forward_pre_hook(lambda m, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError):
        scale(torch.tensor(2.0))


def test_hooks_that_are_always_called(nn):
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    broken = Broken()
    seen = []
    broken.register_forward_hook(lambda *a: seen.append("usual"))
    broken.register_forward_hook(lambda m, args, out: seen.append((args, out)), always_call=True)
    broken.register_forward_hook(lambda *a: 1 / 0, always_call=True)
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="broken"):
        broken(3)
    assert seen == [((3,), None)]


def test_an_always_called_hook_runs_once(layer, torch):
    seen = []
    layer.register_forward_hook(lambda *a: seen.append("always"), always_call=True)
    layer.register_forward_hook(lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        layer(torch.zeros(1, 2))
    assert seen == ["always"]


def test_a_hook_may_remove_itself(torch, layer):
    seen = []

    def once(*args):
        seen.append("once")
        handle.remove()

    handle = layer.register_forward_hook(once)
    layer.register_forward_hook(lambda *a: seen.append("always"))
    layer(torch.zeros(1, 2))
    layer(torch.zeros(1, 2))
    assert seen == ["once", "always", "always"]


# ---- backward
def test_backward_hooks_see_gradients(torch, layer):
    seen = []
    layer.register_full_backward_pre_hook(lambda module, out: seen.append(("pre", module, out)))
    layer.register_full_backward_hook(lambda module, into, out: seen.append(("full", into, out)))
    x = torch.tensor([[5.0, 7.0]], requires_grad=True)
    layer(x).backward(torch.tensor([[1.0, 10.0]]))
    assert [entry[0] for entry in seen] == ["pre", "full"] and seen[0][1] is layer
    assert seen[0][2][0].tolist() == seen[1][2][0].tolist() == [[1, 10]]
    assert seen[1][1][0].tolist() == [[31, 42]] == x.grad.tolist()
    assert layer.weight.grad.tolist() == [[5, 7], [50, 70]]


def test_backward_hooks_replace_gradients(torch, layer):
    layer.register_full_backward_pre_hook(lambda module, out: (out[0] * 2,))
    layer.register_full_backward_hook(lambda module, into, out: (into[0] + 1,))
    x = torch.tensor([[5.0, 7.0]], requires_grad=True)
    layer(x).backward(torch.tensor([[1.0, 10.0]]))
    assert x.grad.tolist() == [[63, 85]] and layer.weight.grad.tolist() == [[10, 14], [100, 140]]


def test_backward_hooks_twice_through_one_graph(torch, layer):
    seen = []
    layer.register_full_backward_hook(lambda module, into, out: seen.append(out[0].tolist()))
    x = torch.ones(1, 2, requires_grad=True)
    y = layer(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [[[1, 1]]] * 2


def test_inputs_that_are_no_tensors_or_need_no_gradient(torch, nn):
    class Many(nn.Module):
        def forward(self, a, k, b):
            return a * k, b * 2

    many = Many()
    seen = []
    many.register_full_backward_hook(lambda module, into, out: seen.append((into, out)))
    a, b = torch.ones(1, requires_grad=True), torch.ones(1)
    first, second = many(a, 3, b)
    assert first.requires_grad and not second.requires_grad
    first.sum().backward()
    into, out = seen[0]
    assert into[0].item() == 3 and into[1] is None and into[2].item() == 0 and out[0].item() == 1


def test_no_input_needs_a_gradient(torch, layer):
    seen = []
    layer.register_full_backward_hook(lambda module, into, out: seen.append((into, out[0].tolist())))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        layer(torch.ones(1, 2)).sum().backward()
    assert seen == [((None,), [[1, 1]])] and layer.weight.grad.tolist() == [[1, 1], [1, 1]]


def test_backward_hooks_are_silent_without_a_graph(torch, layer):
    layer.register_full_backward_hook(lambda *a: 1 / 0)
    with torch.no_grad():
        assert not layer(torch.ones(1, 2, requires_grad=True)).requires_grad


def test_wrong_answers_of_backward_hooks(torch, layer):
    layer.register_full_backward_hook(lambda module, into, out: (into[0], into[0]))
    x = torch.ones(1, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"hook.*2.*1"):
        layer(x).sum().backward()


def test_second_derivatives_flow_through_hooks(torch, nn):
    class Cube(nn.Module):
        def forward(self, x):
            return x * x * x

    cube = Cube()
    cube.register_full_backward_hook(lambda module, into, out: (into[0] * 2,))
    x = torch.tensor(2.0, requires_grad=True)
    (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
    assert g.item() == 24
    (h,) = torch.autograd.grad(g, x)
    assert h.item() == 24


# ---- every module
def test_hooks_on_every_module(torch, nn, everywhere):
    seen = []
    net = nn.Sequential(nn.Identity(), nn.Tanh())
    everywhere("forward_pre", lambda module, args: seen.append(("pre", type(module).__name__)))
    everywhere("forward", lambda module, args, out: seen.append(("post", type(module).__name__)))
    net(torch.zeros(1))
    assert seen == [
        ("pre", "Sequential"), ("pre", "Identity"), ("post", "Identity"),
        ("pre", "Tanh"), ("post", "Tanh"), ("post", "Sequential"),
    ]  # fmt: skip


def test_backward_hooks_on_every_module(torch, nn, everywhere):
    seen = []
    everywhere("full_backward", lambda module, into, out: seen.append(type(module).__name__))
    everywhere("full_backward_pre", lambda module, out: seen.append("before " + type(module).__name__))
    nn.Sequential(nn.Tanh(), nn.Sigmoid())(torch.zeros(1, requires_grad=True)).sum().backward()
    assert seen == ["before Sequential", "before Sigmoid", "Sigmoid", "before Tanh", "Tanh", "Sequential"]


# ---- handles
def test_a_handle_does_not_keep_the_module(nn):
    module = nn.Identity()
    handle = module.register_forward_hook(lambda *a: None)
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
    handle.remove()


def marked(module, args, output):
    return "marked"


def test_hooks_are_pickled_and_their_handles_still_remove_them(nn):
    module = nn.Identity()
    handle = module.register_forward_hook(marked)
    module, handle = pickle.loads(pickle.dumps((module, handle)))
    assert module(1) == "marked"
    handle.remove()
    assert module(1) == 1


def test_old_backward_hooks(torch, nn, layer):
    seen = []
    handle = layer.register_backward_hook(lambda module, into, out: seen.append((module, into, out)))
    x = torch.ones(1, 2, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer(x).sum().backward()
    assert seen[0][0] is layer and seen[0][2][0].tolist() == [[1, 1]]
    with pytest.raises(RuntimeError, match=r"exclude|Cannot use both"):
        layer.register_full_backward_hook(lambda *a: None)
    handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 1
    full = nn.Linear(2, 2)
    full.register_full_backward_hook(lambda *a: None)
    with pytest.raises(RuntimeError, match=r"exclude|Cannot use both"):
        full.register_backward_hook(lambda *a: None)


def test_old_backward_hooks_replace_and_warn(torch, nn):
    class Twice(nn.Module):
        def forward(self, x):
            return (x * 3).exp()

    module = Twice()
    module.register_backward_hook(lambda module, into, out: (into[0] * 2,))
    x = torch.zeros(1, requires_grad=True)
    with pytest.warns(FutureWarning):
        y = module(x)
    y.backward()
    assert x.grad.tolist() == [6.0]


def test_hooks_of_registration(torch, nn, backend):
    module = importlib.import_module(backend + ".nn.modules.module")
    seen = []

    def note(kind):
        return lambda owner, name, value: seen.append((kind, name, type(value).__name__))

    handles = [getattr(module, f"register_module_{kind}_registration_hook")(note(kind))
               for kind in ("parameter", "buffer", "module")]  # fmt: skip
    try:
        norm = nn.BatchNorm1d(2)
        norm.child = nn.ReLU()
        norm.extra = nn.Parameter(torch.ones(1))
        norm.running_mean = torch.ones(2)
        replace = module.register_module_module_registration_hook(lambda owner, name, value: nn.Tanh())
        norm.child = nn.ReLU()
        assert type(norm.child) is nn.Tanh
        replace.remove()
    finally:
        for handle in handles:
            handle.remove()
    assert [s[:2] for s in seen[:7]] == [
        ("parameter", "weight"), ("parameter", "bias"), ("buffer", "running_mean"), ("buffer", "running_var"),
        ("buffer", "num_batches_tracked"), ("module", "child"), ("parameter", "extra"),
    ]  # fmt: skip
    nn.ReLU()
    assert len(seen) == 9

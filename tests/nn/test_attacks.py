"""Optimizers whose parameters or state were tampered with: refused, or right, never a crash."""
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture(autouse=True)
def cygrad_alone(backend):
    """These are promises of this project; PyTorch crashes at some of them."""
    if backend != "cygrad":
        pytest.skip("the checks are of this project's own step")


def survives(program):
    """Run it in a process of its own; what it printed."""
    text = "import cygrad as torch\n" + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", text], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


SETUP = """
        x = torch.nn.Parameter(torch.ones(8))
        optimizer = torch.optim.{kind}
        x.grad = torch.ones(8)
        optimizer.step()
        before = x.tolist()
"""

TAMPERED = {
    "a parameter is None": ("SGD([x], lr=0.1)", "optimizer.param_groups[0]['params'].append(None)"),
    "a parameter is a number": ("Adam([x], lr=0.1)", "optimizer.param_groups[0]['params'].append(5)"),
    "moments are None": ("Adam([x], lr=0.1)", "optimizer.state[x]['exp_avg'] = None"),
    "the step is None": ("Adam([x], lr=0.1)", "optimizer.state[x]['step'] = None"),
    "the step has no element": ("Adam([x], lr=0.1)", "optimizer.state[x]['step'] = torch.zeros(0)"),
    "the step is read-only": ("Adam([x], lr=0.1)",
                              "optimizer.state[x]['step'] = torch.frombuffer(bytes(4), dtype=torch.float32)"),
    "moments lie in the parameter": ("Adam([x], lr=0.1)", "optimizer.state[x]['exp_avg'] = x.detach()"),
    "moments have another shape": ("SGD([x], lr=0.1, momentum=0.9)",
                                   "optimizer.state[x]['momentum_buffer'] = torch.zeros(3)"),
    "the parameter got another shape": ("SGD([x], lr=0.1)", "x.data = torch.ones(3); before = x.tolist()"),
    "the parameter got another dtype": ("SGD([x], lr=0.1)", "x.data = x.data.double()"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_tampered_step_is_refused_and_changes_nothing(what):
    kind, change = TAMPERED[what]
    assert survives(SETUP.format(kind=kind) + f"""
        {change}
        try:
            optimizer.step()
        except (RuntimeError, TypeError, AttributeError):
            print(x.tolist() == before)
    """) == "True\n"


def test_parameters_added_while_the_step_reads_its_state():
    survives(SETUP.format(kind="Adam([x], lr=0.1)") + """
        more = [torch.nn.Parameter(torch.ones(8)) for _ in range(2000)]
        for p in more:
            p.grad = torch.ones(8)
        class Grows(dict):
            def __getitem__(self, key):
                optimizer.param_groups[0]["params"].extend(more)
                more.clear()
                return dict.__getitem__(self, key)
        optimizer.state[x] = Grows(optimizer.state[x])
        try:
            optimizer.step()
        except RuntimeError:
            pass
    """)


@pytest.mark.parametrize("kind", ["Adam", "SGD", "Adagrad"])
@pytest.mark.parametrize("owner", ["parameter", "gradient"])
def test_memory_replaced_while_the_step_reads_its_state(kind, owner):
    """A state of the user's own may do anything when it is read: the step writes what it has looked at, or nothing."""
    options = "lr=0.1, momentum=0.9" if kind == "SGD" else "lr=0.1"
    assert survives(f"""
        first, second = (torch.nn.Parameter(torch.ones(100_000)) for _ in range(2))
        optimizer = torch.optim.{kind}([first, second], {options})
        for _ in range(2):
            first.grad, second.grad = torch.ones(100_000), torch.ones(100_000)
            optimizer.step()
        before = first[0].item(), second[0].item()

        class Replaces(dict):
            def read(self):
                target = first if "{owner}" == "parameter" else first.grad
                target.data = target.detach().clone()
                rubbish = [torch.zeros(100_000) for _ in range(4)]
            def __getitem__(self, key):
                self.read()
                return dict.__getitem__(self, key)
            def get(self, *key):
                self.read()
                return dict.get(self, *key)

        own = Replaces(optimizer.state[second])
        optimizer.state[second] = own
        try:
            optimizer.step()
        except RuntimeError as error:
            print("was replaced" in str(error), before == (first[0].item(), second[0].item()))
    """) == "True True\n"


def test_a_refused_step_leaves_no_state_behind():
    """A momentum that nothing was written to would be taken for one at the next step."""
    assert survives("""
        with torch.inference_mode():
            x = torch.nn.Parameter(torch.ones(3))
        x.grad = torch.ones(3)
        optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9)
        try:
            optimizer.step()
        except RuntimeError:
            print(len(optimizer.state))
    """) == "0\n"


@pytest.mark.parametrize("size", [10, 100_000])
def test_overlapping_parameters_are_updated_one_after_the_other(size):
    assert survives(f"""
        whole = torch.arange({size} + 1).float() / {size}
        wanted = whole.clone()
        a, b = torch.nn.Parameter(whole[:-1]), torch.nn.Parameter(whole[1:])
        a.grad, b.grad = torch.ones({size}), torch.ones({size})
        torch.optim.SGD([a, b], lr=0.5, weight_decay=0.5).step()
        for part in (wanted[:-1], wanted[1:]):
            part -= 0.5 * (1 + 0.5 * part)
        print((whole - wanted).abs().max().item() < 1e-6)
    """) == "True\n"


def test_a_gradient_in_shifted_memory_of_its_parameter_is_read_before_it_is_written():
    assert survives("""
        whole = torch.arange(1001).float()
        wanted = whole[1:] - 0.1 * whole[:-1]
        x = torch.nn.Parameter(whole[1:])
        x.grad = whole[:-1]
        torch.optim.SGD([x], lr=0.1).step()
        print((x.detach() - wanted).abs().max().item() < 1e-3)
    """) == "True\n"


def test_a_step_in_a_forked_child_ends():
    assert survives("""
        import os
        import signal
        torch.set_num_threads(2)
        x = torch.nn.Parameter(torch.ones(500_000))
        x.grad = torch.ones(500_000)
        optimizer = torch.optim.SGD([x], lr=0.1)
        optimizer.step()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            optimizer.step()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
    """) == "0\n"


@pytest.mark.parametrize("name", [
    "linear(None, x)", "linear(x, None)", "linear(x, x, 1.0)", "relu(None)", "relu_(None)", "sigmoid(None)",
    "tanh(None)", "gelu(None)", "softmax(1, 0)", "softmin([1.0], 0)", "log_softmax(0)", "dropout(1.0)",
    "l1_loss(x, True)", "mse_loss(1, x)", "mse_loss(x, x, weight=1)", "nll_loss(x, 1)", "nll_loss(x, y, 1)",
    "cross_entropy(x, y, [1.0, 1.0])", "pad(1, (1, 1))",
])
def test_a_function_names_what_is_no_tensor(torch, name):
    names = vars(torch.nn.functional) | {"x": torch.ones(2, 2), "y": torch.tensor([0, 1])}
    with pytest.raises(TypeError, match=r"Tensor.*, not (NoneType|float|int|list|bool)"):
        eval(name, names)


@pytest.mark.parametrize("name", ["uniform_", "normal_", "ones_", "zeros_", "eye_", "dirac_", "xavier_uniform_",
                                  "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"])
def test_what_is_no_tensor_is_not_initialised(torch, name):
    with pytest.raises(TypeError, match="'tensor' must be Tensor, not int"):
        getattr(torch.nn.init, name)(1)


def test_the_defaults_of_an_optimizer_are_a_dict(torch):
    with pytest.raises(TypeError, match="dict, got str"):
        torch.optim.Optimizer([torch.ones(1)], "lr")


@pytest.mark.parametrize("call", [
    lambda torch, x, much: torch.autograd.backward([x.sum(), x.sum()], much),
    lambda torch, x, much: torch.autograd.grad([x.sum(), x.sum()], [x], much),
    lambda torch, x, much: torch.nn.functional.adaptive_avg_pool1d(x, much),
    lambda torch, x, much: torch.nn.functional.adaptive_max_pool2d(x, much),
    lambda torch, x, much: torch.array_api.tile(x, much),
])
def test_lengths_are_looked_at_before_items(torch, call):
    """A sequence of more items than there is memory for is refused for its length, not for want of memory."""
    x = torch.ones(1, 2, 4, requires_grad=True)
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        call(torch, x, range(2**62))
    assert x.grad is None

"""Strict mode turns silent accidents into errors that explain, and lets each pass where that is asked for."""

import copy
import pickle
import re
import threading
import warnings

import pytest

import cygrad as torch
from cygrad import nn
from cygrad.autograd import StrictError, is_strict_enabled, set_strict, strict
from cygrad.nn import functional as F

DOUBLE = torch.float64


def refusal(kind, program, *args):
    """The message of a program's refusal; the same program runs with this kind allowed, and outside of strict mode."""
    with pytest.raises(StrictError) as caught, strict():
        program(*args)
    assert caught.value.kind == kind
    assert f"autograd.strict.allow('{kind}')" in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with strict(), strict.allow(kind):
            program(*args)
        program(*args)
    return str(caught.value)


def fine(program):
    with strict():
        return program()


# ---- broadcast ------------------------------------------------------------------------------------------------------

LOSSES = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(4,), (1,), (4, 2)])
def test_a_loss_of_other_shapes(loss, shape):
    text = refusal("broadcast", lambda: loss(torch.zeros(4, 1), torch.ones(shape)))
    assert loss.__name__ in text
    assert str(list(shape)) in text
    assert "[4, 1]" in text


@pytest.mark.parametrize("module", [nn.MSELoss, nn.L1Loss])
def test_a_loss_module(module):
    refusal("broadcast", lambda: module()(torch.zeros(4, 1), torch.ones(4)))


OPERATIONS = {
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "where": lambda a, b: torch.where(torch.tensor(True), a, b),
    "maximum": torch.maximum,
    "atan2": torch.atan2,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_two_operands_that_are_both_expanded(name):
    text = refusal("broadcast", OPERATIONS[name], torch.ones(4, 1), torch.ones(4))
    assert text.startswith(f"{name}: operands of shapes")
    assert "[4, 1] and [4] are expanded both, to [4, 4]" in text or name == "where"


def test_what_is_meant_passes():
    x = torch.ones(3, 4)
    fine(lambda: x + torch.ones(4))  # one operand has the result's shape
    fine(lambda: x * torch.ones(3, 1) * 2.0)
    fine(lambda: torch.ones(3, 1) - torch.ones(1, 1))
    fine(lambda: torch.ones(3, 1).expand(3, 4) * torch.ones(4))
    fine(lambda: torch.zeros(()) + torch.ones(3))
    fine(lambda: F.mse_loss(x, x + 1))


def test_broadcasting_of_cygrads_own_code_passes():
    x = torch.randn(5, 4, requires_grad=True)
    with strict():
        torch.cdist(x, torch.randn(3, 4)).sum().backward()
        nn.LayerNorm(4)(x).sum().backward()
        F.cross_entropy(x, torch.zeros(5, dtype=torch.int64)).backward()
        (x / x.norm(dim=1, keepdim=True)).sum().backward()
        torch.corrcoef(x.detach())


# ---- narrowing ------------------------------------------------------------------------------------------------------

def assign(x, v):
    x[1:] = v[1:]


def put(x, v):
    x.fill_(v[0])


WRITES = {
    "copy_": lambda x, v: x.copy_(v),
    "add_": lambda x, v: x.add_(v),
    "mul_": lambda x, v: x.mul_(v),
    "x[...] = value": assign,
    "fill_": put,
    "out=": lambda x, v: torch.add(v, v, out=x),
    "to(other)": lambda x, v: v.to(x),
}
PAIRS = [
    (torch.float32, DOUBLE),
    (torch.float16, torch.float32),
    (torch.int32, torch.int64),
    (torch.float16, torch.bfloat16),
]


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize(("narrow", "wide"), PAIRS, ids=str)
def test_values_that_lose_digits(name, narrow, wide):
    text = refusal("narrowing", lambda: WRITES[name](torch.ones(3, dtype=narrow), torch.ones(3, dtype=wide)))
    assert str(narrow) in text
    assert str(wide) in text


def test_floats_into_integers():
    refusal("narrowing", lambda: torch.zeros(3, dtype=torch.int64).copy_(torch.ones(3)))


def test_numbers_wider_targets_and_asked_for_casts_pass():
    x = torch.zeros(3)
    fine(lambda: x.add_(0.1))
    fine(lambda: x.fill_(2.5))
    fine(lambda: torch.zeros(3, dtype=DOUBLE).copy_(x))
    fine(lambda: x.add_(torch.ones(3, dtype=torch.int64)))
    fine(lambda: torch.ones(3, dtype=DOUBLE).float())
    fine(lambda: torch.ones(3, dtype=DOUBLE).to(torch.float32))
    fine(lambda: x.mul_(torch.tensor([True, False, True])))


def test_nothing_is_written_when_it_is_refused():
    x = torch.zeros(3)
    with pytest.raises(StrictError), strict():
        x.copy_(torch.ones(3, dtype=DOUBLE))
    assert x.tolist() == [0, 0, 0]
    assert x._version == 0


# ---- gradients ------------------------------------------------------------------------------------------------------

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 1)
        self.spare = nn.Linear(2, 2)
        self.cut = False

    def forward(self, x):
        h = self.first(x)
        return self.second(h.detach() if self.cut else h)


def trained(net, params, cut=False):
    net.cut = cut
    optimizer = torch.optim.SGD(params, lr=0.1)
    net(torch.ones(2, 3)).sum().backward()
    optimizer.step()


def test_an_unused_parameter():
    def program():
        net = Net()
        trained(net, net.named_parameters())

    text = refusal("unused", program)
    assert text.startswith("SGD.step(): 2 of the parameters that require grad got none. spare.weight, of shape [2, 2]")
    assert "was used by no operation" in text
    assert "spare.bias" in text


def test_a_gradient_that_no_path_reaches():
    def program():
        net = Net()
        trained(net, [*net.first.parameters(), *net.second.parameters()], cut=True)

    text = refusal("no_gradient", program)
    assert "parameter 0 of group 0, of shape [4, 3], was used, first at " in text
    assert "h = self.first(x) (in Linear)" in text
    assert "detach()" in text


def test_backward_checks_the_parameters_given():
    net = Net()
    with strict(net), pytest.raises(StrictError, match=r"^backward\(\): 2 of the parameters .* spare.weight"):
        net(torch.ones(2, 3)).sum().backward()
    with strict([("first", net.first.weight), net.second.weight]):
        net(torch.ones(2, 3)).sum().backward()
    net(torch.ones(2, 3)).sum().backward()


def test_a_step_without_backward():
    def program():
        optimizer = torch.optim.Adam(nn.Linear(2, 1).parameters())
        optimizer.step()

    assert "backward() was not called since zero_grad()" in refusal("no_gradient", program)


def test_frozen_parameters_and_whole_training_pass():
    net = Net()
    net.spare.requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters())
    with strict(net.first):
        for _ in range(3):
            optimizer.zero_grad()
            F.mse_loss(net(torch.ones(2, 3)), torch.zeros(2, 1)).backward()
            optimizer.step()


def test_a_closure_is_looked_at_when_it_has_run():
    net = Net()
    net.spare.requires_grad_(False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(2, 3)).sum()
        loss.backward()
        return loss

    with strict():
        optimizer.step(closure)


# ---- state ----------------------------------------------------------------------------------------------------------

def stepped():
    net = nn.Linear(2, 1)
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return net, optimizer


def shared_with_a_dict(net, optimizer):
    return {"best": optimizer.state[net.weight]["exp_avg"]}


def shared_memory(net, optimizer):
    return optimizer.state[net.weight]["exp_avg"].detach()


def shared_optimizer(net, optimizer):
    other = torch.optim.Adam(net.parameters())
    other.state[net.weight] = dict(optimizer.state[net.weight])
    return other


@pytest.mark.parametrize("share", [shared_with_a_dict, shared_memory, shared_optimizer])
def test_a_state_that_others_hold(share):
    def program():
        net, optimizer = stepped()
        other = share(net, optimizer)
        optimizer.step()
        return other

    text = refusal("shared_state", program)
    assert re.match(r"Adam\.step\(\): the state '\w+' of parameter 0 of group 0 is shared with another object", text)


def test_copies_of_the_state_pass():
    net, optimizer = stepped()
    with strict():
        saved = optimizer.state_dict()
        other = torch.optim.Adam(net.parameters())
        other.load_state_dict(saved)
        twin = copy.deepcopy(optimizer)
        optimizer.step()
        other.step()
    assert len(twin.state) == 2


# ---- the mode -------------------------------------------------------------------------------------------------------

def test_the_switch_and_the_thread():
    assert not is_strict_enabled()
    set_strict(True)
    try:
        assert is_strict_enabled()
        with pytest.raises(StrictError):
            torch.ones(4, 1) - torch.ones(4)
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(is_strict_enabled()))
        thread.start()
        thread.join()
        assert elsewhere == [False]
    finally:
        set_strict(False)
    torch.ones(4, 1) - torch.ones(4)


def test_nesting():
    with strict():
        with strict():
            pass
        assert is_strict_enabled()
        with strict.allow("broadcast"), strict.allow("narrowing"):
            (torch.zeros(4, 1) - torch.ones(4)).copy_(torch.ones(4, dtype=DOUBLE))
        with pytest.raises(StrictError), strict.allow("narrowing"):
            torch.zeros(4, 1) - torch.ones(4)
    assert not is_strict_enabled()


def test_wrong_arguments():
    with pytest.raises(ValueError, match="unknown kind 'all'"):
        strict.allow("all")
    with pytest.raises(TypeError, match="set_strict"):
        set_strict(1)
    with pytest.raises(TypeError, match="must be Tensors or"):
        strict([3])


def test_the_error_is_a_runtime_error_that_can_be_pickled():
    with pytest.raises(RuntimeError) as caught, strict():
        torch.ones(4, 1) - torch.ones(4)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_results_do_not_change():
    torch.manual_seed(0)
    x = torch.randn(4, 4, requires_grad=True)
    y = (x.softmax(1).log() * x.t() + x[0]).std(0).sum()
    y.backward()
    plain, x.grad = x.grad, None
    with strict():
        again = (x.softmax(1).log() * x.t() + x[0]).std(0).sum()
        again.backward()
    assert torch.equal(y, again)
    assert torch.equal(plain, x.grad)

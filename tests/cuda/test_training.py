"""Models train on a device as on the CPU: the same losses in float64, for each kind of layer and each optimiser."""

import pickle
from collections import OrderedDict, defaultdict, namedtuple
from types import MappingProxyType

import pytest

import cygrad
from cygrad import nn, optim
from cygrad.nn import functional as F
from cygrad.utils.data import DataLoader

pytestmark = pytest.mark.usefixtures("any_devices")


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.layer(self.words((x[:, :5].abs() * 3).long() % 11)).mean(1))


class Steps(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(4, 5)
        self.out = nn.Linear(5, 3)

    def forward(self, x):
        state = None
        for i in range(3):
            state = self.cell(x[:, 4 * i : 4 * i + 4], state)
        return self.out(state[0] if isinstance(state, tuple) else state)


MODELS = {
    "linear": lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3)),
    "norms": lambda: nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Unflatten(1, (4, 4)),
                                   nn.GroupNorm(2, 4), nn.Flatten(), nn.RMSNorm(16), nn.Linear(16, 3)),
    "activations": lambda: nn.Sequential(nn.Linear(12, 8), nn.SiLU(), nn.Linear(8, 8), nn.Tanh(), nn.Softplus(),
                                         nn.ELU(), nn.PReLU(), nn.Hardswish(), nn.Linear(8, 3), nn.LogSoftmax(1)),
    "convolutions": lambda: nn.Sequential(nn.Unflatten(1, (1, 3, 4)), nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4),
                                          nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1),
                                          nn.Flatten()),
    "one dimension": lambda: nn.Sequential(nn.Unflatten(1, (2, 6)), nn.Conv1d(2, 4, 3, stride=2, padding=1, bias=False),
                                           nn.BatchNorm1d(4), nn.AvgPool1d(3), nn.Flatten(), nn.Linear(4, 3)),
    "transposed": lambda: nn.Sequential(nn.Unflatten(1, (3, 2, 2)), nn.ConvTranspose2d(3, 2, 2, stride=2), nn.Flatten(),
                                        nn.Linear(32, 3)),
    "attention": Attending,
    "lstm cell": lambda: Steps(nn.LSTMCell),
    "gru cell": lambda: Steps(nn.GRUCell),
}  # fmt: skip


def run(device, model, make, steps=4):
    """Losses of a few steps, and what the parameters are then."""
    cygrad.manual_seed(0)
    net = model().double().to(device)
    optimizer = make(net.parameters())
    generator = cygrad.Generator().manual_seed(1)
    x = cygrad.randn(6, 12, generator=generator, dtype=cygrad.float64).to(device)
    y = cygrad.randint(0, 3, (6,), generator=generator).to(device)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        return loss

    for _ in range(steps):
        loss = closure()
        optimizer.step(*([closure] if isinstance(optimizer, optim.LBFGS) else []))
        losses.append(loss.item())
    assert all(p.device.type == device for p in net.parameters())
    assert all(v.device.type == device for s in optimizer.state.values() for v in s.values()
               if isinstance(v, cygrad.Tensor) and v.ndim)  # fmt: skip
    return losses, [p.detach().cpu() for p in net.parameters()]


def compare(model, make):
    near, far = run("cpu", model, make), run("cuda", model, make)
    assert far[0] == pytest.approx(near[0], rel=1e-9)
    for a, b in zip(near[1], far[1], strict=True):
        cygrad.testing.assert_close(b, a, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_layers(name):
    compare(MODELS[name], lambda p: optim.SGD(p, lr=0.1, momentum=0.9))


OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01, nesterov=True, momentum=0.5),
    "adam": lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "adadelta": lambda p: optim.Adadelta(p),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "adamax": lambda p: optim.Adamax(p),
    "asgd": lambda p: optim.ASGD(p),
    "nadam": lambda p: optim.NAdam(p),
    "radam": lambda p: optim.RAdam(p),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
    "lbfgs": lambda p: optim.LBFGS(p, max_iter=3),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers(name):
    compare(MODELS["linear"], OPTIMISERS[name])


@pytest.mark.parametrize("name", [n for n in OPTIMISERS if n != "lbfgs"])
@pytest.mark.usefixtures("two_devices")
def test_one_step_updates_parameters_of_several_devices(name):
    def steps(devices):
        leaves = [cygrad.full((3,), k + 1.0, device=d, requires_grad=True) for k, d in enumerate(devices)]
        optimizer = OPTIMISERS[name](leaves)
        for k in range(3):
            for leaf in leaves:
                leaf.grad = leaf.detach() * (k + 1)
            optimizer.step()
        assert [str(leaf.device) for leaf in leaves] == devices
        return [leaf.tolist() for leaf in leaves]

    apart = steps(["cuda:0", "cpu", "cuda:1", "cpu", "cuda:0", "cuda:1"])
    for one, other in zip(apart, steps(["cpu"] * 6), strict=True):
        assert one == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_parameters_in_each_others_memory_are_updated_one_after_another(device):
    whole = cygrad.arange(40000.0, device=device)
    leaves = [whole[:30000].requires_grad_(), whole[10000:].requires_grad_(), whole[5000:35000].requires_grad_()]
    for leaf in leaves:
        leaf.grad = cygrad.ones_like(leaf)
    optim.SGD(leaves, lr=1.0).step()
    times = (cygrad.arange(40000.0) - whole.detach().cpu()).tolist()
    assert times[0] == 1 and times[7000] == 2 and times[20000] == 3 and times[32000] == 2 and times[39999] == 1


def test_halves_train_with_a_scaler_of_ones():
    net = nn.Linear(4, 2, device="cuda", dtype=cygrad.bfloat16)
    loss = net(cygrad.ones(3, 4, device="cuda", dtype=cygrad.bfloat16)).square().mean()
    loss.backward()
    assert net.weight.grad.is_cuda and net.weight.grad.dtype is cygrad.bfloat16


def test_dropout_draws_on_the_device():
    cygrad.manual_seed(5)
    x = cygrad.ones(1000, device="cuda", requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert 0.6 < float((y > 0).float().mean()) < 0.9 and x.grad.tolist() == y.tolist()
    cygrad.manual_seed(5)
    assert F.dropout(cygrad.ones(1000, device="cuda"), 0.25).tolist() == y.tolist()


def test_checkpoint_of_a_training_goes_on(tmp_path):
    net = MODELS["linear"]().cuda()
    optimizer = optim.Adam(net.parameters())
    F.mse_loss(net(cygrad.ones(2, 12, device="cuda")), cygrad.zeros(2, 3, device="cuda")).backward()
    optimizer.step()
    cygrad.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    again = MODELS["linear"]().cuda()
    other = optim.Adam(again.parameters())
    found = cygrad.load(tmp_path / "x.pt", map_location="cpu")
    again.load_state_dict(found["net"])
    other.load_state_dict(found["optimizer"])
    assert all(a.tolist() == b.tolist() for a, b in zip(net.parameters(), again.parameters(), strict=True))
    assert all(s["exp_avg"].is_cuda for s in other.state.values())


def test_batches_keep_their_containers_when_they_are_brought_to_the_model():
    Pair = namedtuple("Pair", "x flag")
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(2, 1)

        def forward(self, *inputs):
            seen.append(inputs)
            return self.rnn(inputs[0])[1][0]

    packed = nn.utils.rnn.pack_sequence([cygrad.ones(2, 2), cygrad.ones(3, 2)], enforce_sorted=False)
    near = cygrad.ones(2)
    words = defaultdict(list, a=near)
    fixed = MappingProxyType({"a": near})
    inputs = [packed, Pair(near, "flag"), (near, (1,)), OrderedDict(a=near), words, fixed, [near]]
    loss = nn.training.evaluate(Model(), F.mse_loss, [[*inputs, cygrad.zeros(2, 1)]])["loss"]
    model = Model().cuda()
    assert nn.training.evaluate(model, F.mse_loss, [[*inputs, cygrad.zeros(2, 1)]])["loss"] != loss
    *_, found = seen
    assert [type(x) for x in found] == [type(x) for x in inputs]
    tensors = found[0].data, found[1].x, found[2][0], found[3]["a"], found[4]["a"], found[5]["a"], found[6][0]
    assert all(x.is_cuda for x in tensors) and found[1].flag == "flag" and found[2][1] is inputs[2][1]
    assert found[0].cpu().unsorted_indices.is_cpu and found[4]["new"] == [] and words == {"a": near}


def test_pinned_batches_keep_their_containers():
    batch = [defaultdict(list, a=cygrad.ones(2)), MappingProxyType({"a": cygrad.ones(2)}), (cygrad.ones(2), "text")]
    (found,) = DataLoader([batch], batch_size=None, collate_fn=lambda x: x, pin_memory=True)
    assert [type(x) for x in found] == [type(x) for x in batch] and found[0]["new"] == [] and "new" not in batch[0]
    assert found[0]["a"].is_pinned() and found[1]["a"].is_pinned() and found[2][0].is_pinned()


@pytest.mark.usefixtures("two_devices")
def test_pickled_lazy_layers_stay_where_they_are():
    for lazy in (nn.LazyLinear(2, device="cuda:1"), nn.LazyBatchNorm1d(device="cuda:1")):
        copied = pickle.loads(pickle.dumps(lazy))
        assert copied(cygrad.ones(3, 4, device="cuda:1")).device == copied.weight.device == cygrad.device("cuda:1")


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
@pytest.mark.usefixtures("two_devices")
def test_gradients_of_several_devices_are_cut_to_one_norm(order):
    def gradients(*places):
        made = [nn.Parameter(cygrad.zeros(2, dtype=d, device=p)) for d, p in zip(dtypes, places, strict=True)]
        for i, parameter in enumerate(made):
            parameter.grad = cygrad.tensor([i + 1.0, -2.0], dtype=parameter.dtype, device=parameter.device)
        return made

    dtypes = cygrad.float32, cygrad.float64, cygrad.float32
    near, far = gradients("cpu", "cpu", "cpu"), gradients("cuda:0", "cuda:1", "cpu")
    total = nn.utils.clip_grad_norm_(far, 0.5, order)
    assert total.device == cygrad.device("cuda:0")
    cygrad.testing.assert_close(total.cpu(), nn.utils.clip_grad_norm_(near, 0.5, order))
    for a, b in zip(near, far, strict=True):
        assert b.grad.device == b.device and b.grad.dtype is b.dtype
        cygrad.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-6, atol=0)

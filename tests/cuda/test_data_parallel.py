"""Batches cut into parts for two devices, and what comes back."""

from collections import namedtuple

import pytest

import cygrad
from cygrad import nn, optim
from cygrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("any_devices")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3, bias=False)
        self.last.weight = nn.Parameter(cygrad.linspace(-1, 1, 18, dtype=cygrad.float64).view(3, 6))
        self.double()
        self.seen = []

    def forward(self, x, scale=1.0, flag=None):
        current = str(cygrad.cuda.current_device()) if x.is_cuda else ""
        self.seen.append((str(x.device), len(x), current, cygrad.is_grad_enabled(), flag))
        return {"y": self.last(self.norm(self.first(x)).tanh()) * scale, "sizes": (x.sum(1), [x[:, :1]]), "none": None}


def make():
    cygrad.manual_seed(0)
    return Net()


def batch(n=6):
    return cygrad.linspace(-2, 2, n * 4, dtype=cygrad.float64).view(n, 4).roll(1, 1) ** 2


@pytest.mark.usefixtures("two_devices")
def test_a_call_uses_both_devices_and_gradients_meet():
    near, far = make().eval(), make().eval().cuda()
    model = nn.DataParallel(far)
    x, there = batch().requires_grad_(), batch().cuda().requires_grad_()
    expected, found = near(x), model(there, flag="named")
    assert sorted(far.seen) == [("cuda:0", 3, "0", True, "named"), ("cuda:1", 3, "1", True, "named")]
    assert str(found["y"].device) == "cuda:0" and found["none"] is None and isinstance(found["sizes"][1], list)
    for a, b in ((expected["y"], found["y"]), (expected["sizes"][0], found["sizes"][0]),
                 (expected["sizes"][1][0], found["sizes"][1][0])):  # fmt: skip
        cygrad.testing.assert_close(b.cpu(), a)
    expected["y"].square().sum().backward()
    found["y"].square().sum().backward()
    for a, b in [*zip(near.parameters(), far.parameters(), strict=True), (x, there)]:
        cygrad.testing.assert_close(b.grad.cpu(), a.grad)
    assert [n for n, _ in model.named_parameters()] == [f"module.{n}" for n, _ in far.named_parameters()]


@pytest.mark.usefixtures("two_devices")
def test_training_changes_the_module_and_the_buffers_of_the_first_device():
    far = make().cuda()
    model, optimizer = nn.DataParallel(far), optim.SGD(far.parameters(), 0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch(8))["y"], cygrad.zeros(8, 3, dtype=cygrad.float64, device="cuda"))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and int(far.norm.num_batches_tracked) == 5 and far.norm.running_mean.abs().sum() > 0
    with cygrad.no_grad(), cygrad.autocast("cuda", cygrad.bfloat16):
        y = nn.DataParallel(far.float().eval(), output_device=1)(batch().float())["y"]
    assert str(y.device) == "cuda:1" and y.dtype is cygrad.bfloat16 and not y.requires_grad
    assert far.seen[-1][3] is False


@pytest.mark.usefixtures("two_devices")
def test_fewer_examples_than_devices_and_one_device():
    far = make().eval().cuda()
    assert len(nn.DataParallel(far)(batch(1))["y"]) == 1 and far.seen == [("cuda:0", 1, "0", True, None)]
    one = nn.DataParallel(make().eval(), device_ids=[1])
    assert str(one(batch())["y"].device) == "cuda:1" and one.device_ids == [1]
    assert nn.parallel.data_parallel(far, batch(), ["cuda:0", 1], module_kwargs={"scale": 0.0})["y"].abs().sum() == 0


@pytest.mark.usefixtures("imitated_devices")
def test_without_a_device_the_module_is_called_as_it_is(monkeypatch):
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "0")
    model = nn.DataParallel(make().eval())
    assert model.device_ids == nn.DataParallel(make(), [0], 0).device_ids == [] and model(batch())["y"].is_cpu
    with pytest.raises(RuntimeError, match="no CUDA device"):
        nn.parallel.data_parallel(make(), batch())


@pytest.mark.usefixtures("two_devices")
def test_mistakes():
    with pytest.raises(RuntimeError, match=r"on device cuda:0 \(device_ids\[0\]\) but found one of them on .*: cpu"):
        nn.DataParallel(make())(batch())

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError(f"on {x.device}")

    with pytest.raises(ValueError, match="on cuda:0"):
        nn.DataParallel(Fails())(batch())
    with pytest.raises(ValueError, match="same number of keys"):
        nn.parallel.gather([{"a": cygrad.ones(1)}, {"b": cygrad.ones(1)}], 0)
    with pytest.raises(AttributeError, match="one process"):
        nn.parallel.DistributedDataParallel  # noqa: B018


@pytest.mark.usefixtures("two_devices")
def test_parts_and_results_of_all_kinds():
    Pair = namedtuple("Pair", "a b")
    x = cygrad.arange(5.0)
    parts = nn.parallel.scatter({"pair": Pair(x, "text"), "list": [x, (1, x)], "empty": ()}, [0, 1])
    assert [len(p["pair"].a) for p in parts] == [3, 2] and parts[1]["pair"].b == "text" and parts[0]["empty"] == ()
    assert str(parts[1]["list"][1][1].device) == "cuda:1"
    whole = nn.parallel.gather([Pair(p["pair"].a, p["list"][0]) for p in parts], "cpu")
    assert isinstance(whole, Pair) and whole.a.tolist() == whole.b.tolist() == x.tolist()
    with pytest.warns(UserWarning, match="unsqueeze and return a vector"):
        assert nn.parallel.gather([cygrad.tensor(1.0).cuda(), cygrad.tensor(2.0).cuda(1)], 1).tolist() == [1, 2]


@pytest.mark.usefixtures("two_devices")
def test_shared_parameters_stay_shared_in_copies():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).cuda()
    net[1].weight = net[0].weight
    copies = nn.parallel.replicate(net, [0, 1])
    assert copies[1][0].weight is copies[1][1].weight and str(copies[1][0].bias.device) == "cuda:1"
    results = [copies[1](cygrad.ones(1, 3, device="cuda:1")), copies[0](cygrad.ones(1, 3).cuda())]
    sum(y.sum().cpu() for y in results).backward()
    assert str(net[0].weight.grad.device) == "cuda:0" and net[0].bias.grad is not None
    detached = nn.parallel.replicate(net, [1], detach=True)[0]
    assert not detached[0].weight.requires_grad


@pytest.mark.usefixtures("two_devices")
def test_devices_are_numbers_and_the_current_one_has_no_name():
    both = nn.DataParallel(make(), [cygrad.device("cuda:1"), "cuda:0"], output_device="cuda:1")
    assert both.device_ids == [1, 0] and both.output_device == 1 and type(both.output_device) is int
    assert both.src_device_obj == cygrad.device("cuda:1")
    with cygrad.cuda.device(1):
        one = nn.DataParallel(make().eval(), ["cuda"])
        assert one.device_ids == [1] and str(one(batch())["y"].device) == "cuda:1"
        far = make().eval().cuda()
        assert str(nn.parallel.data_parallel(far, batch(), ["cuda", 0], "cuda")["y"].device) == "cuda:1"
        copy = nn.parallel.replicate(far, ["cuda"])[0]
        assert copy.norm.running_mean is far.norm.running_mean
    for call in (lambda: nn.DataParallel(make(), ["cpu"]), lambda: nn.DataParallel(make(), [0], "cpu")):
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            call()
    with pytest.raises(ValueError, match="must name a device"):
        nn.parallel.data_parallel(far, batch(), [])


@pytest.mark.parametrize("devices", [None, [0, 1]])
@pytest.mark.usefixtures("two_devices")
def test_parts_run_on_the_streams_and_in_the_modes_of_the_caller(devices):
    class Twice(nn.Module):
        def forward(self, x):
            seen[x.device.index] = cygrad.cuda.current_stream(), cygrad.is_autocast_cache_enabled()
            return x * 2

    seen, streams = {}, [cygrad.cuda.Stream(i) for i in (0, 1)]
    inputs = [cygrad.zeros(3, device=i) for i in (0, 1)]
    for stream in streams:
        stream.wait_stream(cygrad.cuda.default_stream(stream.device))
    with cygrad.cuda.stream(streams[1]), cygrad.cuda.stream(streams[0]):
        for x in inputs:
            x.add_(1)
        with cygrad.autocast("cuda", cache_enabled=False):
            results = nn.parallel.parallel_apply([Twice(), Twice()], inputs, devices=devices)
        assert [y.tolist() for y in results] == [[2] * 3] * 2 and cygrad.cuda.current_device() == 0
    assert seen == {i: (streams[i], False) for i in (0, 1)}
    before = cygrad.is_autocast_cache_enabled()
    cygrad.set_autocast_cache_enabled(False)
    try:
        nn.parallel.parallel_apply([Twice(), Twice()], inputs, devices=devices)
        assert not seen[0][1] and not seen[1][1] and not cygrad.is_autocast_cache_enabled()
    finally:
        cygrad.set_autocast_cache_enabled(before)

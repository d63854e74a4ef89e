"""Starting values: distributions, and PyTorch's very numbers for its seeds."""

import importlib
import math

import numpy as np
import pytest


@pytest.fixture
def init(backend):
    return importlib.import_module(backend + ".nn.init")


def test_constants(torch, init):
    w = torch.empty(2, 3)
    assert init.zeros_(w) is w and w.tolist() == [[0] * 3] * 2
    assert init.ones_(w).tolist() == [[1] * 3] * 2 and init.constant_(w, 2.5).tolist() == [[2.5] * 3] * 2
    assert init.eye_(w).tolist() == [[1, 0, 0], [0, 1, 0]]
    kernel = init.dirac_(torch.empty(4, 2, 3), groups=2)
    assert kernel.nonzero().tolist() == [[0, 0, 1], [1, 1, 1], [2, 0, 1], [3, 1, 1]]


def test_parameters_are_filled_without_a_graph(torch, nn, init):
    w = nn.Parameter(torch.empty(3, 3))
    for fill in (init.zeros_, init.ones_, init.eye_, init.uniform_, init.normal_, init.kaiming_uniform_,
                 init.kaiming_normal_, init.xavier_uniform_, init.xavier_normal_):  # fmt: skip
        assert fill(w) is w and w.is_leaf and w.requires_grad


@pytest.mark.parametrize(
    ("name", "arguments", "std"),
    [
        ("uniform_", (-1, 3), 4 / math.sqrt(12)),
        ("normal_", (1, 3), 3),
        ("xavier_uniform_", (2.0,), 2 * math.sqrt(2 / 700)),
        ("xavier_normal_", (), math.sqrt(2 / 700)),
        ("kaiming_uniform_", (), math.sqrt(2 / 300)),
        ("kaiming_uniform_", (1.0, "fan_out"), math.sqrt(1 / 400)),
        ("kaiming_normal_", (0, "fan_in", "relu"), math.sqrt(2 / 300)),
    ],
)
def test_spread(torch, init, seeded, name, arguments, std):
    w = getattr(init, name)(torch.empty(400, 300), *arguments)
    assert w.std().item() == pytest.approx(std, rel=0.02)


def test_fans_count_the_kernel(torch, init, seeded):
    w = init.kaiming_normal_(torch.empty(50, 20, 5, 4))
    assert w.std().item() == pytest.approx(math.sqrt(2 / 400), rel=0.03)


def test_sparse(torch, init, seeded):
    w = init.sparse_(torch.empty(10, 4), 0.25, std=2.0)
    assert [(column == 0).sum().item() for column in w.unbind(1)] == [3] * 4


def test_gains(init):
    assert init.calculate_gain("linear") == init.calculate_gain("conv2d") == init.calculate_gain("sigmoid") == 1
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / 1.0001)
    for bad in (("swish",), ("leaky_relu", "x"), ("leaky_relu", True)):
        with pytest.raises(ValueError):
            init.calculate_gain(*bad)


def test_bad_input_changes_nothing(torch, init):
    vector, matrix = torch.zeros(3), torch.zeros(3, 3)
    for bad in (lambda: init.xavier_uniform_(vector), lambda: init.kaiming_normal_(vector), lambda: init.eye_(vector),
                lambda: init.sparse_(vector, 0.5), lambda: init.dirac_(matrix),
                lambda: init.kaiming_uniform_(matrix, mode="fan")):  # fmt: skip
        with pytest.raises(ValueError):
            bad()
    with pytest.raises(ValueError):
        init.dirac_(torch.zeros(3, 1, 1), groups=2)
    with pytest.raises((ValueError, ZeroDivisionError)):     # the second is PyTorch's
        init.dirac_(torch.zeros(3, 0, 1), groups=0)
    assert vector.tolist() == [0] * 3 and matrix.tolist() == [[0] * 3] * 3


def test_nothing_to_fill(torch, init):
    with pytest.warns(UserWarning):
        init.kaiming_uniform_(torch.empty(0, 3))


@pytest.mark.parametrize("sizes", [(3, 5), (64, 128), (1, 1), (7, 0)])
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_linear_starts_with_torchs_weights(torch, nn, oracle, sizes):
    torch.manual_seed(0)
    ours = nn.Linear(*sizes)
    oracle.manual_seed(0)
    theirs = oracle.nn.Linear(*sizes)
    assert ours.weight.tolist() == theirs.weight.tolist() and ours.bias.tolist() == theirs.bias.tolist()


@pytest.mark.parametrize(
    "name", ["uniform_", "normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_draws_the_same_numbers(torch, init, oracle, name, dtype):
    torch.manual_seed(5)
    ours = getattr(init, name)(torch.empty(9, 6, dtype=getattr(torch, dtype)))
    oracle.manual_seed(5)
    theirs = getattr(oracle.nn.init, name)(oracle.empty(9, 6, dtype=getattr(oracle, dtype)))
    if "uniform" in name:
        assert ours.tolist() == theirs.tolist()
    else:  # logarithm and cosine of the normal numbers may differ in the last bits
        tolerance = 2e-6 if dtype == "float32" else 1e-14
        pairs = zip(ours.view(-1).tolist(), theirs.view(-1).tolist(), strict=True)
        assert max(abs(a - b) for a, b in pairs) < tolerance


@pytest.mark.parametrize("name, args, shape", [
    ("trunc_normal_", (), (3, 40)), ("trunc_normal_", (0.0, 1.0, -0.5, 3.0), (7,)),
    ("trunc_normal_", (0.5, 2.0, 0.0, 1.0), (33,)),
    ("trunc_normal_", (0.0, 0.1, -10.0, 10.0), (2, 2)), ("trunc_normal_", (5.0, 0.5, -1.0, 1.0), (20,)),
    ("orthogonal_", (), (4, 4)), ("orthogonal_", (2.0,), (3, 5)), ("orthogonal_", (), (5, 3)),
    ("orthogonal_", (), (4, 2, 3)),
    ("orthogonal_", (), (0, 3)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:mean is more")
def test_more_as_pytorch(torch, nn, oracle, name, args, shape, dtype):
    found = []
    for lib in (torch, oracle):
        lib.manual_seed(4)
        tensor = lib.nn.Parameter(lib.empty(*shape, dtype=getattr(lib, dtype)))
        assert getattr(lib.nn.init, name)(tensor, *args) is tensor
        found.append(tensor.detach().numpy())
        found.append(lib.rand(2).numpy())
    same = np.testing.assert_array_equal if name == "trunc_normal_" else np.testing.assert_allclose
    same(found[0], found[2], **({} if name == "trunc_normal_" else {"rtol": 1e-4, "atol": 1e-6}))
    np.testing.assert_array_equal(found[1], found[3])


def test_orthogonal_rows(torch, nn):
    w = nn.init.orthogonal_(torch.empty(3, 2, 4), gain=3.0).flatten(1)
    assert torch.allclose(w @ w.T, 9 * torch.eye(3), atol=1e-4)
    with pytest.raises(ValueError):
        nn.init.orthogonal_(torch.empty(3))


def test_old_names(torch, nn):
    for name in ("uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform",
                 "kaiming_normal", "orthogonal", "sparse"):  # fmt: skip
        tensor = torch.empty(2, 2, 2) if name == "dirac" else torch.empty(2, 2)
        args = (0.5,) if name in ("constant", "sparse") else ()
        with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
            assert getattr(nn.init, name)(tensor, *args) is tensor

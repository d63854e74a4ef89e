"""Layers and activations: values, gradients, text and errors."""

import math

import pytest


@pytest.fixture
def F(nn):
    return nn.functional


# ---- Linear
def test_the_chapters_linear_function(torch, F):
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=torch.float64)
    w = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], dtype=torch.float64)
    b = torch.tensor([0.01, 0.02], dtype=torch.float64)
    assert F.linear(x, w, b).tolist() == [pytest.approx([1.41, 3.22]), pytest.approx([3.21, 7.72])]
    assert F.linear(x, w).tolist() == [pytest.approx([1.4, 3.2]), pytest.approx([3.2, 7.7])]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (5, 3), (0, 3), (2, 4, 3), (2, 0, 3), (2, 3, 2, 3)])
def test_linear_for_any_number_of_dimensions(torch, nn, seeded, shape, bias):
    layer = nn.Linear(3, 2, bias=bias).double()
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    y = layer(x)
    assert y.shape == (*shape[:-1], 2)
    by_hand = (x.unsqueeze(-2) * layer.weight).sum(-1)
    by_hand = by_hand + layer.bias if bias else by_hand
    assert (y - by_hand).abs().sum().item() < 1e-12
    g = torch.randn(*y.shape, dtype=torch.float64)
    got = torch.autograd.grad(y, [x, *layer.parameters()], g)
    want = torch.autograd.grad(by_hand, [x, *layer.parameters()], g)
    assert all(a.shape == b.shape and (a - b).abs().sum().item() < 1e-12 for a, b in zip(got, want, strict=True))


def test_linear_of_a_transposed_input(torch, nn, seeded):
    layer = nn.Linear(3, 2).double()
    x = torch.randn(3, 4, 2, dtype=torch.float64).permute(2, 1, 0)
    assert (layer(x) - layer(x.contiguous())).abs().max().item() < 1e-14


@pytest.mark.parametrize("shape", [(2, 4), (4,), (2, 5, 4), ()])
def test_linear_refuses_other_sizes(torch, nn, shape):
    with pytest.raises(RuntimeError):
        nn.Linear(3, 2)(torch.zeros(shape))


def test_linear_text_and_state(nn):
    layer = nn.Linear(3, 2, bias=False)
    assert repr(layer) == "Linear(in_features=3, out_features=2, bias=False)"
    assert layer.bias is None and list(layer.state_dict()) == ["weight"]
    with pytest.raises(RuntimeError):
        nn.Linear(-1, 2)
    with pytest.warns(UserWarning):
        assert nn.Linear(0, 2).weight.shape == (2, 0)


# ---- activations
POINTS = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0]
CURVES = {
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}
SLOPES = {
    "relu": lambda x: float(x > 0),
    "tanh": lambda x: 1 - math.tanh(x) ** 2,
    "sigmoid": lambda x: CURVES["sigmoid"](x) * (1 - CURVES["sigmoid"](x)),
    "gelu": lambda x: (1 + math.erf(x / math.sqrt(2))) / 2 + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
}


@pytest.mark.parametrize("name", CURVES)
def test_activations(torch, nn, F, name):
    x = torch.tensor(POINTS, dtype=torch.float64, requires_grad=True)
    y = getattr(F, name)(x)
    assert y.tolist() == pytest.approx([CURVES[name](p) for p in POINTS], abs=1e-12)
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx([SLOPES[name](p) for p in POINTS], abs=1e-12)
    module = {"relu": "ReLU", "tanh": "Tanh", "sigmoid": "Sigmoid", "gelu": "GELU"}[name]
    assert getattr(nn, module)()(x).tolist() == y.tolist()


def test_gelu_by_tanh(torch, nn, F):
    x = torch.tensor(POINTS, dtype=torch.float64)
    want = [0.5 * p * (1 + math.tanh(math.sqrt(2 / math.pi) * (p + 0.044715 * p**3))) for p in POINTS]
    assert F.gelu(x, approximate="tanh").tolist() == pytest.approx(want, abs=1e-12)
    assert repr(nn.GELU("tanh")) == "GELU(approximate='tanh')" and nn.GELU("tanh")(x).tolist() == pytest.approx(want)
    with pytest.raises(RuntimeError, match="approximate"):
        F.gelu(x, approximate="best")


def test_relu_in_place(torch, nn, F):
    x = torch.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x and x.tolist() == [0, 2]
    assert F.relu_(x.neg_()) is x and x.abs().tolist() == [0, 0]
    with pytest.raises(RuntimeError):
        F.relu(torch.tensor([-1.0], requires_grad=True), inplace=True)
    assert repr(nn.ReLU(True)) == "ReLU(inplace=True)" and repr(nn.ReLU()) == "ReLU()"


def test_softmax_family(torch, nn, F):
    x = torch.tensor([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0]], dtype=torch.float64)
    total = sum(math.exp(v) for v in (1, 2, 3))
    first = [math.exp(v) / total for v in (1, 2, 3)]
    assert F.softmax(x, dim=1).tolist() == [pytest.approx(first), [1, 0, 0]]
    assert F.log_softmax(x, dim=1)[0].tolist() == pytest.approx([math.log(p) for p in first])
    assert F.log_softmax(x, dim=1)[1].tolist() == [0, -1000, -2000]
    assert F.softmin(-x, dim=1).tolist() == F.softmax(x, dim=1).tolist()
    assert nn.Softmax(dim=-1)(x).tolist() == F.softmax(x, 1).tolist()
    assert nn.LogSoftmax(0)(x).exp().sum(0).tolist() == pytest.approx([1, 1, 1])
    assert nn.Softmin(dim=1)(x).tolist() == F.softmax(-x, 1).tolist()
    assert F.softmax(torch.tensor([1, 2]), dim=0, dtype=torch.float64).dtype == torch.float64
    assert repr(nn.Softmax(dim=1)) == "Softmax(dim=1)"
    with pytest.raises(IndexError):
        F.softmax(x, dim=2)


@pytest.mark.parametrize(("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)])
def test_softmax_without_dim_warns(torch, F, shape, dim):
    x = torch.arange(math.prod(shape), dtype=torch.float32).view(shape)
    with pytest.warns(UserWarning, match="softmax"):
        assert F.softmax(x).tolist() == F.softmax(x, dim=dim).tolist()


# ---- layer normalisation
@pytest.mark.parametrize(
    ("shape", "sizes"), [((3, 5), (5,)), ((2, 3, 4), (3, 4)), ((4,), (4,)), ((7, 2, 1500), (1500,))])
def test_layer_norm_differentiated_three_times(torch, F, seeded, shape, sizes):
    """Each order against the same formula in single operations."""
    x, w, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in (shape, sizes, sizes))
    dims = tuple(range(-len(sizes), 0))

    def by_hand(x, w, b):
        centred = x - x.mean(dims, keepdim=True)
        return centred / ((centred * centred).mean(dims, keepdim=True) + 1e-5).sqrt() * w + b

    def orders(f):
        found = [f(x, w, b)]
        for power in (3, 2, 2):
            found.append(torch.autograd.grad(sum((y**power).sum() for y in found[-1:]), (x, w, b), create_graph=True))
            found[-1] = torch.cat([g.flatten() for g in found[-1]])
        return found

    for got, want in zip(orders(lambda *a: F.layer_norm(a[0], sizes, a[1], a[2])), orders(by_hand), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("wanted", ["xwb", "xw", "xb", "wb", "x", "w", "b"])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [((3, 5), (5,)), ((2, 3, 4), (3, 4)), ((4,), (4,)), ((41, 3, 1030), (1030,)), ((0, 4), (4,)), ((9, 0), (0,))],
)
def test_each_choice_of_gradients_of_layer_norm(torch, F, seeded, shape, sizes, wanted):
    """Some come from one loop, others from one each: all are those of the same formula in single operations."""
    dims = tuple(range(-len(sizes), 0))
    w, b, g = torch.rand(sizes) + 0.5, torch.rand(sizes), torch.randn(shape)
    x = torch.randn(*shape, 2)[..., 0]

    def by_hand(x, w, b):
        centred = x - x.mean(dims, keepdim=True)
        return centred / ((centred * centred).mean(dims, keepdim=True) + 1e-5).sqrt() * w + b

    def gradients(f, dtype):
        tensors = [t.to(dtype, copy=True) for t in (x, w, b)]
        for t, name in zip(tensors, "xwb", strict=True):
            t.requires_grad_(name in wanted)
        f(*tensors).backward(g.to(dtype))
        return [t.grad for t in tensors]

    exact = gradients(by_hand, torch.float64)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        found = gradients(lambda x, w, b: F.layer_norm(x, sizes, w, b), dtype)
        for got, want, name in zip(found, exact, "xwb", strict=True):
            assert (got is None) == (name not in wanted)
            if got is not None:
                assert got.dtype == dtype and got.is_contiguous()
                torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("which", [(0, 0, 0), (0, None, None), (None, 0, 0), (0, 0, None), (0, None, 0)])
def test_layer_norm_under_vmap_has_its_rule(torch, F, seeded, recwarn, which):
    """With every choice of what differs between the examples, forward and gradients; no loop is warned of."""
    whole = [torch.randn(*s, dtype=torch.float64) for s in ((4, 3, 5), (4, 5), (4, 5))]
    args = [t if dim == 0 else t[0] for t, dim in zip(whole, which, strict=True)]

    def gradients(x, w, b):
        return torch.func.grad(lambda *a: (F.layer_norm(a[0], (5,), a[1], a[2]) ** 3).sum(), (0, 1, 2))(x, w, b)

    got = torch.func.vmap(gradients, which)(*args)
    for i in range(4):
        want = gradients(*[t[i] if dim == 0 else t for t, dim in zip(args, which, strict=True)])
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a[i], b)
    assert not recwarn.list


# ---- dropout
def test_dropout_keeps_the_mean(torch, nn, seeded):
    x = torch.ones(100_000, requires_grad=True)
    layer = nn.Dropout(0.25)
    y = layer(x)
    kept = y != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.01
    assert sorted(set(y.tolist())) == [0.0, pytest.approx(4 / 3)]
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert layer.eval()(x) is x
    assert repr(layer) == "Dropout(p=0.25, inplace=False)"


def test_dropout_at_the_ends(torch, nn, F):
    x = torch.ones(5)
    assert F.dropout(x, 0.0).tolist() == [1] * 5 and F.dropout(x, 1.0).tolist() == [0] * 5
    assert F.dropout(x, 0.5, training=False) is x
    assert F.dropout(torch.ones(0), 0.5).shape == (0,)
    assert F.dropout(x, 1.0, inplace=True) is x and x.tolist() == [0] * 5
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            nn.Dropout(p)
        with pytest.raises(ValueError, match="between 0 and 1"):
            F.dropout(x, p)


@pytest.mark.parametrize("n", [5, 1000])
def test_torch_drops_the_same_elements(torch, F, oracle, n):
    torch.manual_seed(1)
    ours = F.dropout(torch.ones(n), 0.3).tolist()
    oracle.manual_seed(1)
    assert ours == oracle.nn.functional.dropout(oracle.ones(n), 0.3).tolist()


def test_dropout_repeats_with_the_seed(torch, F):
    x = torch.ones(50)
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        runs.append(F.dropout(x, 0.5).tolist())
    assert runs[0] == runs[1] != F.dropout(x, 0.5).tolist()
    y = torch.ones(50)
    assert F.dropout(y, 0.5, inplace=True) is y and 0 in y.tolist()


# ---- shape
def test_flatten_and_identity(torch, nn):
    x = torch.zeros(2, 3, 4, 5)
    assert nn.Flatten()(x).shape == (2, 60) and nn.Flatten(0, 1)(x).shape == (6, 4, 5)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    with pytest.raises(IndexError):
        nn.Flatten(5)(x)
    assert nn.Identity(3, anything=4)(x) is x and repr(nn.Identity()) == "Identity()"


@pytest.mark.parametrize("value", [3, [1.0], None])
def test_what_is_no_tensor(torch, F, value):
    target = torch.tensor([0])
    for call in (
        lambda: F.linear(value, torch.ones(2, 1)),
        lambda: F.relu(value),
        lambda: F.dropout(value, 0.5),
        lambda: F.cross_entropy(value, target),
        lambda: F.cross_entropy(torch.ones(1, 2), value),
        lambda: F.nll_loss(value, target),
    ):
        with pytest.raises(TypeError, match=r"must be Tensor, not (int|list|NoneType)"):
            call()

"""What programs use beside plain operations, on a device and on the CPU: distributions, transforms, data, files."""

import contextlib
import io
import itertools
import warnings

import numpy as np
import pytest

import cygrad
from cygrad import distributions as D
from cygrad import nn, optim
from cygrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("any_devices")


def tensors_in(result):
    if isinstance(result, cygrad.Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else []
    return [t for part in parts for t in tensors_in(part)]


def compare(function):
    """The same tensors from a device as from the CPU, and on it; function: of the device's name."""
    near, far = tensors_in(function("cpu")), tensors_in(function("cuda"))
    assert len(near) == len(far) > 0
    for a, b in zip(near, far, strict=True):
        assert b.is_cuda, f"a result of shape {tuple(b.shape)} is on the CPU"
        cygrad.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-9, atol=1e-9, equal_nan=True)


def numbers(device, *shape, low=-2.0, high=2.0, seed=0):
    x = np.random.default_rng(seed).uniform(low, high, shape)
    return cygrad.tensor(x, device=device)


def shares(device, *shape):
    return numbers(device, *shape, low=0.1, high=0.9)


def positive(device, *shape):
    return numbers(device, *shape, low=0.5, high=2.0)


# ---- distributions

def lower(device, n=3):
    return numbers(device, n, n).tril(-1) + cygrad.diag(positive(device, n))


DISTRIBUTIONS = {
    "Bernoulli": lambda d: D.Bernoulli(shares(d, 3)),
    "Bernoulli logits": lambda d: D.Bernoulli(logits=numbers(d, 3)),
    "Beta": lambda d: D.Beta(positive(d, 3), positive(d, 3)),
    "Binomial": lambda d: D.Binomial(5, shares(d, 3)),
    "Categorical": lambda d: D.Categorical(shares(d, 2, 4)),
    "Categorical logits": lambda d: D.Categorical(logits=numbers(d, 2, 4)),
    "Cauchy": lambda d: D.Cauchy(numbers(d, 3), positive(d, 3)),
    "Chi2": lambda d: D.Chi2(positive(d, 3)),
    "Dirichlet": lambda d: D.Dirichlet(positive(d, 2, 4)),
    "Exponential": lambda d: D.Exponential(positive(d, 3)),
    "FisherSnedecor": lambda d: D.FisherSnedecor(5 * positive(d, 3), 5 * positive(d, 3)),
    "Gamma": lambda d: D.Gamma(positive(d, 3), positive(d, 3)),
    "Geometric": lambda d: D.Geometric(shares(d, 3)),
    "Gumbel": lambda d: D.Gumbel(numbers(d, 3), positive(d, 3)),
    "HalfCauchy": lambda d: D.HalfCauchy(positive(d, 3)),
    "HalfNormal": lambda d: D.HalfNormal(positive(d, 3)),
    "Independent": lambda d: D.Independent(D.Normal(numbers(d, 2, 3), positive(d, 2, 3)), 1),
    "InverseGamma": lambda d: D.InverseGamma(3 * positive(d, 3), positive(d, 3)),
    "Kumaraswamy": lambda d: D.Kumaraswamy(positive(d, 3), positive(d, 3)),
    "Laplace": lambda d: D.Laplace(numbers(d, 3), positive(d, 3)),
    "LogNormal": lambda d: D.LogNormal(numbers(d, 3), positive(d, 3)),
    "LogisticNormal": lambda d: D.LogisticNormal(numbers(d, 3), positive(d, 3)),
    "MixtureSameFamily": lambda d: D.MixtureSameFamily(D.Categorical(shares(d, 4)),
                                                       D.Normal(numbers(d, 4), positive(d, 4))),
    "Multinomial": lambda d: D.Multinomial(5, shares(d, 4)),
    "MultivariateNormal of a covariance": lambda d: D.MultivariateNormal(numbers(d, 3), lower(d) @ lower(d).mT),
    "MultivariateNormal": lambda d: D.MultivariateNormal(numbers(d, 3), scale_tril=lower(d)),
    "NegativeBinomial": lambda d: D.NegativeBinomial(positive(d, 3), shares(d, 3)),
    "Normal": lambda d: D.Normal(numbers(d, 3), positive(d, 3)),
    "Normal of a number": lambda d: D.Normal(numbers(d, 3), 2.0),
    "OneHotCategorical": lambda d: D.OneHotCategorical(shares(d, 2, 4)),
    "OneHotCategoricalStraightThrough": lambda d: D.OneHotCategoricalStraightThrough(shares(d, 2, 4)),
    "Pareto": lambda d: D.Pareto(positive(d, 3), positive(d, 3)),
    "Poisson": lambda d: D.Poisson(positive(d, 3)),
    "RelaxedBernoulli": lambda d: D.RelaxedBernoulli(positive(d), shares(d, 3)),
    "RelaxedOneHotCategorical": lambda d: D.RelaxedOneHotCategorical(positive(d), shares(d, 4)),
    "StudentT": lambda d: D.StudentT(5 * positive(d, 3), numbers(d, 3), positive(d, 3)),
    "TransformedDistribution": lambda d: D.TransformedDistribution(
        D.Normal(numbers(d, 3), positive(d, 3)),
        [D.ExpTransform(), D.AffineTransform(1.0, 2.0), D.PowerTransform(2.0), D.SigmoidTransform()]),
    "stick breaking": lambda d: D.TransformedDistribution(D.Normal(numbers(d, 3), positive(d, 3)),
                                                          [D.StickBreakingTransform()]),
    "Uniform": lambda d: D.Uniform(numbers(d, 3), 3 + positive(d, 3)),
    "Weibull": lambda d: D.Weibull(positive(d, 3), positive(d, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name):
    make = DISTRIBUTIONS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cygrad.manual_seed(3)
        drawn = make("cpu").sample((5,))
        there = make("cuda").sample((5,))
        assert there.is_cuda and there.shape == drawn.shape and there.dtype is drawn.dtype
        if make("cpu").has_rsample:
            assert make("cuda").rsample((2, 3)).is_cuda
        compare(lambda d: numbers_of(make(d), drawn.to(d)))


def numbers_of(p, drawn):
    """What a distribution can say; what it cannot is left out."""
    found = {"log_prob": p.log_prob(drawn)}
    for name in ("mean", "variance", "stddev", "mode"):
        with contextlib.suppress(NotImplementedError):
            found[name] = getattr(p, name)
    for name, call in (("entropy", p.entropy), ("support", p.enumerate_support), ("cdf", lambda: p.cdf(drawn)),
                       ("expanded", lambda: p.expand((2, *p.batch_shape)).log_prob(drawn[:2])),
                       ("icdf", lambda: p.icdf(p.cdf(drawn)))):  # fmt: skip
        with contextlib.suppress(NotImplementedError, ValueError):
            found[name] = call()
    return found


def test_divergences():
    known = 0
    for p, q in itertools.product(DISTRIBUTIONS.values(), repeat=2):
        try:
            D.kl_divergence(p("cpu"), q("cpu"))
        except (NotImplementedError, ValueError, RuntimeError):      # no formula, or other shapes
            continue
        known += 1
        compare(lambda d, p=p, q=q: D.kl_divergence(p(d), q(d)))
    assert known > 60


# ---- helpers of nn

def model(device):
    cygrad.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double().to(device)


def gradients(net):
    return [p.grad for p in net.parameters()]


def trained(device, prepare=lambda net: None, finish=lambda net: None):
    net = model(device)
    prepare(net)
    x = numbers(device, 5, 4)
    for _ in range(2):
        net(x).square().sum().backward()
    more = finish(net)
    return [net(x), *gradients(net), *(more if isinstance(more, list) else [])]


def rnn(device, kind, packed):
    cygrad.manual_seed(0)
    net = kind(3, 4, 2, bidirectional=True).double().to(device)
    x = numbers(device, 6, 4, 3).requires_grad_()
    if packed:
        x_packed = nn.utils.rnn.pack_padded_sequence(x, [6, 2, 5, 1], enforce_sorted=False)
        y, state = net(x_packed)
        y, lengths = nn.utils.rnn.pad_packed_sequence(y)
        assert lengths.is_cpu and lengths.tolist() == [6, 2, 5, 1]
    else:
        y, state = net(x)
    y.square().sum().backward()
    return y, state, x.grad, gradients(net)


def weight_normed(net):
    nn.utils.parametrizations.weight_norm(net[0])
    nn.utils.parametrizations.weight_norm(net[2], dim=None)


def spectral(layer):
    layer(numbers(layer.bias.device, 5, 4)).sum().backward()
    return layer.weight, layer.parametrizations.weight.original.grad


def orthogonal(device, kind):
    layer = nn.Linear(4, 4).double()
    with cygrad.no_grad():                                  # of full rank, so that the factors are unique
        layer.weight.copy_(numbers("cpu", 4, 4) + 3 * cygrad.eye(4, dtype=cygrad.float64))
    return spectral(nn.utils.parametrizations.orthogonal(layer.to(device), orthogonal_map=kind))


def averaged(device):
    net = model(device)
    copy = optim.swa_utils.AveragedModel(net, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for _ in range(3):
        with cygrad.no_grad():
            for p in net.parameters():
                p.add_(1)
        copy.update_parameters(net)
    return list(copy.parameters())


def stepped(device):
    net = model(device)
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    schedules = [optim.lr_scheduler.CosineAnnealingLR(optimizer, 4), optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
                 optim.lr_scheduler.LinearLR(optimizer, 0.5)]
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        optimizer.zero_grad()
        loss = net(numbers(device, 5, 4)).square().sum()
        loss.backward()
        optimizer.step()
        for schedule in schedules:
            schedule.step()
        plateau.step(loss)
    return list(net.parameters())


UTILITIES = {
    "clip_grad_norm_": lambda d: trained(d, finish=lambda n: [nn.utils.clip_grad_norm_(n.parameters(), 0.1)]),
    "clip_grad_value_": lambda d: trained(d, finish=lambda n: nn.utils.clip_grad_value_(n.parameters(), 0.1)),
    "vector": lambda d: trained(d, finish=lambda n: nn.utils.vector_to_parameters(
        nn.utils.parameters_to_vector(n.parameters()) * 2, n.parameters())),
    "weight_norm": lambda d: trained(d, prepare=weight_normed),
    "orthogonal": lambda d: [orthogonal(d, kind) for kind in ("matrix_exp", "cayley", "householder")],
    "spectral_norm": lambda d: spectral(nn.utils.parametrizations.spectral_norm(model("cpu")[0]).to(d)),
    "skip_init": lambda d: nn.utils.skip_init(nn.Linear, 2, 3, device=d).weight.detach().zero_(),
    "averages": averaged,
    "schedules": stepped,
    "lstm": lambda d: rnn(d, nn.LSTM, False),
    "lstm packed": lambda d: rnn(d, nn.LSTM, True),
    "gru packed": lambda d: rnn(d, nn.GRU, True),
    "rnn": lambda d: rnn(d, nn.RNN, False),
    "pad_sequence": lambda d: nn.utils.rnn.pad_sequence([numbers(d, 3), numbers(d, 5)]),
    "unpad_sequence": lambda d: nn.utils.rnn.unpad_sequence(numbers(d, 5, 2), cygrad.tensor([3, 5])),
    "pack_sequence": lambda d: nn.utils.rnn.pack_sequence([numbers(d, 5), numbers(d, 3)]).data,
    "checkpoint": lambda d: cygrad.utils.checkpoint.checkpoint(model(d), numbers(d, 5, 4), use_reentrant=False),
    "functional_call": lambda d: cygrad.func.functional_call(model(d), {"0.weight": numbers(d, 6, 4)},
                                                             (numbers(d, 5, 4),)),
    "init": lambda d: [nn.init.dirac_(cygrad.empty(3, 2, 3, device=d)), nn.init.eye_(cygrad.empty(2, 3, device=d)),
                       nn.init.constant_(cygrad.empty(2, device=d), 3.0)],
    "fuse": lambda d: nn.utils.fuse_conv_bn_eval(filled(nn.Conv2d(2, 2, 1).double().to(d).eval()),
                                                 nn.BatchNorm2d(2).double().to(d).eval()).weight,
}  # fmt: skip


def filled(net):
    for p in net.parameters():
        nn.init.constant_(p, 0.5)
    return net


@pytest.mark.parametrize("name", UTILITIES)
def test_helpers_of_nn(name):
    compare(UTILITIES[name])


@pytest.mark.parametrize("name", ["uniform_", "normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                                  "kaiming_normal_", "trunc_normal_", "sparse_"])  # fmt: skip
def test_initial_values_are_drawn_on_the_device(name, last_device):
    x = cygrad.zeros(20, 30, device=last_device)
    more = {"sparsity": 0.25} if name == "sparse_" else {}
    assert getattr(nn.init, name)(x, **more) is x and str(x.device) == last_device and float(x.abs().sum()) > 0


# ---- losses and layers that make tensors of their own

def ctc(device, targets=((1, 2, 2), (3, 1, 0))):
    lp = numbers(device, 6, 2, 5).log_softmax(2).requires_grad_()
    loss = F.ctc_loss(lp, cygrad.tensor(targets, device=device), [6, 5], [3, 2], zero_infinity=True)
    loss.backward()
    return loss, lp.grad


LAYERS = {
    "ctc_loss": ctc,
    "interpolate": lambda d: [F.interpolate(numbers(d, 1, 2, 5, 4), size=(7, 3), mode=mode)
                              for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area")],
    "interpolate antialiased": lambda d: [F.interpolate(numbers(d, 1, 2, 9, 8), size=(4, 3), mode=mode, antialias=True)
                                          for mode in ("bilinear", "bicubic")],
    "interpolate lines": lambda d: F.interpolate(numbers(d, 1, 2, 5), scale_factor=1.7, mode="linear"),
    "interpolate volumes": lambda d: F.interpolate(numbers(d, 1, 2, 3, 4, 2), scale_factor=2, mode="trilinear"),
    "fractional_max_pool2d": lambda d: F.fractional_max_pool2d(
        numbers(d, 1, 2, 7, 7), 2, output_size=3, _random_samples=shares(d, 1, 2, 2)),
    "fractional_max_pool3d": lambda d: F.fractional_max_pool3d(
        numbers(d, 1, 2, 7, 7, 7), 2, output_size=3, _random_samples=shares(d, 1, 2, 3)),
    "pdist": lambda d: F.pdist(numbers(d, 4, 3)),
    "adaptive softmax": lambda d: filled(nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6]).double().to(d))(
        numbers(d, 5, 4), cygrad.tensor([0, 8, 4, 3, 7], device=d)).output,
    "transformer": lambda d: filled(nn.Transformer(4, 2, 1, 1, 8, 0.0).double().to(d))(
        numbers(d, 3, 2, 4), numbers(d, 5, 2, 4),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5, device=d, dtype=cygrad.float64)),
    "embedding bag": lambda d: nn.EmbeddingBag.from_pretrained(numbers(d, 7, 3), mode="max")(
        cygrad.tensor([1, 2, 6, 0], device=d), cygrad.tensor([0, 3], device=d)),
    "grid_sample": lambda d: F.grid_sample(numbers(d, 1, 2, 5, 4), F.affine_grid(
        numbers(d, 1, 2, 3), [1, 2, 3, 3], align_corners=False), align_corners=False),
    "multi head": lambda d: filled(nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True).double().to(d))(
        *[numbers(d, 3, 2, 4)] * 3),
    "max_unpool": lambda d: F.max_unpool2d(*F.max_pool2d(numbers(d, 1, 2, 4, 4), 2, return_indices=True), 2),
    "combinations": lambda d: cygrad.combinations(numbers(d, 4), 2),
    "median": lambda d: [numbers(d, 5).median(), numbers(d).median(0)[0], numbers(d, 4, 3).mode(0),
                         numbers(d, 0).median()],
    "isin": lambda d: [cygrad.isin(numbers(d, 4), 1.0), cygrad.isin(3.0, numbers(d, 4))],
    "unique": lambda d: cygrad.tensor([3, 1, 3], device=d).unique(return_inverse=True, return_counts=True),
    "block_diag": lambda d: cygrad.block_diag(numbers(d, 2, 2), numbers(d, 3)),
    "nonzero_static": lambda d: cygrad.nonzero_static(numbers(d, 4) > 0, size=6),
    "bucketize": lambda d: cygrad.bucketize(numbers(d, 5), cygrad.tensor([-1.0, 0, 1], device=d).double()),
    "histc": lambda d: cygrad.histc(numbers(d, 9), 3),
    "cov": lambda d: [numbers(d, 3, 5).cov(), numbers(d, 3, 5).corrcoef()],
    "windows": lambda d: [cygrad.hann_window(6, device=d), cygrad.kaiser_window(6, device=d),
                          cygrad.signal.windows.gaussian(6, device=d)],
    "frequencies": lambda d: [cygrad.fft.fftfreq(5, device=d), cygrad.fft.rfftfreq(5, device=d)],
    "triangles": lambda d: [cygrad.tril_indices(3, 4, device=d), cygrad.triu_indices(3, 3, device=d),
                            cygrad.logspace(0, 2, 3, device=d), cygrad.vander(numbers(d, 3))],
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers_that_make_tensors(name):
    compare(LAYERS[name])


@pytest.mark.parametrize("kind", ["LazyLinear", "LazyBatchNorm1d"])
@pytest.mark.usefixtures("two_devices")
def test_lazy_layers_become_what_they_are_where_they_were_put(kind):
    def make(**options):
        return nn.LazyLinear(3, **options) if kind == "LazyLinear" else nn.LazyBatchNorm1d(**options)

    made = make(device="cuda:1"), make().cuda(1), make().to("cuda:1"), make().cuda().to("cuda:1").double().float()
    for net in made:
        assert net(cygrad.ones(2, 4, device="cuda:1")).shape[0] == 2
        assert {str(t.device) for t in [*net.parameters(), *net.buffers()]} == {"cuda:1"}
    assert make().cuda().cpu()(cygrad.ones(2, 4)).is_cpu


FOURIER = {
    "fft": lambda x: cygrad.fft.fft(x), "ifft": lambda x: cygrad.fft.ifft(x, norm="ortho"),
    "fft2": lambda x: cygrad.fft.fft2(x, norm="forward"), "ifftn": lambda x: cygrad.fft.ifftn(x, dim=(0, 1)),
    "rfft": lambda x: cygrad.fft.rfft(x.real), "rfft2": lambda x: cygrad.fft.rfft2(x.real, s=(5, 12), norm="ortho"),
    "irfft": lambda x: cygrad.fft.irfft(x), "irfftn": lambda x: cygrad.fft.irfftn(x, s=(4, 7)),
    "hfft": lambda x: cygrad.fft.hfft(x), "ihfft": lambda x: cygrad.fft.ihfft(x.real),
    "stft": lambda x: cygrad.stft(x.real.flatten(), 8, window=cygrad.hann_window(8, device=x.device),
                                  return_complex=True),
    "vmap": lambda x: cygrad.vmap(cygrad.fft.fft)(x),
}  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 9, 131, 300, 331])
@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms(name, n):
    if (name == "stft" and n < 4) or (name in ("irfft", "hfft") and n == 1):
        pytest.skip("too short")

    def call(device):
        x = cygrad.view_as_complex(numbers(device, 3, n, 2)).requires_grad_()
        y = FOURIER[name](x)
        parts = cygrad.view_as_real(y) if y.is_complex() else y
        weights = cygrad.linspace(0, 1, parts.numel(), device=device, dtype=cygrad.float64).view(parts.shape)
        (g,) = cygrad.autograd.grad((parts * weights).sum(), x)
        return y, g

    compare(call)


def test_fourier_transforms_in_float32():
    x = cygrad.randn(4, 1000)
    cygrad.testing.assert_close(cygrad.fft.rfft(x.cuda()).cpu(), cygrad.fft.rfft(x), rtol=1e-4, atol=1e-4)


# ---- transforms of functions

def squares(x):
    return (x.sin() * x).sum()


def of_examples(net, x):
    def loss(parameters, x):
        return cygrad.func.functional_call(net, parameters, (x,)).square().sum()

    return cygrad.vmap(cygrad.func.grad(loss), (None, 0))(dict(net.named_parameters()), x)


TRANSFORMS = {
    "grad": lambda d: cygrad.func.grad(squares)(numbers(d, 4)),
    "vmap": lambda d: cygrad.vmap(lambda a, b: a @ b + a[0])(numbers(d, 3, 4), numbers(d, 3, 4)),
    "vmap of grad": lambda d: cygrad.vmap(cygrad.func.grad(squares))(numbers(d, 3, 4)),
    "vmap indexing": lambda d: cygrad.vmap(lambda x, i: x[i])(numbers(d, 3, 4), cygrad.tensor([0, 2, 1], device=d)),
    "vmap indexing by a list": lambda d: cygrad.vmap(lambda x: x[[2, 0]] + x[cygrad.tensor([1, 1])])(numbers(d, 3, 4)),
    "vmap of layers": lambda d: cygrad.vmap(lambda x: F.layer_norm(x, (4,)).softmax(0))(numbers(d, 3, 4)),
    "jvp": lambda d: cygrad.func.jvp(squares, (numbers(d, 4),), (numbers(d, 4, seed=1),)),
    "vjp": lambda d: cygrad.func.vjp(lambda x: x.exp(), numbers(d, 4))[1](numbers(d, 4, seed=1)),
    "jacrev": lambda d: cygrad.func.jacrev(lambda x: x.outer(x).tanh())(numbers(d, 3)),
    "jacfwd": lambda d: cygrad.func.jacfwd(lambda x: x.outer(x).tanh())(numbers(d, 3)),
    "hessian": lambda d: cygrad.func.hessian(squares)(numbers(d, 3)),
    "jacobian": lambda d: cygrad.autograd.functional.jacobian(lambda x: x.cumsum(0).sin(), numbers(d, 3)),
    "hvp": lambda d: cygrad.autograd.functional.hvp(squares, numbers(d, 3), numbers(d, 3, seed=1)),
    "vhp": lambda d: cygrad.autograd.functional.hessian(squares, numbers(d, 3)),
    "stack_module_state": lambda d: cygrad.func.stack_module_state([model(d), model(d)])[0],
    "gradients of examples": lambda d: of_examples(model(d), numbers(d, 5, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_functions(name):
    compare(TRANSFORMS[name])


# ---- data, files, fitting

def test_batches_are_pinned_and_brought_there():
    data = cygrad.utils.data.TensorDataset(cygrad.arange(12.0).reshape(6, 2), cygrad.arange(6))
    loader = cygrad.utils.data.DataLoader(data, 4, pin_memory=True)
    seen = []
    for x, y in loader:
        assert x.is_pinned() and y.is_pinned()
        seen += (x.cuda(non_blocking=True)[:, 0].long() // 2 - y.cuda(non_blocking=True)).tolist()
    assert seen == [0] * 6


@pytest.mark.usefixtures("two_devices")
def test_files_come_back_where_they_are_asked_for():
    state = {"w": numbers("cuda:1", 3), "n": cygrad.arange(3, device="cuda")}
    file = io.BytesIO()
    cygrad.save(state, file)
    for where, devices_found in ((None, ["cuda:1", "cuda:0"]), ("cpu", ["cpu"] * 2), ("cuda:0", ["cuda:0"] * 2),
                                 ({"cuda:1": "cuda:0"}, ["cuda:0"] * 2),
                                 (lambda storage, place: storage.to("cuda:1"), ["cuda:1"] * 2)):  # fmt: skip
        file.seek(0)
        found = cygrad.load(file, map_location=where)
        assert [str(t.device) for t in found.values()] == devices_found
        assert all(found[k].tolist() == state[k].tolist() for k in state)


@pytest.mark.usefixtures("two_devices")
def test_safetensors_of_a_device(tmp_path):
    from cygrad.utils import safetensors

    state = {"w": numbers("cuda:1", 3, 2), "n": cygrad.arange(3, device="cuda")}
    safetensors.save_file(state, tmp_path / "x.safetensors")
    found = safetensors.load_file(tmp_path / "x.safetensors", device="cuda:1")
    assert all(str(t.device) == "cuda:1" and t.tolist() == state[k].tolist() for k, t in found.items())


def test_a_model_is_fitted_there():
    data = cygrad.utils.data.TensorDataset(cygrad.randn(20, 4), cygrad.randint(0, 3, (20,)))
    loader = cygrad.utils.data.DataLoader(data, 5, pin_memory=True)
    net = model("cuda").float()
    history = nn.training.fit(net, F.cross_entropy, optim.Adam(net.parameters(), 0.05), loader, epochs=3,
                              validation=loader, metrics={"accuracy": nn.training.accuracy}, progress=False)
    assert history[-1]["loss"] < history[0]["loss"] and net[0].weight.is_cuda

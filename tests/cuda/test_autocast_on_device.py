"""Mixed precision on a device: which operations compute in which dtype is said by PyTorch's lists for CUDA."""

import re
import warnings
from pathlib import Path

import pytest

import cygrad
from cygrad import nn, optim
from cygrad.autograd.autocasting import DEVICE_POLICIES
from cygrad.nn import functional as F

pytestmark = pytest.mark.usefixtures("any_devices")

HALF, SINGLE, DOUBLE = cygrad.float16, cygrad.float32, cygrad.float64


def x(*shape, dtype=SINGLE):
    return cygrad.linspace(0.1, 0.9, cygrad.Size(shape).numel()).view(shape).to(dtype).cuda()


SQUARE, IMAGE = (4, 4), (1, 2, 5, 5)
LOW = {
    "mm": lambda d: cygrad.mm(x(*SQUARE, dtype=d), x(*SQUARE)), "bmm": lambda d: x(2, 3, 3, dtype=d).bmm(x(2, 3, 3)),
    "matmul": lambda d: x(*SQUARE, dtype=d) @ x(4), "mv": lambda d: x(*SQUARE, dtype=d).mv(x(4)),
    "addmm": lambda d: cygrad.addmm(x(4), x(*SQUARE, dtype=d), x(*SQUARE)),
    "linear": lambda d: F.linear(x(3, 4, dtype=d), x(2, 4), x(2)),
    "conv2d": lambda d: F.conv2d(x(*IMAGE, dtype=d), x(3, 2, 2, 2), x(3)),
    "conv_transpose1d": lambda d: F.conv_transpose1d(x(1, 2, 5, dtype=d), x(2, 3, 2)),
    "attention": lambda d: F.scaled_dot_product_attention(*[x(1, 2, 4, 4, dtype=d)] * 3),
    "prelu": lambda d: F.prelu(x(2, 3, dtype=d), x(1)), "baddbmm": lambda d: cygrad.baddbmm(*[x(2, 3, 3, dtype=d)] * 3),
    "addr": lambda d: cygrad.addr(x(3, 3), x(3, dtype=d), x(3)), "gru cell": lambda d: nn.GRUCell(4, 3).cuda()(x(2, 4)),
}  # fmt: skip
FLOAT32 = {
    "exp": lambda d: x(3, dtype=d).exp(),
    "log": lambda d: cygrad.log(x(3, dtype=d)),
    "pow": lambda d: x(3, dtype=d) ** 2,
    "pow of two": lambda d: x(3, dtype=d).pow(x(3, dtype=d)), "power of a number": lambda d: 2 ** x(3, dtype=d),
    "one over": lambda d: 1 / x(3, dtype=d), "reciprocal": lambda d: x(3, dtype=d).reciprocal(),
    "rsqrt": lambda d: x(3, dtype=d).rsqrt(), "softplus": lambda d: F.softplus(x(3, dtype=d)),
    "layer_norm": lambda d: F.layer_norm(x(3, 4, dtype=d), (4,), x(4)), "norm": lambda d: x(3, dtype=d).norm(),
    "group_norm": lambda d: F.group_norm(x(*IMAGE, dtype=d), 2), "softmax": lambda d: x(3, dtype=d).softmax(0),
    "rms_norm": lambda d: F.rms_norm(x(3, 4, dtype=d), (4,)), "log_softmax": lambda d: F.log_softmax(x(3, dtype=d), 0),
    "sum": lambda d: x(3, dtype=d).sum(), "sum of a dimension": lambda d: cygrad.sum(x(3, 2, dtype=d), 1),
    "cumsum": lambda d: x(3, dtype=d).cumsum(0), "prod": lambda d: x(3, dtype=d).prod(),
    "logsumexp": lambda d: x(3, dtype=d).logsumexp(0),
    "cosine": lambda d: F.cosine_similarity(x(3, 4, dtype=d), x(3, 4)),
    "mse": lambda d: F.mse_loss(x(3, dtype=d), x(3)), "l1": lambda d: F.l1_loss(x(3, dtype=d), x(3, dtype=d)),
    "cross entropy": lambda d: F.cross_entropy(x(2, 3, dtype=d), cygrad.tensor([0, 1], device="cuda")),
    "logits": lambda d: F.binary_cross_entropy_with_logits(x(3, dtype=d), x(3)),
    "interpolate": lambda d: F.interpolate(x(*IMAGE, dtype=d), scale_factor=2, mode="bilinear"),
    "vector_norm": lambda d: cygrad.linalg.vector_norm(x(3, dtype=d)),
    "cdist": lambda d: cygrad.cdist(x(2, 3), x(2, 3)),
    "pdist": lambda d: F.pdist(x(3, 2, dtype=d)), "normalize": lambda d: F.normalize(x(3, 2, dtype=d)),
}  # fmt: skip
WIDEST = {
    "addcmul": lambda a, b: cygrad.addcmul(x(3, dtype=a), x(3, dtype=b), x(3, dtype=a)),
    "addcdiv": lambda a, b: x(3, dtype=a).addcdiv(x(3, dtype=b), x(3, dtype=a)),
    "atan2": lambda a, b: cygrad.atan2(x(3, dtype=a), x(3, dtype=b)),
    "dot": lambda a, b: x(3, dtype=a).dot(x(3, dtype=b)),
    "index_put": lambda a, b: x(3, dtype=a).index_put((cygrad.tensor([0]),), x(1, dtype=b)),
    "scatter_add": lambda a, b: x(3, dtype=a).scatter_add(0, cygrad.tensor([0, 1], device="cuda"), x(2, dtype=b)),
    "cat": lambda a, b: cygrad.cat([x(3, dtype=a), x(3, dtype=b)]),
    "bilinear": lambda a, b: F.bilinear(x(2, 3, dtype=a), x(2, 3, dtype=b), x(2, 3, 3, dtype=a)),
}  # fmt: skip
AS_IT_IS = {
    "add": lambda d: x(3, dtype=d) + x(3, dtype=d),
    "relu": lambda d: x(3, dtype=d).relu(),
    "sqrt": lambda d: x(3, dtype=d).sqrt(),
    "gelu": lambda d: F.gelu(x(3, dtype=d)),
    "sigmoid": lambda d: x(3, dtype=d).sigmoid(),
    "mean": lambda d: x(3, dtype=d).mean(),
    "max_pool2d": lambda d: F.max_pool2d(x(*IMAGE, dtype=d), 2),
    "avg_pool2d": lambda d: F.avg_pool2d(x(*IMAGE, dtype=d), 2),
    "pad": lambda d: F.pad(x(*IMAGE, dtype=d), (1, 1, 1, 1), mode="replicate"), "std": lambda d: x(3, dtype=d).std(),
    "stack": lambda d: cygrad.stack([x(3, dtype=d)] * 2), "given dtype": lambda d: x(3, dtype=d).sum(dtype=d),
    "out": lambda d: cygrad.exp(x(3, dtype=d), out=cygrad.empty(3, dtype=d, device="cuda")),
    "in place": lambda d: x(3, dtype=d).exp_(), "silu": lambda d: F.silu(x(3, dtype=d)),
}  # fmt: skip


@pytest.mark.parametrize("low", [HALF, cygrad.bfloat16])
@pytest.mark.parametrize("name", LOW)
def test_products_compute_in_fewer_digits(name, low):
    with cygrad.autocast("cuda", low):
        assert LOW[name](SINGLE).dtype is LOW[name](low).dtype is low
        with cygrad.autocast("cuda", enabled=False):
            assert LOW[name](SINGLE).dtype is SINGLE
    assert LOW[name](SINGLE).dtype is SINGLE


@pytest.mark.parametrize("name", FLOAT32)
def test_what_needs_digits_has_them(name):
    with cygrad.autocast("cuda"):
        assert FLOAT32[name](HALF).dtype is FLOAT32[name](SINGLE).dtype is SINGLE


@pytest.mark.parametrize("name", WIDEST)
def test_what_comes_together_gets_the_wider_dtype(name):
    with cygrad.autocast("cuda"):
        for a, b in ((HALF, SINGLE), (SINGLE, HALF), (SINGLE, SINGLE)):
            assert WIDEST[name](a, b).dtype is SINGLE
        assert WIDEST[name](HALF, HALF).dtype is HALF


@pytest.mark.parametrize("name", AS_IT_IS)
def test_all_else_is_left_alone(name):
    with cygrad.autocast("cuda"):
        assert AS_IT_IS[name](HALF).dtype is HALF and AS_IT_IS[name](SINGLE).dtype is SINGLE


def test_float64_and_tensors_of_the_cpu_are_left_alone():
    with cygrad.autocast("cuda"):
        assert (x(3, 3, dtype=DOUBLE) @ x(3, 3, dtype=DOUBLE)).dtype is x(3, dtype=DOUBLE).exp().dtype is DOUBLE
        near = cygrad.ones(3, 3)
        assert (near @ near).dtype is SINGLE and near.half().exp().dtype is HALF and near.half().sum().dtype is HALF
        with cygrad.autocast("cpu"):
            assert (near @ near).dtype is cygrad.bfloat16 and (x(3, 3) @ x(3, 3)).dtype is HALF
        assert (near @ near).dtype is SINGLE and (x(3, 3) @ x(3, 3)).dtype is HALF
    with cygrad.autocast("cpu"):
        assert (x(3, 3) @ x(3, 3)).dtype is SINGLE and x(3, dtype=HALF).exp().dtype is HALF


def test_the_state_is_that_of_a_kind_of_device():
    assert cygrad.get_autocast_dtype("cuda") is HALF and cygrad.get_autocast_dtype("cpu") is cygrad.bfloat16
    assert not cygrad.is_autocast_enabled() and cygrad.amp.is_autocast_available("cuda")
    with cygrad.autocast("cuda", cygrad.bfloat16):
        assert cygrad.is_autocast_enabled() and cygrad.is_autocast_enabled("cuda")
        assert not cygrad.is_autocast_enabled("cpu")
        assert cygrad.get_autocast_dtype("cuda") is cygrad.bfloat16
    assert not cygrad.is_autocast_enabled("cuda") and cygrad.get_autocast_dtype("cuda") is HALF
    cygrad.set_autocast_enabled("cuda", True)
    try:
        assert (x(3, 3) @ x(3, 3)).dtype is HALF
    finally:
        cygrad.set_autocast_enabled("cuda", False)
    with pytest.warns(FutureWarning, match="cuda.amp.autocast"), cygrad.cuda.amp.autocast():
        assert (x(3, 3) @ x(3, 3)).dtype is HALF
    with pytest.warns(UserWarning, match="In CUDA autocast, but the target dtype is not supported"):
        assert not cygrad.autocast("cuda", DOUBLE)._enabled


@pytest.mark.usefixtures("imitated_devices")
def test_without_a_device_it_is_switched_off(monkeypatch):
    monkeypatch.setenv("CYGRAD_CUDA_HOST", "0")
    with pytest.warns(UserWarning, match="CUDA is not available"), cygrad.autocast("cuda"):
        assert not cygrad.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not cygrad.amp.GradScaler().is_enabled()


def test_the_lists_are_pytorchs():
    torch = pytest.importorskip("torch")
    header = Path(torch.__path__[0]) / "include/ATen/autocast_mode.h"
    if not header.exists():
        pytest.skip("this PyTorch has no headers")
    text = header.read_text()

    def listed(*macros):
        bodies = [text.split(f"#define AT_FORALL_{macro}(_)", 1)[1].split("\n\n")[0] for macro in macros]
        return {name.removeprefix("linalg_") for body in bodies for name in re.findall(r"_\((\w+)", body)}

    here = {policy: {n for n, p in DEVICE_POLICIES.items() if p == policy} for policy in ("low", "float32", "widest")}
    # by another name, inside of another function, or with a rule of its own
    apart = {"convolution", "einsum", "native_layer_norm", "nll_loss2d", "pow", "ADD_NS", "grid_sampler"}
    for policy, macros in (("low", ["LOWER_PRECISION_FP"]), ("float32", ["FP32", "FP32_SET_OPT_DTYPE"]),
                           ("widest", ["PROMOTE"])):  # fmt: skip
        theirs = {n for n in listed(*macros) if not n.startswith("_") and "upsample" not in n} - apart
        assert theirs <= here[policy], theirs - here[policy]
    extra = here["low"] | here["float32"] | here["widest"]
    for macros in ("LOWER_PRECISION_FP", "FP32", "FP32_SET_OPT_DTYPE", "PROMOTE"):
        extra -= listed(macros)
    assert extra == {"arccos", "arcsin", "arctan2", "norm", "special_softmax", "cross_entropy", "interpolate",
                     "grid_sample"}  # fmt: skip


def test_binary_cross_entropy_is_refused():
    with cygrad.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(x(3), x(3))
    with cygrad.autocast("cuda"):
        assert F.binary_cross_entropy(x(3).cpu(), x(3).cpu()).dtype is SINGLE


# ---- training

def net():
    cygrad.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)).cuda()


def test_gradients_come_back_in_the_dtypes_of_weights():
    model = net()
    with cygrad.autocast("cuda"):
        y = model(x(5, 8))
        loss = F.cross_entropy(y, cygrad.tensor([0, 1, 2, 0, 1], device="cuda"))
    assert y.dtype is HALF and loss.dtype is SINGLE
    loss.backward()
    assert all(p.dtype is p.grad.dtype is SINGLE for p in model.parameters())
    plain = net()
    F.cross_entropy(plain(x(5, 8)), cygrad.tensor([0, 1, 2, 0, 1], device="cuda")).backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        cygrad.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=2e-3)


def test_recurrent_layers_and_checkpoints():
    cygrad.manual_seed(0)
    lstm, model = nn.LSTM(4, 3).cuda(), net()
    with cygrad.autocast("cuda"):
        y, (h, c) = lstm(x(5, 2, 4))
        assert y.dtype is h.dtype is c.dtype is HALF
        z = cygrad.utils.checkpoint.checkpoint(model, x(5, 8), use_reentrant=False)
    (y.float().sum() + z.float().sum()).backward()
    assert lstm.weight_hh_l0.grad.dtype is SINGLE and model[0].weight.grad.dtype is SINGLE


def test_a_scaler_skips_steps_that_overflow():
    model = net()
    optimizer = optim.SGD(model.parameters(), 0.1)
    scaler = cygrad.amp.GradScaler("cuda", init_scale=2.0**40, growth_interval=2)
    assert scaler.is_enabled()
    seen, before = [], [p.detach().clone() for p in model.parameters()]
    for _ in range(30):
        optimizer.zero_grad()
        with cygrad.autocast("cuda"):
            loss = F.cross_entropy(model(x(5, 8)), cygrad.tensor([0, 1, 2, 0, 1], device="cuda"))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        seen.append(scaler.get_scale())
    assert scaler._scale.is_cuda and seen[0] == 2.0**39 and seen[-1] < 2.0**32
    assert all((p != b).any() for p, b in zip(model.parameters(), before, strict=True))
    state = scaler.state_dict()
    other = cygrad.amp.GradScaler()
    other.load_state_dict(state)
    assert other.get_scale() == state["scale"]


@pytest.mark.usefixtures("two_devices")
def test_a_scaler_divides_gradients_of_several_devices():
    a, b = (nn.Linear(3, 2).to(d) for d in ("cuda:0", "cuda:1"))
    optimizer = optim.SGD([*a.parameters(), *b.parameters()], 1.0)
    scaler = cygrad.amp.GradScaler("cuda", init_scale=8.0)
    losses = [m(cygrad.ones(1, 3, device=m.weight.device)).sum() for m in (a, b)]
    for loss in scaler.scale(losses):
        loss.backward()
    scaler.unscale_(optimizer)
    assert a.weight.grad.tolist() == b.weight.grad.tolist() == [[1.0] * 3] * 2
    b.weight.grad[0, 0] = float("inf")
    before = a.weight.tolist()
    optimizer.zero_grad()
    for loss in scaler.scale([m(cygrad.full((1, 3), float("inf"), device=m.weight.device)).sum() for m in (a, b)]):
        loss.backward()
    scaler.update()
    scaler.step(optimizer)
    assert a.weight.tolist() == before


def test_custom_functions_see_the_mode_of_their_device():
    class Square(cygrad.autograd.Function):
        @staticmethod
        @cygrad.amp.custom_fwd(device_type="cuda", cast_inputs=SINGLE)
        def forward(ctx, t):
            seen.append((t.dtype, cygrad.is_autocast_enabled("cuda")))
            return t * t

        @staticmethod
        @cygrad.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            return g

    seen = []
    with cygrad.autocast("cuda"):
        assert Square.apply(x(3, dtype=HALF)).dtype is SINGLE
        assert Square.apply(x(3, dtype=HALF).cpu()).dtype is HALF
    assert seen == [(SINGLE, False), (HALF, False)]


def test_fit_uses_the_mode_of_the_models_device():
    data = cygrad.utils.data.TensorDataset(cygrad.randn(20, 8), cygrad.randint(0, 3, (20,)))
    loader = cygrad.utils.data.DataLoader(data, 5)
    model, seen = net(), []
    model[0].register_forward_hook(lambda m, i, y: seen.append(y.dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.training.fit(model, F.cross_entropy, optim.Adam(model.parameters(), 0.05), loader, epochs=1, autocast=HALF,
                        scaler=cygrad.amp.GradScaler("cuda"), progress=False)
    assert set(seen) == {HALF}


# ---- what is made of products inside, and is no product in PyTorch

L, EYE = cygrad.linalg, cygrad.eye(9)
TALL = cygrad.linspace(-1, 1, 99).view(11, 9).roll(1, 1).sin() + cygrad.eye(11, 9)
SQUARE_ONE = TALL[:9].contiguous()
POSITIVE = SQUARE_ONE @ SQUARE_ONE.mT + EYE
SIGNAL = cygrad.linspace(0, 7, 66).view(2, 33).sin()
WHOLE = {
    "cholesky": (L.cholesky, POSITIVE), "lu_factor": (lambda a: L.lu_factor(a)[0], SQUARE_ONE),
    "lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), SQUARE_ONE, TALL[2:]),
    "solve": (L.solve, SQUARE_ONE, TALL[2:]), "inv": (L.inv, SQUARE_ONE), "det": (L.det, SQUARE_ONE),
    "triangular": (lambda a, b: L.solve_triangular(a, b, upper=False), POSITIVE.tril(), TALL[2:]),
    "qr": (lambda a: L.qr(a)[0], TALL), "lstsq": (lambda a, b: L.lstsq(a, b)[0], TALL, TALL[:, :2].contiguous()),
    "ormqr": (cygrad.ormqr, *cygrad.geqrf(TALL), TALL),
    "householder": (L.householder_product, *cygrad.geqrf(TALL)),
    "svd": (lambda a: L.svd(a)[1], TALL), "svdvals": (L.svdvals, TALL), "eigvalsh": (L.eigvalsh, POSITIVE),
    "eigh": (lambda a: L.eigh(a)[1], POSITIVE), "cholesky_solve": (cygrad.cholesky_solve, TALL[2:], POSITIVE.tril()),
    "fft": (cygrad.fft.fft, SIGNAL), "rfft": (cygrad.fft.rfft, SIGNAL), "irfft": (cygrad.fft.irfft, SIGNAL + 0j),
    "fft2": (cygrad.fft.fft2, SIGNAL),
    "stft": (lambda a, w: cygrad.stft(a, 8, window=w, return_complex=True), SIGNAL, cygrad.hann_window(8)),
    "istft": (lambda a, w: cygrad.istft(a, 8, window=w),
              cygrad.stft(SIGNAL, 8, window=cygrad.hann_window(8), return_complex=True), cygrad.hann_window(8)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_linear_algebra_and_fourier_transforms_keep_their_digits(name):
    call, *inputs = WHOLE[name]
    inputs = [a.cuda() for a in inputs]
    plain = call(*inputs)
    with cygrad.autocast("cuda"):
        found = call(*inputs)
    assert found.dtype is plain.dtype and cygrad.equal(found, plain)


def test_gradients_of_linear_algebra_keep_their_digits():
    a, b = SQUARE_ONE.cuda().requires_grad_(), SQUARE_ONE.cuda().requires_grad_()
    with cygrad.autocast("cuda"):
        y = L.inv(a).sum()
    y.backward()
    L.inv(b).sum().backward()
    assert cygrad.equal(a.grad, b.grad)

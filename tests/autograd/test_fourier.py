"""Fourier transforms beside PyTorch and NumPy: values, shapes, gradients of both orders, forward mode, vmap, errors."""

import itertools

import numpy as np
import pytest

import cygrad

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn", "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
REAL_IN = {"rfft", "ihfft", "rfftn", "ihfftn", "rfft2", "ihfft2"}
NORMS = (None, "backward", "forward", "ortho")


def sample(name, shape, dtype="float64", seed=0):
    """Values that the transform takes, as a NumPy array."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=shape)
    if name in REAL_IN:
        return x.astype(dtype)
    return (x + 1j * draw.normal(size=shape)).astype({"float64": "complex128", "float32": "complex64"}[dtype])


def calls():
    for name in ONE:
        for n, dim, norm in itertools.product((None, 1, 4, 5, 9), (-1, 0), NORMS):
            yield name, (n, dim, norm)
    for name in MANY:
        for (s, dim), norm in itertools.product((
                (None, (-2, -1)), (None, (1, 0)), ((3, 6), (0, 2)), ((5, 4), (-1, -3)), ((-1, 3), (0, 1))), NORMS):
            yield name, (s, dim, norm)
        if not name.endswith("2"):
            yield name, ()
            yield name, ((2, 7),)
            yield name, (None, (1,))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_gradients_are_those_of_pytorch(dtype):
    torch = pytest.importorskip("torch")
    close = {"float64": 1e-12, "float32": 2e-5}[dtype]
    for i, (name, args) in enumerate(calls()):
        values = sample(name, (4, 5, 6), dtype, seed=i)
        found = []
        for lib in (torch, cygrad):
            x = lib.from_numpy(values.copy()).requires_grad_()
            y = getattr(lib.fft, name)(x, *args)
            weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape)).astype(dtype)
            loss = ((y.abs() if y.is_complex() else y) ** 2 * lib.from_numpy(weights)).sum()
            g, = lib.autograd.grad(loss, x, create_graph=True)
            second, = lib.autograd.grad((lib.view_as_real(g.resolve_conj()) if g.is_complex() else g).pow(3).sum(), x)
            found.append([str(y.dtype), *(t.detach().resolve_conj().numpy() for t in (y, g, second))])
        (kind, *wanted), (got_kind, *got) = found
        assert kind == got_kind, (name, args)
        for what, a, b in zip(("value", "gradient", "second gradient"), wanted, got, strict=True):
            assert a.shape == b.shape, (name, args, what)
            scale = max(1.0, np.abs(a).max(initial=0))
            assert np.abs(a - b).max(initial=0) <= close * scale, (name, args, what)


@pytest.mark.parametrize("name", ONE + MANY)
def test_gradcheck(name):
    from cygrad.tools.gradcheck import gradcheck, gradgradcheck

    values, transform = cygrad.from_numpy(sample(name, (3, 4))), getattr(cygrad.fft, name)
    x = (cygrad.view_as_real(values) if values.is_complex() else values).clone().requires_grad_()

    def real(x):
        y = transform(cygrad.view_as_complex(x) if values.is_complex() else x)
        return cygrad.view_as_real(y) if y.is_complex() else y

    assert gradcheck(real, (x,), check_forward_ad=True)
    assert gradgradcheck(real, (x,))


@pytest.mark.parametrize("name", ONE + MANY)
def test_vmap(name):
    x = cygrad.from_numpy(sample(name, (3, 4, 5)))
    transform = getattr(cygrad.fft, name)
    for dim in (0, 1):
        got = cygrad.vmap(transform, in_dims=dim)(x)
        assert cygrad.allclose(got, cygrad.stack([transform(row) for row in x.unbind(dim)]))


def test_integers_and_bools_become_the_default_dtype():
    x = cygrad.arange(6)
    assert cygrad.fft.fft(x).dtype is cygrad.complex64
    assert np.allclose(cygrad.fft.fft(x).numpy(), np.fft.fft(np.arange(6)))
    assert cygrad.fft.rfft(x > 2).dtype is cygrad.complex64
    assert cygrad.fft.hfft(x).dtype is cygrad.float32


def test_layouts():
    values = sample("fft", (4, 6, 5))
    x = cygrad.from_numpy(values)
    for t, v in ((x.transpose(0, 2), values.transpose(2, 0, 1).transpose(0, 2, 1)), (x[::2, 1:], values[::2, 1:]),
                 (x[:, :1].expand(4, 3, 5), np.broadcast_to(values[:, :1], (4, 3, 5))), (x.flip(1), values[:, ::-1])):
        assert np.allclose(cygrad.fft.fftn(t).numpy(), np.fft.fftn(v))
        assert np.allclose(cygrad.fft.ifft(t, dim=1).numpy(), np.fft.ifft(v, axis=1))
    assert cygrad.equal(x, cygrad.from_numpy(values))                 # the input is as it was
    y = x.real.transpose(0, 1)
    assert np.allclose(cygrad.fft.rfft(y).numpy(), np.fft.rfft(values.real.transpose(1, 0, 2)))


def test_out():
    x = cygrad.randn(3, 4)
    out = cygrad.empty(0, dtype=cygrad.complex64)
    assert cygrad.fft.fft(x, out=out) is out
    assert cygrad.equal(out, cygrad.fft.fft(x))
    with pytest.raises(RuntimeError, match="Float"):
        cygrad.fft.fft(x, out=cygrad.empty(0))


def test_parseval():
    x = cygrad.randn(1000, dtype=cygrad.float64)
    y = cygrad.fft.fft(x, norm="ortho")
    assert abs(float((x * x).sum() - (y.abs() ** 2).sum())) < 1e-10


X = "torch.ones(3, 4)"


@pytest.mark.parametrize("call", [
    "fft.fft(torch.tensor(1.))", f"fft.fft({X}, dim=2)", f"fft.fft({X}, n=0)", f"fft.fft({X}, n=-1)",
    "fft.fft(torch.zeros(3, 0))", f"fft.fft({X}, norm='foo')", f"fft.fft({X}.half())", f"fft.rfft({X}.bfloat16())",
    f"fft.rfft({X} + 0j)", f"fft.ihfft({X} + 0j)", f"fft.irfft({X}[:, :1])", f"fft.rfftn({X}, dim=())",
    f"fft.irfftn({X}, dim=())", f"fft.hfftn({X}, dim=())", f"fft.ihfftn({X}, dim=())", f"fft.fftn({X}, dim=(0, -2))",
    f"fft.fftn({X}, s=(1, 2), dim=(0,))", f"fft.fftn({X}, s=(1, 2, 3))", f"fft.fftn({X}, s=(0, 2))",
    f"fft.fftn({X}, s=(-2, 2))", "fft.fft([1., 2.])", f"fft.fft({X}, n=2.0)", f"fft.fft({X}, norm=3)",
    "fft.rfftn(torch.tensor(1.))", f"fft.fft2({X}[0])", f"fft.fft({X}, out=torch.empty(0))",
    f"stft({X}, 4)", f"stft({X}[None], 4, return_complex=True)", f"stft({X}, 40, return_complex=True, center=False)",
    f"stft({X}, 4, hop_length=0, return_complex=True, center=False)",
    f"stft({X}, 4, win_length=5, return_complex=True, center=False)",
    f"stft({X}, 4, window=torch.ones(3), return_complex=True, center=False)",
    "stft(torch.arange(20), 4, return_complex=True)", "stft(torch.ones(20) + 0j, 4, onesided=True)",
    "stft(torch.ones(3), 8, return_complex=True)",
    "stft(torch.ones(20), 4, return_complex=True, align_to_window=True)",
    "istft(torch.ones(3, 4, 2), 4)", "istft(torch.ones(3, 4) + 0j, 6)", "istft(torch.ones(3, 4) + 0j, 4, win_length=5)",
    "istft(torch.ones(3, 4) + 0j, 4, window=torch.zeros(4))", "istft(torch.ones(3, 0) + 0j, 4)",
    "istft(torch.ones(3, 4) + 0j, 4, hop_length=5)", "istft(torch.ones(3, 4) + 0j, 4, return_complex=True)",
    "istft(torch.ones(3, 4) + 0j, 4, window=torch.ones(4) + 0j)",
    "istft(torch.ones(3, 4) + 0j, 4, window=torch.hann_window(4), center=False)",
    "hann_window(-1)", "hann_window(2.0)", "kaiser_window(4, dtype=torch.int64)",
])
def test_errors_are_of_pytorchs_type(call):
    torch = pytest.importorskip("torch")
    kinds = []
    for lib in (torch, cygrad):
        with pytest.raises(Exception) as caught:
            eval("torch." + call, {"torch": lib})
        kinds.append(caught.type)
    assert kinds[0] is kinds[1], caught.value


@pytest.mark.parametrize("kind", ["bartlett", "blackman", "hann", "hamming", "kaiser"])
def test_windows(kind):
    torch = pytest.importorskip("torch")
    for n, periodic, dtype in itertools.product((0, 1, 2, 5, 64), (True, False), ("float32", "float64", "float16")):
        wanted, got = (getattr(lib, f"{kind}_window")(n, periodic, dtype=getattr(lib, dtype))
                       for lib in (torch, cygrad))
        assert str(got.dtype) == str(wanted.dtype)
        close = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3}[dtype]
        assert np.allclose(wanted.numpy(), got.numpy(), atol=close, rtol=0)
    assert cygrad.hann_window(4, requires_grad=True).requires_grad


STFTS = [
    {"n_fft": 8}, {"n_fft": 8, "hop_length": 3}, {"n_fft": 9, "hop_length": 2, "win_length": 5},
    {"n_fft": 8, "normalized": True},
    {"n_fft": 8, "center": False}, {"n_fft": 8, "onesided": False}, {"n_fft": 8, "pad_mode": "constant"},
    {"n_fft": 8, "pad_mode": "replicate"}, {"n_fft": 8, "pad_mode": "circular"},
    {"n_fft": 8, "win_length": 6, "center": False, "align_to_window": True},
]


@pytest.mark.parametrize("options", STFTS, ids=str)
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("shape", [(40,), (3, 41)])
def test_stft(options, windowed, shape):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=shape)
    taper = np.hanning(options.get("win_length", options["n_fft"]) + 2)[1:-1]
    for complex_in, as_complex in ((False, True), (False, False), (True, True)):
        if complex_in and options.get("pad_mode") in ("replicate", "circular", "reflect"):
            continue
        found = []
        for lib in (torch, cygrad):
            x = lib.from_numpy(values + 0.5j if complex_in else values).requires_grad_()
            w = lib.from_numpy(taper.copy()).requires_grad_() if windowed else None
            y = lib.stft(x, window=w, return_complex=as_complex, **options)
            loss = (y.abs() ** 3).sum()
            found.append([y, *lib.autograd.grad(loss, [x, w] if windowed else [x])])
        for a, b in zip(*found, strict=True):
            assert a.shape == b.shape and np.allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("options", [
    {"n_fft": 8}, {"n_fft": 8, "hop_length": 3}, {"n_fft": 8, "normalized": True}, {"n_fft": 8, "onesided": False},
    {"n_fft": 8, "length": 30}, {"n_fft": 8, "length": 100}, {"n_fft": 8, "win_length": 6},
], ids=str)
def test_istft(options):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=(2, 40))
    taper = np.hanning(options.get("win_length", 8) + 2)[1:-1]
    forward = {k: v for k, v in options.items() if k != "length"}
    found = []
    for lib in (torch, cygrad):
        x, w = lib.from_numpy(values), lib.from_numpy(taper.copy())
        z = lib.stft(x, window=w, return_complex=True, **forward).detach().requires_grad_()
        y = lib.istft(z, window=w, **options)
        found.append([y, *lib.autograd.grad((y ** 3).sum(), z)])
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape and np.allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)
    n = min(y.shape[1], 40)
    assert np.allclose(y.detach().numpy()[:, : n - 8], values[:, : n - 8])


def test_istft_of_a_complex_signal():
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=40) + 1j * np.random.default_rng(1).normal(size=40)
    found = []
    for lib in (torch, cygrad):
        w = lib.from_numpy(np.hanning(10)[1:-1].copy())
        z = lib.stft(lib.from_numpy(values), 8, window=w, return_complex=True)
        found.append(lib.istft(z, 8, window=w, onesided=False, return_complex=True).numpy())
    assert np.allclose(*found) and np.allclose(found[0], values)

"""Index and weight tensors that depend on sizes alone are kept between calls: no call may show in another."""

import contextlib

import cygrad
import cygrad.nn.functional as F
from cygrad.nn.functional.checks import LONGEST_KEPT, _kept

CALLS = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (9, 4), mode="bicubic", align_corners=True),
    "antialiased": lambda x: F.interpolate(x, (3, 2), mode="bilinear", antialias=True),
    "reflect": lambda x: F.pad(x, (2, 1, 1, 3), mode="reflect"),
    "replicate": lambda x: F.pad(x, (2, -1, 1, 3), mode="replicate"),
    "circular": lambda x: F.pad(x, (2, 1, -1, 3), mode="circular"),
}


def results(call, x):
    x = x.detach().requires_grad_()
    y = call(x)
    (gradient,) = cygrad.autograd.grad(y.square().sum(), x)
    return y.tolist(), gradient.tolist()


def test_calls_do_not_show_in_later_ones(seeded):
    x = cygrad.randn(2, 3, 6, 5)
    for name, call in CALLS.items():
        _kept.cache_clear()
        want = results(call, x)
        _kept.cache_clear()
        with cygrad.inference_mode():            # tensors made here could not be saved for backward
            call(x)
        with cygrad.no_grad():
            call(x.double()).mul_(0)
        cygrad.vmap(call)(x[None])
        assert results(call, x) == want, name
        assert results(call, x) == want, name
        assert call(x.double()).dtype == cygrad.float64


def saved_tensors(fn):
    for name in dir(fn) if fn is not None else ():
        if name.startswith("_saved_") and isinstance(getattr(fn, name), cygrad.Tensor):
            yield getattr(fn, name)
    for below, _ in fn.next_functions if fn is not None else ():
        yield from saved_tensors(below)


def test_what_a_graph_shows_of_them_changes_no_later_call(seeded):
    x = cygrad.randn(2, 3, 6, 5)
    for name, call in CALLS.items():
        want = call(x)
        for change in (
            lambda t: t.zero_(),
            lambda t: t.numpy().fill(0),
            lambda t: t.unsqueeze_(0),
            lambda t: t.resize_(1),
            lambda t: t.untyped_storage().fill_(0),
            lambda t: t.untyped_storage().resize_(0),
        ):
            y = call(x.clone().requires_grad_())
            for tensor in list(saved_tensors(y.grad_fn)):
                with contextlib.suppress(RuntimeError, ValueError), cygrad.no_grad():
                    change(tensor)
            assert cygrad.equal(call(x), want), name


def test_long_ones_are_not_kept():
    _kept.cache_clear()
    F.pad(cygrad.zeros(1, 1, LONGEST_KEPT), (3, 3), mode="reflect")
    F.interpolate(cygrad.zeros(1, 1, LONGEST_KEPT + 1), 4, mode="linear")
    assert _kept.cache_info().currsize == 0
    F.pad(cygrad.zeros(1, 1, 8), (3, 3), mode="reflect")
    assert _kept.cache_info().currsize == 1

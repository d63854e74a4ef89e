"""Kernels of batch normalisation: the formulas' numbers, however the work is cut."""

import ctypes

import device_code
import numpy as np
import pytest

NORM, SUMS, INPUT = 0, 1, 2


class Channels(ctypes.Structure):
    """The struct of kernels.h."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("y", "stats", "sums", "x", "g", "w", "b")] + [
        (name, ctypes.c_int64) for name in ("batch", "channels", "places")
    ] + [("eps", ctypes.c_double)]  # fmt: skip


def run(what, struct, code):
    size = device_code.library().cyg_channels_scratch
    size.restype = ctypes.c_int64
    room = np.zeros(size(ctypes.byref(struct)) // 8 + 1)
    device_code.call("cyg_channels", what, device_code.CODES[code], struct, room)
    return room


SHAPES = [(1, 1, 1), (3, 5, 1), (4, 3, 49), (2, 40, 16), (1, 3, 9000), (2, 3, 5000), (3000, 3, 1), (2000, 70, 1),
          (9, 2, 1025), (33, 5, 196), (257, 6, 7), (1, 2, 12289), (600, 1, 64)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("code", ("float32", "float64"))
def test_every_cut_gives_the_formulas(shape, code):
    r = np.random.default_rng(0)
    memory = [r.normal(size=1 + np.prod(shape)).astype(code) + 1000 for _ in range(2)]
    w, b = r.normal(size=(2, shape[1])).astype(code)
    rtol, atol = (2e-4, 2e-4) if code == "float32" else (1e-8, 1e-9)
    for shift in (0, 1):                         # packs of 16 bytes where places and addresses allow them
        x, g = (m[shift : shift + np.prod(shape)].reshape(shape) for m in memory)
        y, stats, sums = np.zeros_like(x), np.full((3, shape[1]), 7, code), np.full((2, shape[1]), 7, code)
        c = Channels(*(a.ctypes.data for a in (y, stats, sums, x, g, w, b)), *shape, 1e-5)
        run(NORM, c, code)
        wide, slope = x.astype("float64"), g.astype("float64")
        mean, var = wide.mean((0, 2)), wide.var((0, 2))
        scale = 1 / np.sqrt(var + 1e-5)
        np.testing.assert_allclose(stats, [mean, scale, var], rtol=rtol, atol=atol)
        rows = [a.astype("float64")[None, :, None] for a in (stats[0], stats[1], w, b)]
        h = (wide - rows[0]) * rows[1]
        np.testing.assert_allclose(y, h * rows[2] + rows[3], rtol=rtol, atol=atol)
        run(SUMS, c, code)
        np.testing.assert_allclose(sums, [slope.sum((0, 2)), (slope * h).sum((0, 2))], rtol=rtol, atol=1e-3)
        run(INPUT, c, code)
        n = shape[0] * shape[2]
        first, second = (a.astype("float64")[None, :, None] / n for a in sums)
        wanted = rows[2] * rows[1] * (slope - first - h * second)
        np.testing.assert_allclose(y, wanted, rtol=rtol, atol=atol * 30)


def test_few_channels_are_cut_into_chunks():
    """A channel is no block's alone: there may be fewer of them than a card has processors."""
    c = Channels(batch=64, channels=64, places=56 * 56)
    size = device_code.library().cyg_channels_scratch
    size.restype = ctypes.c_int64
    assert size(ctypes.byref(c)) // (64 * 16) >= 16      # chunks of a channel

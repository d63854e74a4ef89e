"""Scans on a device: many chunks of a long line, whose totals a block scans, and no memory where lines are not cut."""

import numpy as np
import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


@pytest.mark.parametrize("shape", [(9001,), (1 << 18,), (3, 100_001), (70, 9000)], ids=str)
def test_lines_of_many_chunks(shape):
    r = np.random.default_rng(0)
    whole = cygrad.tensor(r.integers(-5, 6, shape))
    x = whole.cuda()
    assert bool((x.cumsum(-1).cpu() == whole.cumsum(-1)).all())
    values, places = x.cummax(-1)
    assert bool((values.cpu() == whole.cummax(-1)[0]).all()) and bool((places.cpu() == whole.cummax(-1)[1]).all())
    wide = whole.double() / 7
    for scan in (cygrad.cumsum, cygrad.logcumsumexp):
        found, right = scan(wide.cuda(), -1), scan(wide, -1)
        np.testing.assert_allclose(found.cpu().numpy(), right.numpy(), rtol=1e-9, atol=1e-8)
    assert bool((x.nonzero().cpu() == whole.nonzero()).all())


@pytest.mark.parametrize("shape, dim", [((1 << 16, 2), 1), ((2, 1 << 16), 0), ((600, 100), 1)])
def test_lines_that_are_not_cut_take_no_scratch(shape, dim):
    x = cygrad.ones(shape, dtype=cygrad.float32, device="cuda")
    cygrad.cuda.synchronize()
    before = cygrad.cuda.memory_allocated()
    cygrad.cuda.reset_peak_memory_stats()
    y = x.cumsum(dim)
    assert cygrad.cuda.max_memory_allocated() - before <= y.numel() * 4 + 512

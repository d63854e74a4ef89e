"""What the tests of hand-written operations share: memory layouts, and NumPy's view of an Array."""

import numpy as np
import pytest

from cygrad.storage import set_num_threads
from cygrad.storage.array import Array

LAYOUTS = ("contiguous", "transposed", "strided", "expanded")


def transposed(x):
    return np.ascontiguousarray(x.T).T


def strided(x):
    """Every second element of a larger array, from the second on."""
    big = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
    view = big[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    view[...] = x
    return view


def lay_out(x, layout):
    """An Array of x's shape in this layout, and its elements as a fresh NumPy array."""
    x = np.asarray(x)
    layout = layout if x.ndim else "contiguous"
    if layout == "expanded" and x.shape[-1]:
        narrow = np.ascontiguousarray(x[..., :1])
        return Array(narrow).expand(*x.shape), np.array(np.broadcast_to(narrow, x.shape))
    made = {"transposed": transposed, "strided": strided}.get(layout, np.array)(x)
    return Array(np.asarray(made)), np.array(x)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return request.param


@pytest.fixture(name="lay_out")
def lay_out_fixture():
    return lay_out


@pytest.fixture
def threads():
    """A function that runs another one with 1 and with 2 threads and returns both results."""

    def both(f):
        try:
            results = []
            for n in (1, 2):
                set_num_threads(n)
                results.append(f())
        finally:
            set_num_threads(before)
        return results

    from cygrad.storage import get_num_threads

    before = get_num_threads()
    return both

"""What one operation costs beside its arithmetic: one element, a thousand calls in a row.

The loop itself costs about 10 ns a call, for every library the same.
"""

import numpy as np

import cygrad

CALLS = 1000


class Add:
    """`a + b` of one element; "recorded" means that `a` requires a gradient."""

    params = ("numpy", "cygrad", "cygrad recorded")
    param_names = ("library",)

    def setup(self, library):
        make = np.ones if library == "numpy" else cygrad.ones
        dtype = np.float32 if library == "numpy" else cygrad.float32
        self.a, self.b = make(1, dtype=dtype), make(1, dtype=dtype)
        if library == "cygrad recorded":
            self.a.requires_grad_()

    def time_calls(self, library):
        a, b = self.a, self.b
        for _ in range(CALLS):
            a + b


class Item:
    """The number in a tensor of one element."""

    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        self.a = np.ones(1, np.float32) if library == "numpy" else cygrad.ones(1)

    def time_calls(self, library):
        a = self.a
        for _ in range(CALLS):
            a.item()


class View:
    """A transposed view of a small matrix."""

    params = ("numpy", "cygrad", "cygrad recorded")
    param_names = ("library",)

    def setup(self, library):
        self.a = np.ones((4, 4), np.float32) if library == "numpy" else cygrad.ones(4, 4)
        if library == "cygrad recorded":
            self.a.requires_grad_()

    def time_calls(self, library):
        if library == "numpy":
            a = self.a
            for _ in range(CALLS):
                a.T
        else:
            transpose = self.a.t
            for _ in range(CALLS):
                transpose()

"""Elementwise work on arrays that do not fit into a cache: bound by memory, or by the polynomial of a function."""

import numpy as np

import cygrad


class Large:
    """Ten million float32 elements, result in new memory."""

    params = ("numpy", "cygrad")
    param_names = ("library",)
    size = 10_000_000

    def setup(self, library):
        a = np.linspace(0.1, 2.0, self.size, dtype=np.float32)
        self.lib = np if library == "numpy" else cygrad
        self.a, self.b = (a, a[::-1].copy()) if library == "numpy" else map(cygrad.from_numpy, (a, a[::-1].copy()))

    def time_add(self, library):
        self.a + self.b

    def time_exp(self, library):
        self.lib.exp(self.a)

    def time_compare(self, library):
        self.a < self.b


class Medium(Large):
    """A hundred thousand: in cache, with the cost of waking a second thread in sight."""

    size = 100_000


class Strided:
    """Row plus column, and a transposed operand: the iterator's work."""

    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        a = np.linspace(0, 1, 1000 * 1000, dtype=np.float32).reshape(1000, 1000)
        self.a = a if library == "numpy" else cygrad.from_numpy(a)

    def time_broadcast(self, library):
        self.a[0] + self.a[:, :1]

    def time_transposed(self, library):
        self.a + self.a.T

"""Reductions of ten million float32 elements: all of them, along rows and along columns."""

import numpy as np

import cygrad


class Large:
    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        a = np.linspace(0, 1, 10_000_000, dtype=np.float32)
        self.a = a if library == "numpy" else cygrad.from_numpy(a)
        self.rows = self.a.reshape(10_000, 1_000)

    def time_sum(self, library):
        self.a.sum()

    def time_max(self, library):
        self.a.max()

    def time_sum_rows(self, library):
        self.rows.sum(1)

    def time_sum_columns(self, library):
        self.rows.sum(0)

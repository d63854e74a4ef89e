"""Matrix products, float32."""

import numpy as np

import cygrad


class Square:
    params = (("numpy", "cygrad"), (8, 64, 512))
    param_names = ("library", "n")

    def setup(self, library, n):
        a = np.linspace(-1, 1, n * n, dtype=np.float32).reshape(n, n)
        self.a = a if library == "numpy" else cygrad.from_numpy(a)

    def time_matmul(self, library, n):
        self.a @ self.a


class Batched:
    """Sixty-four products of 64 x 64."""

    params = ("numpy", "cygrad")
    param_names = ("library",)

    def setup(self, library):
        a = np.linspace(-1, 1, 64 * 64 * 64, dtype=np.float32).reshape(64, 64, 64)
        self.a = a if library == "numpy" else cygrad.from_numpy(a)

    def time_matmul(self, library):
        self.a @ self.a

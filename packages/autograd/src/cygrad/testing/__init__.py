"""Helpers for tests: compare tensors within the tolerance of their dtype, make tensors of random numbers."""

from ._comparison import assert_close
from ._creation import make_tensor

__all__ = ["assert_close", "make_tensor"]

"""PyTorch's way to choose how `scaled_dot_product_attention` is computed: here there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """What PyTorch chooses from. Those that compute on a CPU all stand for the one way there is here."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"


ON_CPUS = {SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION}


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[dict]:
    """Allow some ways of computing attention in the ``with`` block; nothing changes, results are the same with all.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
        At least one that computes on a CPU.
    set_priority : bool
        Accepted for PyTorch programs.

    Raises
    ------
    AssertionError
        If it is neither.
    RuntimeError
        If none of them computes on a CPU.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    wanted = backends if isinstance(backends, list) else [backends]
    if not ON_CPUS & set(wanted):
        names = ", ".join(getattr(b, "name", repr(b)) for b in wanted) or "none"
        raise RuntimeError(f"sdpa_kernel: no backend of those allowed computes on the CPU: {names}")
    yield {}

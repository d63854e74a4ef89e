"""Intel's MKL, which is not used: matrix products are OpenBLAS's."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether MKL computes: no."""
    return False

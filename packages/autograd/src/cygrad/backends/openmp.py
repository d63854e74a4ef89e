"""OpenMP, which runs the kernels' threads."""

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether kernels were compiled with OpenMP."""
    from cygrad.storage.core import has_openmp

    return has_openmp()

"""The CPU that computes."""

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The instruction set that the kernels use, by PyTorch's word: ``"DEFAULT"``, ``"AVX2"`` or ``"AVX512"``."""
    from cygrad.storage.dispatch import isa

    return {"base": "DEFAULT", "avx2": "AVX2", "avx512": "AVX512"}[isa()]

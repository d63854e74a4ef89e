"""oneDNN, which is not used: convolutions are cygrad's own."""

__all__ = ["enabled", "is_available"]

enabled = True


def is_available() -> bool:
    """Whether oneDNN computes: no."""
    return False

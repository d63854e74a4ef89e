"""Questions and marks for a compiler, as torch.compiler: operations run when they are called, nothing is compiled."""

__all__ = ["disable", "is_compiling", "is_dynamo_compiling", "is_exporting"]


def is_compiling() -> bool:
    """Whether a compiler is tracing: no."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether a compiler is tracing: no."""
    return False


def is_exporting() -> bool:
    """Whether a program is being exported: no."""
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """`fn` as it is, since nothing compiles it; without `fn`, a decorator that does so."""
    return fn if fn is not None else lambda fn: fn

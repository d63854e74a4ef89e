"""cuDNN, which is not there: what is set here is remembered, and has no effect."""

from contextlib import contextmanager

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_acceptable",
           "is_available", "version"]

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether cuDNN can be used: no."""
    return False


def version() -> None:
    """The version of cuDNN: None, there is none."""


def is_acceptable(tensor: object) -> bool:
    """Whether cuDNN could compute with this tensor: no."""
    return False


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True, **others):
    """Other settings inside a ``with``."""
    here = globals()
    given = {"enabled": enabled, "benchmark": benchmark, "benchmark_limit": benchmark_limit,
             "deterministic": deterministic, "allow_tf32": allow_tf32}
    before = {name: here[name] for name in given}
    here.update(given)
    try:
        yield
    finally:
        here.update(before)

"""When a profiler that runs beside the program looks at it, as torch.cuda.profiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ._devices import cudart

__all__ = ["init", "profile", "start", "stop"]


def init(output_file: str, flags: Any = None, output_mode: str = "key_value") -> NoReturn:
    """NotImplementedError: CUDA has no profiler of its own any more."""
    raise NotImplementedError("profiler.init(): CUDA has no profiler of its own any more; run the program under one")


def _check(code: int, what: str) -> None:
    if code:
        raise RuntimeError(f"torch.cuda.profiler.{what}(): CUDA refused it with error {code}")


def start() -> None:
    """Let the profiler begin; RuntimeError where CUDA refuses it."""
    _check(cudart().cudaProfilerStart(), "start")


def stop() -> None:
    """Let it end; RuntimeError where CUDA refuses it."""
    _check(cudart().cudaProfilerStop(), "stop")


@contextmanager
def profile() -> Iterator[None]:
    """A context that the profiler looks at."""
    start()
    try:
        yield
    finally:
        stop()

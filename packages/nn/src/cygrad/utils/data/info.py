"""What code in a loader's worker process may know of it."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo(NamedTuple):
    """A worker process.

    Attributes
    ----------
    id : int
        From 0 to ``num_workers - 1``.
    num_workers : int
    seed : int
        The seed with which random numbers began here.
    dataset : Dataset
        The copy that this process has.
    worker_method : str
        "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    worker_method: str = "multiprocessing"


current: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what is known about the loader's worker process that this code runs in.

    Returns
    -------
    WorkerInfo or None
        None in the main process.
    """
    return current

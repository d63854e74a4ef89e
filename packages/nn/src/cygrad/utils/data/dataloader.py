"""`DataLoader`: batches of a dataset, in an order that a sampler gives."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, Generic, TypeVar

from cygrad.utils.data.collate import default_collate, default_convert
from cygrad.utils.data.dataset import IterableDataset
from cygrad.utils.data.passes import InProcess, Parallel
from cygrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader"]

T = TypeVar("T", covariant=True)


class _Endless(Sampler[None]):
    """Asks an iterable dataset for its next sample, for ever."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader(Generic[T]):
    """Iterates over a dataset in batches.

    Parameters
    ----------
    dataset : Dataset
        Looked up by indices, or an `IterableDataset`.
    batch_size : int or None, default 1
        Samples in a batch; None yields single samples.
    shuffle : bool, optional
        Visit the samples in a new random order in each pass.
    sampler : Sampler or iterable, optional
        The order, instead of `shuffle`.
    batch_sampler : Sampler or iterable, optional
        Yields lists of indices; instead of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers : int, default 0
        Number of worker processes that load ahead; 0 loads in this process when the next batch is asked for.
    collate_fn : callable, optional
        Makes a batch from a list of samples; `default_collate` by default.
    pin_memory : bool
        Whether the tensors of a batch are put into page-locked memory; without a CUDA device it has no effect.
    drop_last : bool
        Leave out a last batch that is shorter.
    timeout : float
        Seconds to wait for a batch from workers; 0 waits as long as they live.
    worker_init_fn : callable, optional
        Is called in each worker, with its number, before it begins.
    multiprocessing_context : str or context, optional
        How workers are started: "fork", "spawn" or "forkserver"; Python's default by default. What is not forked gets
        dataset, `collate_fn` and `worker_init_fn` as pickles.
    generator : Generator, optional
        Where the random numbers come from; the global one by default.
    prefetch_factor : int, optional
        Batches that each worker loads ahead, 2 by default.
    persistent_workers : bool
        Keep the workers, and their copies of the dataset, from one pass to the next.
    pin_memory_device : str
        Has no effect.
    in_order : bool
        Yield batches in the order of the sampler; otherwise as they are ready.

    Notes
    -----
    Worker ``i`` starts with the seed ``base + i`` for Python, cygrad and NumPy, where ``base`` is drawn from
    `generator` in each pass: PyTorch's seeds. An error in a worker is raised here with the worker's traceback. Batches
    come in shared memory that has no name, of which nothing is left over. A worker uses one thread.

    Raises
    ------
    ValueError
        If options contradict each other.
    TypeError
        If `multiprocessing_context` is neither a name nor a context.

    While iterating: RuntimeError if a worker dies or the time is over, and whatever dataset and `collate_fn` raise.
    """

    _fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
    _ready = False
    sampler: Any
    batch_sampler: Any

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        self._iterable = isinstance(dataset, IterableDataset)
        _check_order(self._iterable, batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            if self._iterable:
                sampler = _Endless()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._announced: int | None = None
        self._kept: Parallel | None = None
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in self._fixed:
            raise ValueError(f"{name} cannot be changed after the {type(self).__name__} is made")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started: a context of `multiprocessing`, or None for Python's default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = _checked_context(context, self.num_workers)

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            if self.timeout:
                raise AssertionError(f"timeout={self.timeout} needs num_workers > 0")
            return InProcess(self)
        if not self.persistent_workers:
            return Parallel(self)
        if self._kept is not None and self._kept.alive:
            self._kept.restart(self)
        else:
            self._kept = Parallel(self)
        return self._kept

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None}  # processes stay with the loader that started them

    def __len__(self) -> int:
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        samples = self._announced = len(self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else math.ceil(samples / self.batch_size)


def _check_workers(num_workers: int, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError(f"num_workers should be non-negative, got {num_workers}: use 0 to load in this process")
    if timeout < 0:
        raise ValueError(f"timeout should be non-negative, got {timeout}")
    if prefetch is not None and num_workers == 0:
        raise ValueError(f"prefetch_factor={prefetch} needs num_workers > 0")
    if prefetch is not None and prefetch < 0:
        raise ValueError(f"prefetch_factor should be non-negative, got {prefetch}")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers=True needs num_workers > 0")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if processors is not None and num_workers > processors:
        warnings.warn(
            f"This DataLoader will create {num_workers} worker processes in total, but this process may use only "
            f"{processors} processors: more workers than that can be slower, and can even stand still",
            stacklevel=3,
        )


def _checked_context(context: Any, num_workers: int) -> Any:
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(f"multiprocessing_context={context!r} needs num_workers > 0")
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(f"multiprocessing_context should be one of {methods}, got {context!r}")
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(f"multiprocessing_context should be a context or the name of one, got {context!r}")
    return context


def _check_order(
    iterable: bool, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if iterable:
        for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if value is not None:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None turns batching off and is mutually exclusive with drop_last")

"""`DataLoader`: batches of a dataset, in an order that a sampler gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from cygrad.utils.data.collate import default_collate, default_convert
from cygrad.utils.data.dataset import IterableDataset, read_items
from cygrad.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed

__all__ = ["DataLoader", "get_worker_info"]


def get_worker_info() -> None:
    """Return what is known about the loader process that this code runs in: None in the main process."""
    return


class _Endless(Sampler[None]):
    """Asks an iterable dataset for its next sample, for ever."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)


class DataLoader:
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
        Number of loader processes; only 0, loading in this process, is there so far.
    collate_fn : callable, optional
        Makes a batch from a list of samples; `default_collate` by default.
    pin_memory : bool
        Has no effect without an accelerator.
    drop_last : bool
        Leave out a last batch that is shorter.
    timeout, worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers, in_order
        Concern loader processes.
    generator : Generator, optional
        Where the random numbers come from; the global one by default.

    Raises
    ------
    ValueError
        If options contradict each other.
    NotImplementedError
        If loader processes are asked for.
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
        _check_workers(num_workers, timeout, multiprocessing_context, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
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
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._ready and name in self._fixed:
            raise ValueError(f"{name} cannot be changed after the {type(self).__name__} is made")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        return _Pass(self)

    def __len__(self) -> int:
        if not self._iterable:
            return len(self.sampler if self.batch_sampler is None else self.batch_sampler)
        samples = self._announced = len(self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else math.ceil(samples / self.batch_size)


def _check_workers(num_workers: int, timeout: float, context: Any, prefetch: int | None, persistent: bool) -> None:
    if num_workers < 0:
        raise ValueError(f"num_workers should be non-negative, got {num_workers}: use 0 to load in this process")
    if timeout < 0:
        raise ValueError(f"timeout should be non-negative, got {timeout}")
    if num_workers > 0:
        raise NotImplementedError(
            f"num_workers={num_workers}: loading in worker processes is not there yet, use num_workers=0"
        )
    if prefetch is not None:
        raise ValueError(f"prefetch_factor={prefetch} needs num_workers > 0")
    if persistent:
        raise ValueError("persistent_workers=True needs num_workers > 0")
    if context is not None:
        raise ValueError(f"multiprocessing_context={context!r} needs num_workers > 0")
    if timeout > 0:
        raise AssertionError(f"timeout={timeout} needs num_workers > 0")


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


class _Pass:
    """One pass over a loader's dataset, loading in the calling process."""

    def __init__(self, loader: DataLoader) -> None:
        if loader.pin_memory:
            warnings.warn("pin_memory has no effect: there is no accelerator to copy to", stacklevel=3)
        self._dataset = loader.dataset
        self._collate = loader.collate_fn
        self._batched = loader.batch_sampler is not None
        self._drop_last = loader.drop_last
        self._announced = loader._announced
        self._yielded = 0
        self._order = iter(loader.batch_sampler if self._batched else loader.sampler)
        # The seed of worker processes. It is drawn here too, so that their number does not change later random numbers.
        draw_seed(loader.generator)
        self._stream: Any = iter(loader.dataset) if loader._iterable else None
        self._read = self._next_of_stream if loader._iterable else self._look_up

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        data = self._read(next(self._order))
        self._yielded += 1
        if self._announced is not None and self._stream is not None and self._yielded > self._announced:
            warnings.warn(
                f"the length of {type(self._dataset).__name__} was given as {self._announced} samples, but "
                f"{self._yielded} batches have been read",
                stacklevel=2,
            )
        return data

    def _look_up(self, index: Any) -> Any:
        if not self._batched:
            return self._collate(self._dataset[index])
        if self._collate is default_collate and hasattr(self._dataset, "_collated"):
            batch = self._dataset._collated(index)
            if batch is not None:
                return batch
        return self._collate(read_items(self._dataset, index))

    def _next_of_stream(self, index: Any) -> Any:
        if not self._batched:
            return self._collate(next(self._stream))
        samples = [sample for _, sample in zip(index, self._stream, strict=False)]
        if not samples or (self._drop_last and len(samples) < len(index)):
            raise StopIteration
        return self._collate(samples)

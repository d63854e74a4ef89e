"""One pass over a loader's dataset: in the calling process, or by workers."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cygrad import cuda
from cygrad.utils.data.collate import rebuilt_mapping, rebuilt_sequence
from cygrad.utils.data.fetch import Fetcher
from cygrad.utils.data.sampler import draw_seed

if TYPE_CHECKING:
    from cygrad.utils.data.dataloader import DataLoader

__all__ = ["InProcess", "Parallel"]


def pinned(data: Any) -> Any:
    """`data` with the tensors in it in page-locked memory, from which CUDA devices copy on their own."""
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, {key: pinned(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(pinned, data))
    return rebuilt_sequence(data, [*map(pinned, data)]) if isinstance(data, (list, tuple)) else data


class Pass:
    """What `iter(loader)` gives."""

    def __init__(self, loader: DataLoader) -> None:
        self._pin = loader.pin_memory and cuda.is_available()
        if loader.pin_memory and not self._pin:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found: it has no effect", stacklevel=4
            )
        self._dataset = loader.dataset
        self._iterable = loader._iterable
        self._indices = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
        self._start(loader)
        # The seed of worker processes. It is drawn without them too, so that their number does not change later random
        # numbers.
        self._base_seed = draw_seed(loader.generator)

    def _start(self, loader: DataLoader) -> None:
        self._order = iter(self._indices)
        self._announced = loader._announced
        self._yielded = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._indices)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled: pickle the DataLoader")

    def _next(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next()
        if self._pin:
            data = pinned(data)
        self._yielded += 1
        if self._iterable and self._announced is not None and self._yielded > self._announced:
            warnings.warn(self._too_long(), stacklevel=2)
        return data

    def _too_long(self) -> str:
        return (
            f"Length of IterableDataset {self._dataset} was reported to be {self._announced} (when accessing "
            f"len(dataloader)), but {self._yielded} samples have been fetched."
        )


class InProcess(Pass):
    """A pass that loads when it is asked for the next batch."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        self._fetch = Fetcher(loader.dataset, loader.batch_sampler is not None, loader.collate_fn, loader.drop_last)

    def _next(self) -> Any:
        return self._fetch(next(self._order))


class Parallel(Pass):
    """Passes that worker processes load ahead.

    Each request has a number. Answers are yielded in the order of the numbers, unless the loader says otherwise.
    """

    def __init__(self, loader: DataLoader) -> None:
        from cygrad.utils.data import worker  # not imported, with numpy.random, where nobody needs workers
        from cygrad.utils.data.workers import Workers

        super().__init__(loader)
        if not loader.prefetch_factor:
            raise AssertionError(f"prefetch_factor must be greater than 0 for workers, got {loader.prefetch_factor}")
        self._kinds = worker
        self._ahead = loader.prefetch_factor * loader.num_workers
        self._in_order = loader.in_order
        self._persistent = loader.persistent_workers
        self._timeout = loader.timeout
        setup = (
            loader.dataset,
            loader.batch_sampler is not None,
            loader.collate_fn,
            loader.drop_last,
            self._base_seed,
            loader.worker_init_fn,
        )
        self._workers = Workers(loader.num_workers, loader.multiprocessing_context, setup)
        weakref.finalize(self, self._workers.close)
        self._count = loader.num_workers
        self._epoch = 0
        self._broken: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._asked = 0  # requests so far
        self._wanted = 0  # number of the request whose answer is yielded next
        self._tasks: dict[int, int] = {}  # request -> worker, until its answer comes
        self._ready: dict[int, tuple[int, int, Any]] = {}  # request -> worker and answer that came too early
        self._active = [True] * self._count
        self._load = [0] * self._count
        self._turns = itertools.cycle(range(self._count))
        for _ in range(self._ahead):
            self._ask()

    def restart(self, loader: DataLoader) -> None:
        """Begin another pass with the same workers. What they still answer about this one is dropped."""
        self._start(loader)
        self._epoch += 1
        for number in range(self._count):
            self._workers.post(number, (self._epoch, self._kinds.RESTART, 0), None)
        self._begin()

    @property
    def alive(self) -> bool:
        """Whether the workers can be used for another pass."""
        return not self._workers.closed

    def _ask(self) -> None:
        """Request one more batch, if there is one, of the worker whose turn it is."""
        try:
            index = next(self._order)
        except StopIteration:
            return
        share = self._ahead // max(1, sum(self._active))
        for number in itertools.islice(self._turns, self._count):
            if self._active[number] and (self._in_order or self._load[number] < share):
                break
        else:
            return
        self._workers.post(number, (self._epoch, self._asked, 0), index)
        self._tasks[self._asked] = number
        self._load[number] += 1
        self._asked += 1

    def _next(self) -> Any:
        while True:
            self._skip_unanswered()
            if self._wanted == self._asked:
                self._finish()
                raise StopIteration
            if self._wanted in self._ready:
                return self._deliver(self._wanted, *self._ready.pop(self._wanted))
            number, task, kind, data = self._receive()
            if kind == self._kinds.ENDED:
                self._active[number] = False
                self._ask()
            elif task != self._wanted and self._in_order:
                self._ready[task] = number, kind, data
            else:
                return self._deliver(task, number, kind, data)

    def _skip_unanswered(self) -> None:
        """Pass over requests whose worker has come to the end of its dataset, or which were yielded out of order."""
        while self._wanted < self._asked and self._wanted not in self._ready:
            number = self._tasks.get(self._wanted)
            if number is not None and self._active[number]:
                break
            self._tasks.pop(self._wanted, None)
            self._wanted += 1

    def _receive(self) -> tuple[int, int, int, Any]:
        if self._workers.closed:
            raise RuntimeError(self._broken or "this pass of the DataLoader has ended with the process that made it")
        while True:
            try:
                answer = self._workers.receive(self._timeout)
            except RuntimeError as error:
                self._broken = str(error)
                raise
            if answer is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            number, message = answer
            epoch, task, kind = message.tag
            if epoch != self._epoch:
                continue
            try:
                return number, task, kind, message.content()
            except Exception as error:  # of an object that cannot be made here
                return number, task, self._kinds.BROKEN, error

    def _deliver(self, task: int, number: int, kind: int, data: Any) -> Any:
        self._tasks.pop(task, None)
        self._wanted += task == self._wanted
        self._load[number] -= 1
        self._ask()
        if kind == self._kinds.FAILED:
            data.reraise()
        if kind == self._kinds.BROKEN:
            raise data
        return data

    def _finish(self) -> None:
        if not self._persistent:
            self._workers.close()
            self._asked = self._wanted = 0

    def _too_long(self) -> str:
        return (
            f"{super()._too_long()} With several workers, each of them reads the whole dataset unless it asks "
            "get_worker_info() which part is its own."
        )

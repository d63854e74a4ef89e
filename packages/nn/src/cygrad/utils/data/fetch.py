"""Reading samples and making batches of them, in the main process or in a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cygrad.utils.data.collate import default_collate
from cygrad.utils.data.dataset import IterableDataset, read_items

__all__ = ["Fetcher"]


class Fetcher:
    """Makes what one step of a loader yields.

    Parameters
    ----------
    dataset : Dataset
        An iterable one is started here.
    batched : bool
        Whether indices come as lists, and samples are put together.
    collate : callable
    drop_last : bool
        Whether an iterable dataset's last batch is left out if it is short.
    """

    def __init__(self, dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.batched = batched
        self.collate = collate
        self.drop_last = drop_last
        self.iterable = isinstance(dataset, IterableDataset)
        self.stream: Any = iter(dataset) if self.iterable else None

    def __call__(self, index: Any) -> Any:
        """What belongs to an index, or a list of them; StopIteration at the end of an iterable dataset."""
        return self._next(index) if self.iterable else self._look_up(index)

    def _look_up(self, index: Any) -> Any:
        if not self.batched:
            return self.collate(self.dataset[index])
        if self.collate is default_collate and hasattr(self.dataset, "_collated"):
            batch = self.dataset._collated(index)
            if batch is not None:
                return batch
        return self.collate(read_items(self.dataset, index))

    def _next(self, index: Any) -> Any:
        if not self.batched:
            return self.collate(next(self.stream))
        samples = [sample for _, sample in zip(index, self.stream, strict=False)]
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.collate(samples)

"""Datasets: things with samples, looked up by an index or iterated over."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import cygrad
from cygrad import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples that are looked up by an index.

    A subclass defines ``__getitem__`` and, for most samplers, ``__len__``. It may define ``__getitems__(indices)``,
    which returns a list of samples and is used for whole batches.
    """

    def __getitem__(self, index: Any) -> T:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T], Iterable[T]):
    """Samples that come one after the other, as from a stream. A subclass defines ``__iter__``."""

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Tensors side by side: sample ``i`` is the tuple of their rows ``i``.

    Parameters
    ----------
    *tensors : Tensor
        All of the same size in the first dimension.

    Raises
    ------
    AssertionError
        If the sizes differ.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"Size mismatch between tensors: the first dimensions are {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def _collated(self, indices: Sequence[int]) -> list[Tensor] | None:
        """Return what `default_collate` makes of these samples, reading each tensor once.

        None where the samples must be read one by one: a subclass looks samples up in its own way, or an index is
        not a number within range.
        """
        if type(self).__getitem__ is not TensorDataset.__getitem__ or set(map(type, indices)) != {int}:
            return None
        if not 0 <= min(indices) <= max(indices) < len(self):
            return None
        index = cygrad.tensor(indices, device="cpu")  # which indexes tensors anywhere
        return [tensor.index_select(0, index) for tensor in self.tensors]


class StackDataset(Dataset):
    """Datasets side by side: a sample is the tuple, or the dictionary, of their samples.

    Parameters
    ----------
    *args : Dataset
        For samples that are tuples.
    **kwargs : Dataset
        For samples that are dictionaries.

    Raises
    ------
    ValueError
        If there are none, both kinds are given, or the lengths differ.
    """

    datasets: tuple | dict

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "StackDataset takes datasets either by position or by name, got "
                f"{len(args)} by position and {len(kwargs)} by name"
            )
        self.datasets = kwargs or args
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: their lengths are {lengths}")
        self._length = lengths[0]

    def _parts(self) -> list:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, values: Iterable) -> Any:
        return dict(zip(self.datasets, values, strict=True)) if isinstance(self.datasets, dict) else tuple(values)

    def __getitem__(self, index: Any) -> Any:
        return self._sample(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: list) -> list:
        columns = []
        for dataset in self._parts():
            column = read_items(dataset, indices)
            if len(column) != len(indices):
                raise ValueError(
                    f"{type(dataset).__name__}.__getitems__ returned {len(column)} samples for {len(indices)} indices"
                )
            columns.append(column)
        return [self._sample(row) for row in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T]):
    """Datasets one after the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        At least one, none of them an IterableDataset.

    Raises
    ------
    AssertionError
        If there are none, or one is an IterableDataset.
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset needs at least one dataset, got none")
        for i, dataset in enumerate(self.datasets):
            if isinstance(dataset, IterableDataset):
                raise AssertionError(f"ConcatDataset cannot look up samples of dataset {i}, an IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T:
        place = index + len(self) if index < 0 else index
        if place < 0:
            raise ValueError(f"index {index} is out of range for a dataset of {len(self)} samples")
        number = bisect_right(self.cumulative_sizes, place)
        if number == len(self.datasets):
            raise IndexError(f"index {index} is out of range for a dataset of {len(self)} samples")
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]


class ChainDataset(IterableDataset):
    """Iterable datasets one after the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset
        They are started when their turn comes.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())

    def _checked(self) -> Iterator:
        for i, dataset in enumerate(self.datasets):
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(f"ChainDataset takes IterableDatasets, dataset {i} is a {type(dataset).__name__}")
            yield dataset


class Subset(Dataset[T]):
    """Some samples of a dataset, in a given order.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence
        Sample ``i`` of the subset is sample ``indices[i]`` of the dataset.
    """

    dataset: Dataset[T]
    indices: Sequence[Any]

    def __init__(self, dataset: Dataset[T], indices: Sequence[Any]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list:
        if type(self).__getitem__ is not Subset.__getitem__:
            return [self[i] for i in indices]
        return read_items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    def _collated(self, indices: Sequence[int]) -> list[Tensor] | None:
        """Return what `TensorDataset._collated` of the underlying dataset returns, None if it has no such method."""
        if type(self).__getitem__ is not Subset.__getitem__ or not hasattr(self.dataset, "_collated"):
            return None
        return self.dataset._collated([self.indices[i] for i in indices])


def read_items(dataset: Any, indices: list) -> list:
    """Samples of a dataset, through its ``__getitems__`` if it has one."""
    if getattr(dataset, "__getitems__", None):
        return dataset.__getitems__(indices)
    return [dataset[i] for i in indices]


def random_split(dataset: Any, lengths: Sequence[Any], generator: Any = None) -> list[Subset]:
    """Split a dataset at random into parts that share no sample.

    Parameters
    ----------
    dataset : Dataset
        With a length.
    lengths : sequence of int, or of float that sum to 1
        How many samples, or which share of them, each part gets; samples left over by rounding go to the first parts.
    generator : Generator, optional
        Where the random numbers come from; the global one by default.

    Returns
    -------
    list of Subset

    Raises
    ------
    ValueError
        If the lengths do not add up to the length of the dataset, or a share is outside [0, 1].
    """
    size = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = _counts(lengths, size)
    else:
        counts = list(lengths)
    if sum(counts) != size:
        raise ValueError(f"the lengths {list(lengths)} add up to {sum(counts)}, the dataset has {size} samples")
    order = cygrad.randperm(size, generator=generator).tolist()
    return [Subset(dataset, order[end - count : end]) for end, count in zip(accumulate(counts), counts, strict=True)]


def _counts(shares: Sequence[float], size: int) -> list[int]:
    for i, share in enumerate(shares):
        if not 0 <= share <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1: {share}")
    counts = [math.floor(size * share) for share in shares]
    for i in range(size - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {i} is 0: the dataset of that part is empty", stacklevel=3)
    return counts

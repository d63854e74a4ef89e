"""Samplers: in which order the samples of a dataset are visited. A seed gives PyTorch's orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

import cygrad

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """Yields indices of a dataset, or lists of them. A subclass defines ``__iter__`` and, where it can, ``__len__``."""

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")


def draw_seed(generator: Any = None) -> int:
    """A number in 0 .. 2**63 - 1 from the generator, or from the global one."""
    return int(cygrad.empty((), dtype=cygrad.int64).random_(generator=generator).item())


def _check_count(num_samples: Any) -> None:
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")


class SequentialSampler(Sampler[int]):
    """All indices in order.

    Parameters
    ----------
    data_source : Sized
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Parameters
    ----------
    data_source : Sized
    replacement : bool, default False
        Whether an index may come several times in one pass.
    num_samples : int, optional
        How many indices a pass has; by default as many as there are.
    generator : Generator, optional
        Where the random numbers come from. Without one, each pass takes a seed from the global one.

    Raises
    ------
    TypeError
        If `replacement` is no bool.
    ValueError
        If there is nothing to draw.
    """

    def __init__(
        self, data_source: Any, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices a pass has; it follows the length of the data unless it was given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = cygrad.Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            # In portions, so that a shared generator is left where PyTorch leaves it if the pass is broken off.
            for start in range(0, self.num_samples, 32):
                count = min(32, self.num_samples - start)
                yield from cygrad.randint(0, n, (count,), dtype=cygrad.int64, generator=generator).tolist()
        else:
            for start in range(0, self.num_samples, n):
                order = cygrad.randperm(n, generator=generator).tolist()
                yield from order[: self.num_samples - start]
            if self.generator is not None and self.num_samples % n == 0:
                cygrad.randperm(n, generator=generator)  # PyTorch draws one more order, of which it uses nothing

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """Given indices in random order.

    Parameters
    ----------
    indices : sequence
    generator : Generator, optional
        Where the random numbers come from; the global one by default.
    """

    def __init__(self, indices: Sequence[Any], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[Any]:
        for i in cygrad.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        Probabilities up to a common factor.
    num_samples : int
        How many indices a pass has.
    replacement : bool, default True
        Whether an index may come several times in one pass.
    generator : Generator, optional
        Where the random numbers come from; the global one by default.

    Raises
    ------
    ValueError
        If `weights` is not one-dimensional, `num_samples` not a positive integer, or `replacement` no bool.
    RuntimeError
        In a pass: if a weight is negative or not finite, their sum is not positive, or, without replacement, fewer
        than `num_samples` are positive.
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = cygrad.as_tensor(weights, dtype=cygrad.float64)
        if self.weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence, got shape {tuple(self.weights.shape)}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        weights = self.weights.numpy()
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
            raise RuntimeError("weights must be finite and not negative, with a positive sum")
        if self.replacement:
            levels = np.cumsum(weights)
            u = cygrad.rand(self.num_samples, dtype=cygrad.float64, generator=self.generator).numpy()
            return iter(np.searchsorted(levels / levels[-1], u).tolist())
        positive = int(np.count_nonzero(weights))
        if self.num_samples > positive:
            raise RuntimeError(
                f"cannot draw {self.num_samples} samples without replacement: only {positive} weights are positive"
            )
        # The order of exponential waiting times with these rates is a draw without replacement (Efraimidis and
        # Spirakis, "Weighted random sampling with a reservoir", 2006).
        u = cygrad.rand(len(weights), dtype=cygrad.float64, generator=self.generator).numpy()
        with np.errstate(divide="ignore"):
            times = np.where(weights > 0, -np.log1p(-u) / weights, np.inf)
        return iter(np.argsort(times, kind="stable")[: self.num_samples].tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Puts the indices of another sampler together into lists.

    Parameters
    ----------
    sampler : Sampler or iterable
    batch_size : int
        Length of the lists.
    drop_last : bool
        Leave out a last list that is shorter.

    Raises
    ------
    ValueError
        If `batch_size` is not a positive integer, or `drop_last` no bool.
    """

    sampler: Any

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

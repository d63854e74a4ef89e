"""The part of a dataset that one of several processes visits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import cygrad
from cygrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every n-th index of an order that is the same in all processes.

    Parameters
    ----------
    dataset : Sized
        Of the same length in all processes.
    num_replicas : int
        How many processes there are. There is no `cygrad.distributed` that could be asked for it.
    rank : int
        Which of them this one is, from 0.
    shuffle : bool, default True
        Whether the order is drawn anew in each epoch, for which `set_epoch` must be called.
    seed : int
        The same in all processes.
    drop_last : bool
        Whether all processes get equally many indices by leaving some out; otherwise the first ones come again.

    Raises
    ------
    RuntimeError
        If `num_replicas` or `rank` is missing.
    ValueError
        If `rank` is not one of the processes.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError(
                "DistributedSampler needs num_replicas and rank: there is no distributed package that would know them"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.num_samples = len(dataset) // num_replicas if drop_last else math.ceil(len(dataset) / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = cygrad.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = cygrad.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        indices = list(itertools.islice(itertools.cycle(order), self.total_size))
        if len(indices) != self.total_size:
            raise AssertionError(f"the length of the dataset was another when this sampler was made; it is {count} now")
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next: it makes the random order another one.

        Parameters
        ----------
        epoch : int
        """
        self.epoch = epoch

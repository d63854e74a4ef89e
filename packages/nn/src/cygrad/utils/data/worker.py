"""What runs in a loader's worker process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import cygrad
from cygrad.utils.data import info
from cygrad.utils.data.channel import Channel, Message
from cygrad.utils.data.fetch import Fetcher

__all__ = ["PATIENCE", "Failure", "work"]

PATIENCE = 5.0  # seconds between two looks whether the other process lives, and until one that should end is made to
DATA, FAILED, ENDED, BROKEN = range(4)  # kinds of answers; the last: it could not be read in the main process
RESTART = -1  # in place of the number of a request


class Failure:
    """An error on its way to the main process: its type where that can be pickled, and its traceback as text."""

    def __init__(self, error: BaseException, worker: int) -> None:
        kind = type(error)
        self.name = kind.__name__
        self.worker = worker
        self.text = "".join(traceback.format_exception(error))
        try:
            pickle.dumps(kind)
            self.kind: type | None = kind
        except Exception:  # a class without a name that the main process could find
            self.kind = None

    def reraise(self) -> None:
        """Raise an error of the same type, if one can be made from a message alone, or a RuntimeError."""
        text = f"Caught {self.name} in DataLoader worker process {self.worker}.\nOriginal {self.text}"
        error: Any = None
        try:
            if self.kind is KeyError:
                error = KeyError(_Text(text))
            elif self.kind is not None:
                error = self.kind(message=text) if getattr(self.kind, "message", None) else self.kind(text)
        except Exception:  # it wants other arguments
            pass
        raise error if isinstance(error, Exception) else RuntimeError(text)


class _Text(str):
    """Text that a KeyError shows as it is."""

    def __repr__(self) -> str:
        return str(self)


def _seed_everything(base: int, number: int) -> None:
    """Start all random numbers, for each worker elsewhere; PyTorch's workers start at the same places."""
    random.seed(base + number)
    cygrad.manual_seed(base + number)
    words = np.random.SeedSequence([number, base & 0xFFFF_FFFF, base >> 32, 0]).generate_state(4)
    np.random.seed(words.tolist())  # noqa: NPY002  what datasets draw from


class _Worker:
    def __init__(self, number: int, make: Callable[[], Fetcher], init: Callable[[int], None] | None) -> None:
        self.number = number
        self.make = make
        self.failure: Failure | None = None
        self.fetch: Fetcher | None = None
        try:
            if init is not None:
                init(number)
            self.fetch = make()
        except Exception as error:
            self.failure = Failure(error, number)

    def start_epoch(self) -> None:
        """Begin the dataset anew."""
        if self.failure is not None and self.fetch is None:
            return  # it was never initialised
        self.failure = None
        try:
            self.fetch = self.make()
        except Exception as error:
            self.failure = Failure(error, self.number)

    def answer(self, request: Message) -> tuple[int, Any] | None:
        """Kind and content of the answer to a request, None if there is no more to say."""
        if self.failure is not None:
            return FAILED, self.failure
        if self.fetch is None:
            return None
        try:
            return DATA, self.fetch(request.content())
        except Exception as error:
            if isinstance(error, StopIteration) and self.fetch.iterable:
                self.fetch = None
                return ENDED, None
            return FAILED, Failure(error, self.number)


def work(
    channel: Channel,
    dataset: Any,
    batched: bool,
    collate: Callable[[Any], Any],
    drop_last: bool,
    base_seed: int,
    init: Callable[[int], None] | None,
    number: int,
    num_workers: int,
) -> None:
    """Answer the requests of the main process until it closes the channel, or dies."""
    try:
        cygrad.set_num_threads(1)
        _seed_everything(base_seed, number)
        info.current = info.WorkerInfo(number, num_workers, base_seed + number, dataset)
        worker = _Worker(number, lambda: Fetcher(dataset, batched, collate, drop_last), init)
        parent = os.getppid()
        while True:
            if not channel.readable(PATIENCE):
                process = multiprocessing.parent_process()
                if os.getppid() != parent or (process is not None and not process.is_alive()):
                    return
                continue
            request = channel.receive()
            epoch, task, _ = request.tag
            if task == RESTART:
                worker.start_epoch()
                continue
            answer = worker.answer(request)
            if answer is not None:
                _send(channel, (epoch, task, answer[0]), answer[1], number)
            del answer, request
    except (KeyboardInterrupt, EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the main process was interrupted as well, or is not interested any more
    finally:
        channel.close()


def _send(channel: Channel, tag: tuple[int, int, int], content: Any, number: int) -> None:
    try:
        channel.send(tag, content)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # it cannot be pickled, or there is no memory for it
        channel.send((*tag[:2], FAILED), Failure(error, number))

"""The worker processes of a loader, seen from the main process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import select
import signal
import time
import weakref
from typing import Any

from cygrad.utils.data.channel import Channel, Message
from cygrad.utils.data.worker import PATIENCE, work

__all__ = ["Workers"]

_all: weakref.WeakSet[Workers] = weakref.WeakSet()


def _forget_in_child() -> None:
    """A forked process may not hold the ends of its parent's channels: workers would never see them closed."""
    for workers in list(_all):
        workers.forget()


os.register_at_fork(after_in_child=_forget_in_child)


class Workers:
    """Processes that answer requests.

    Parameters
    ----------
    count : int
    context : multiprocessing context or None
        How they are started; None: as Python does it by default.
    setup : tuple
        For `work`: what stands between the channel and the number of the worker.
    """

    def __init__(self, count: int, context: Any, setup: tuple) -> None:
        self.processes: list[Any] = []
        self.channels: list[Channel] = []
        self.closed = False
        self.poll = select.poll()
        self.readers: dict[int, int] = {}  # descriptor of a channel, or of what says that a process has ended -> worker
        _all.add(self)
        try:
            for number in range(count):
                self._start(number, count, context or multiprocessing, setup)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                error.add_note(
                    "A worker process of the DataLoader could not be started. Unless processes are forked, dataset, "
                    "collate_fn and worker_init_fn are pickled for it."
                )
            raise

    def _start(self, number: int, count: int, context: Any, setup: tuple) -> None:
        here, there = Channel.pair()
        self.channels.append(here)
        try:
            process = context.Process(target=work, args=(there, *setup, number, count), daemon=True)
            process.start()
        finally:
            there.close()
        self.processes.append(process)
        for fd in (here.sock.fileno(), process.sentinel):
            self.readers[fd] = number
            self.poll.register(fd, select.POLLIN)

    def post(self, number: int, tag: tuple[int, int, int], content: Any) -> None:
        """Send a request to a worker."""
        self.channels[number].post(tag, content)

    def receive(self, timeout: float) -> tuple[int, Message] | None:
        """The next answer, and whose it is; None after `timeout` seconds (0: never).

        Raises
        ------
        RuntimeError
            If a worker has ended.
        """
        end = time.monotonic() + timeout
        while True:
            for channel in self.channels:
                channel.flush()
            left = min(end - time.monotonic(), PATIENCE) if timeout else PATIENCE
            events = self.poll.poll(max(0.0, left) * 1000)
            ended = set()
            for number in dict.fromkeys(self.readers[fd] for fd, _ in events):
                try:
                    return number, self.channels[number].receive()
                except (EOFError, BlockingIOError):  # its process has ended, and all its answers have been read
                    ended.add(number)
            if not events:
                ended = {number for number, process in enumerate(self.processes) if not process.is_alive()}
            if ended:
                raise self._unexpected(sorted(ended))
            if timeout and time.monotonic() >= end:
                return None

    def _unexpected(self, numbers: list[int]) -> RuntimeError:
        """The error for workers that ended, and how; all others are ended too."""
        processes = [self.processes[number] for number in numbers]
        pids = ", ".join(str(process.pid) for process in processes)
        for process in processes:
            process.join(PATIENCE)
        how = sorted({_how(process.exitcode) for process in processes})
        self.close()
        return RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {', '.join(how)}")

    def close(self) -> None:
        """End the processes: they are told, given some seconds, and then made to."""
        if self.closed:
            return
        self.closed = True
        _all.discard(self)
        for channel in self.channels:
            channel.close()
        try:
            self._join()
        finally:
            for end in ("terminate", "kill"):
                for process in self.processes:
                    if process.is_alive():
                        getattr(process, end)()
                self._join()
            for process in self.processes:
                with contextlib.suppress(ValueError):  # not even killing it helped
                    process.close()

    def _join(self) -> None:
        deadline = time.monotonic() + PATIENCE
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def forget(self) -> None:
        """Let go of processes that belong to the parent of this one."""
        self.closed = True
        for channel in self.channels:
            channel.close()


def _how(code: int | None) -> str:
    if code is None:
        return "it closed its connection"
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"signal {-code}"
    return f"killed by {name}" + (" (perhaps because memory ran out)" if name == "SIGKILL" else "")

"""`spawn`: one function in several processes, whose failures come back to the one that started them."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]


class ProcessException(Exception):
    """A process that `start_processes` started failed.

    Attributes
    ----------
    error_index : int
        Its number among them.
    error_pid : int or None
    """

    def __init__(self, msg: str, error_index: int, error_pid: int | None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised an error; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended in another way.

    Attributes
    ----------
    exit_code : int
        Negative: the number of the signal that killed it.
    signal_name : str or None
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int | None, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _run(fn: Callable, number: int, args: tuple, errors: Any) -> None:
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        errors.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that run.

    Attributes
    ----------
    processes : list of Process
    """

    def __init__(self, processes: list, errors: list) -> None:
        self.processes = processes
        self.errors = errors
        self._running = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """Return the numbers that the system gave the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one process fails or all have ended.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait.
        grace_period : float, optional
            Seconds that the others have after one has failed, before they are ended.

        Returns
        -------
        bool
            Whether all have ended.

        Raises
        ------
        ProcessRaisedException
            If the function raised an error in one of them; the others have been ended then.
        ProcessExitedException
            If one ended with an exit code other than 0, or was killed.
        """
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self._running), timeout=timeout):
            number = self._running.pop(sentinel)  # type: ignore[arg-type]
            self.processes[number].join()
            if self.processes[number].exitcode != 0:
                failed = number
                break
        if failed is None:
            return not self._running
        self._end_others(grace_period)
        self._raise(failed)
        return True

    def _end_others(self, grace_period: float | None) -> None:
        deadline = time.monotonic() + (grace_period or 0)
        for process in self.processes:
            process.join(max(0, deadline - time.monotonic()))
        for end in ("terminate", "kill"):
            for process in self.processes:
                if process.is_alive():
                    getattr(process, end)()
            deadline = time.monotonic() + 30
            for process in self.processes:
                process.join(max(0, deadline - time.monotonic()))

    def _raise(self, number: int) -> None:
        process = self.processes[number]
        try:
            text = self.errors[number].recv()
        except EOFError:  # it ended without saying anything
            pass
        else:
            raise ProcessRaisedException(
                f"\n\n-- Process {number} terminated with the following error:\n{text}", number, process.pid
            )
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else f"number {-code}"
            raise ProcessExitedException(
                f"process {number} terminated with signal {name}", number, process.pid, code, name
            )
        raise ProcessExitedException(f"process {number} terminated with exit code {code}", number, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run a function in several processes.

    Parameters
    ----------
    fn : callable
        Is called as ``fn(i, *args)`` in process ``i``.
    args : tuple
    nprocs : int
        How many.
    join : bool
        Wait until all have ended.
    daemon : bool
        End them with this process.
    start_method : str
        "spawn", "fork" or "forkserver".

    Returns
    -------
    ProcessContext or None
        None if `join`.

    Raises
    ------
    ProcessException
        With `join`, if one fails; see `ProcessContext.join`.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for number in range(nprocs):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, number, args, there), daemon=daemon)
        process.start()
        there.close()
        processes.append(process)
        errors.append(here)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """See `start_processes`."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)

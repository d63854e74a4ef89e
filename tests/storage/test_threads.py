"""Threads: how many, from Python threads, and after a fork."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from cygrad.storage import get_num_threads, set_num_threads
from cygrad.storage.array import Array


def child(program, **environment):
    """Run a program in a fresh interpreter and return what it prints."""
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", **environment}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("n", ["1", "2", "5"])
def test_the_environment_chooses(n):
    program = "from cygrad.storage import get_num_threads; print(get_num_threads())"
    assert child(program, OMP_NUM_THREADS=n) == n


def test_the_number_can_be_set():
    before = get_num_threads()
    try:
        set_num_threads(3)
        assert get_num_threads() == 3
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, True, 2**40])
def test_what_is_no_count_is_refused(bad):
    before = get_num_threads()
    with pytest.raises(RuntimeError, match="set_num_threads expects"):
        set_num_threads(bad)
    assert get_num_threads() == before


WORK = """
import os, sys
import numpy as np
from cygrad.storage import get_num_threads, set_num_threads
from cygrad.storage.array import Array
n = np.arange(300000, dtype=np.float64)
def work():
    return np.array_equal(np.asarray(Array.call("add", Array(n), Array(n))), n + n)
def in_child(act):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if act() else 1)
    return os.waitpid(pid, 0)[1]
set_num_threads(2)
"""


def test_a_forked_child_of_a_threaded_parent_works_with_one_thread():
    program = WORK + """
assert work()
def act():
    if get_num_threads() != 1 or not work():
        return False
    try:
        set_num_threads(2)
    except RuntimeError as e:
        return "spawn" in str(e) and get_num_threads() == 1 and work()
    return False
assert in_child(act) == 0
assert get_num_threads() == 2 and work()
"""
    child(program)


def test_a_child_of_a_parent_that_used_one_thread_may_use_more():
    program = WORK + """
def act():
    set_num_threads(2)
    return work() and in_child(lambda: get_num_threads() == 1 and work()) == 0
assert in_child(act) == 0
"""
    child(program)


def test_python_threads_work_side_by_side():
    """Large operations release the lock, and several may have their own teams at the same time."""
    n = np.arange(200_000, dtype=np.float32)
    wrong = []

    def work(k):
        x = Array(n + k)
        for _ in range(20):
            if not np.array_equal(np.asarray(Array.call("add", x, x)), 2 * (n + k)):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_large_operations_release_the_lock():
    """A second Python thread gets on while a long operation runs."""
    n = np.linspace(-1, 1, 1 << 22).astype(np.float64)
    done, ticks = threading.Event(), []

    def work():
        for _ in range(5):
            Array.call("erf", Array(n))
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    while not done.is_set():
        ticks.append(1)
        done.wait(1e-4)
    worker.join()
    assert len(ticks) > 20

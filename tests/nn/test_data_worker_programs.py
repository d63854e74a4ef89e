"""Whole programs with worker processes: however one ends, its workers do, and little memory and few descriptors do."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from processes import gone

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform != "linux", reason="counts processes and descriptors in /proc"),
]


def program(backend, code):
    return (
        f"import multiprocessing, os, signal, sys, time, warnings\nimport {backend} as torch\n"
        f"import {backend}.utils.data as data\nwarnings.simplefilter('ignore')\n" + textwrap.dedent(code)
    )


def run(folder, backend, code, **options):
    path = folder / "program.py"
    path.write_text(program(backend, code))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, **options)


LIVE = """
class Sleepy(data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, i):
        if i > 3:
            time.sleep(SLEEP)
        return os.getpid()
if __name__ == "__main__":
    loader = data.DataLoader(Sleepy(), num_workers=2, collate_fn=lambda x: x[0], persistent_workers=PERSISTENT)
    steps = iter(loader)
    print(*{next(steps) for _ in range(4)}, flush=True)
    END
"""


def live(end, sleep=0.01, persistent=False):
    return LIVE.replace("END", end).replace("SLEEP", str(sleep)).replace("PERSISTENT", str(persistent))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "raise SystemExit", "globals().clear()"])
def test_a_program_that_ends_with_live_workers(backend, tmp_path, end, persistent):
    result = run(tmp_path, backend, live(end, persistent=persistent))
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert gone(result.stdout.split())


@pytest.mark.parametrize("sleep", [0.01, 0.5])
def test_a_program_that_is_killed(backend, tmp_path, sleep):
    result = run(tmp_path, backend, live("os.kill(os.getpid(), signal.SIGKILL)", sleep))
    assert result.returncode == -signal.SIGKILL
    assert gone(result.stdout.split())


def test_ctrl_c(backend, tmp_path, beyond_pytorch):
    """The keys reach every process of the program; it ends at once, and says what it always says."""
    path = tmp_path / "program.py"
    path.write_text(program(backend, live("list(steps)", sleep=60)))
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    pids = process.stdout.readline().split()
    time.sleep(0.3)
    start = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT or process.returncode == 1
    assert stderr.rstrip().endswith("KeyboardInterrupt") and "Caught" not in stderr
    assert gone(pids) and time.monotonic() - start < 15


def test_an_interrupted_main_process_alone(backend, tmp_path, beyond_pytorch):
    """Without workers being told: they are ended all the same, though they hang."""
    code = live(
        "import threading\n"
        "    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        list(steps)\n"
        "    except KeyboardInterrupt:\n"
        "        pass\n"
        "    del steps, loader\n"
        "    print(len(multiprocessing.active_children()))",
        sleep=60,
    )
    result = run(tmp_path, backend, code)
    assert result.stdout.splitlines()[1] == "0", result.stderr
    assert gone(result.stdout.splitlines()[0].split())


def test_no_room_for_a_batch(backend, tmp_path, beyond_pytorch):
    """Memory that is used up is an error of the worker; nobody is killed by a page that is not there."""
    result = run(
        tmp_path,
        backend,
        """
        import resource
        def limit(number):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        loader = data.DataLoader([0], batch_size=None, num_workers=1, worker_init_fn=limit,
                                 collate_fn=lambda _: torch.zeros(1_000_000))
        try:
            list(loader)
        except RuntimeError as error:
            print("unable to allocate 4000000 bytes of shared memory" in str(error))
        limit(0)
        try:
            torch.zeros(1_000_000).share_memory_()
        except RuntimeError as error:
            print(error)
        """,
    )
    lines = result.stdout.splitlines()
    assert lines == ["True", "unable to allocate 4000000 bytes of shared memory: File too large (27)"], result.stderr


def test_a_small_dev_shm(backend, tmp_path, beyond_pytorch):
    """Containers have 64 MB of it, or less; batches do not lie there."""
    inside = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k tmpfs /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount")
    path = tmp_path / "program.py"
    path.write_text(
        program(
            backend,
            """
            loader = data.DataLoader(range(4), num_workers=2, collate_fn=lambda x: torch.ones(1_000_000) * x[0])
            print([b.sum().item() for b in loader], torch.ones(10**6).share_memory_().is_shared())
            """,
        )
    )
    result = subprocess.run([*inside, sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert result.stdout == "[0.0, 1000000.0, 2000000.0, 3000000.0] True\n", result.stderr


def test_few_descriptors_may_be_on_their_way(backend, tmp_path, beyond_pytorch):
    """A user who is not root may have as many descriptors in sockets as open files; workers wait then."""
    path = tmp_path / "program.py"
    path.write_text(
        program(
            backend,
            """
            import resource
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
            loader = data.DataLoader(range(3000), num_workers=2, prefetch_factor=500)
            steps = iter(loader)
            next(steps)
            time.sleep(1)
            print(sum(b.item() for b in steps))
            """,
        )
    )
    less = ["setpriv", "--bounding-set=-sys_admin,-sys_resource", "--"]
    if subprocess.run([*less, "true"], capture_output=True, check=False).returncode:
        pytest.skip("setpriv cannot be used")
    command = [*less, sys.executable, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.stdout == f"{sum(range(3000))}\n", result.stderr


def test_no_descriptors_left(backend, tmp_path, beyond_pytorch):
    result = run(
        tmp_path,
        backend,
        """
        import resource
        loader = data.DataLoader(range(40), num_workers=1, prefetch_factor=1)
        steps = iter(loader)
        next(steps)
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        files = []
        try:
            while True:
                files.append(open("/dev/null"))
        except OSError:
            pass
        try:
            list(steps)
        except RuntimeError as error:
            for file in files:
                file.close()
            print(error)
        """,
    )
    assert "Too many open files" in result.stdout and "ulimit -n" in result.stdout, result.stderr


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_that_are_not_forked(backend, tmp_path, method):
    result = run(
        tmp_path,
        backend,
        f"""
        class Squares(data.Dataset):
            def __init__(self):
                self.values = torch.arange(6) ** 2
            def __len__(self):
                return 6
            def __getitem__(self, i):
                return self.values[i], data.get_worker_info().id
        if __name__ == "__main__":
            for context in ({method!r}, multiprocessing.get_context({method!r})):
                loader = data.DataLoader(Squares(), 2, num_workers=2, multiprocessing_context=context)
                print([[part.tolist() for part in batch] for batch in loader])
        """,
    )
    assert result.stdout == "[[[0, 1], [0, 0]], [[4, 9], [1, 1]], [[16, 25], [0, 0]]]\n" * 2, result.stderr

"""Worker processes of the loader: what they bring, how they fail, and what is left of them."""

import io
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from processes import gone, running

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform != "linux", reason="counts processes and descriptors in /proc"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork"),
]


@pytest.fixture
def numbers(torch, data):
    """Sample i: [i, i], i, and what the worker is."""

    class Numbers(data.Dataset):
        def __init__(self, n=23):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            return torch.full((2,), float(i)), i

    return Numbers


@pytest.fixture
def failing(data):
    """Calls a function at sample 3."""

    class Failing(data.Dataset):
        def __init__(self, fail):
            self.fail = fail

        def __len__(self):
            return 8

        def __getitem__(self, i):
            if i == 3:
                self.fail()
            return i

    return Failing


def lists(batches):
    return [[part.tolist() if hasattr(part, "tolist") else part for part in batch] for batch in batches]


# ---- what they bring
@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": None},
        {"batch_sampler": [[3, 1], [2], [9, 9, 0]]},
        {"batch_size": 3, "sampler": [5, 4, 1, 0]},
        {"batch_size": 2, "prefetch_factor": 1},
        {"batch_size": 2, "prefetch_factor": 50},
        {"batch_size": 100, "pin_memory": False},
    ],
)
def test_batches_are_those_of_the_main_process(data, numbers, workers, options):
    alone = {key: value for key, value in options.items() if key != "prefetch_factor"}
    loader = data.DataLoader(numbers(), num_workers=workers, **options)
    assert lists(loader) == lists(loader) == lists(data.DataLoader(numbers(), **alone))
    assert len(iter(loader)) == len(loader)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_random_numbers_are_pytorchs(torch, data, oracle, persistent, own):
    """Orders, seeds of workers, what they draw, and what is left in the main process."""
    import torch.utils.data as reference

    old = np.random.rand

    def draws(lib, module):
        class Drawing(module.Dataset):
            def __len__(self):
                return 7

            def __getitem__(self, i):
                info = module.get_worker_info()
                return i, info.id, info.num_workers, info.seed, lib.rand(2).tolist(), random.random(), old()

        lib.manual_seed(5)
        generator = lib.Generator() if own else None
        if own:
            generator.manual_seed(8)
        loader = module.DataLoader(
            Drawing(), 2, shuffle=True, num_workers=2, generator=generator, persistent_workers=persistent,
            collate_fn=list,
        )
        passes = [list(loader) for _ in range(2)]
        return passes, lib.rand(2).tolist(), lib.rand(2, generator=generator).tolist()

    assert draws(torch, data) == draws(oracle, reference)


def test_what_a_worker_knows(data, numbers):
    assert data.get_worker_info() is None
    seen = list(
        data.DataLoader(
            numbers(4), collate_fn=lambda _: data.get_worker_info()[:3] if isinstance(data.get_worker_info(), tuple)
            else (data.get_worker_info().id, data.get_worker_info().num_workers, data.get_worker_info().seed),
            num_workers=2,
        )
    )
    assert [info[:2] for info in seen] == [(0, 2), (1, 2)] * 2
    assert seen[1][2] == seen[0][2] + 1

    def cannot_be_set(_):
        info = data.get_worker_info()
        with pytest.raises(AttributeError):
            info.id = 3
        return type(info.dataset).__name__

    assert list(data.DataLoader(numbers(1), collate_fn=cannot_be_set, num_workers=1)) == ["Numbers"]


def test_worker_init_fn(data, numbers):
    state = []
    loader = data.DataLoader(
        numbers(4), num_workers=2, worker_init_fn=lambda i: state.append(10 + i), collate_fn=lambda _: list(state)
    )
    assert list(loader) == [[10], [11], [10], [11]] and state == []


def test_kinds_of_tensors(torch, data):
    base = torch.arange(12.0)
    values = {
        "half": torch.ones(3, dtype=torch.bfloat16),
        "complex": torch.ones(2, dtype=torch.complex64),
        "flags": torch.tensor([True, False]),
        "number": torch.tensor(3),
        "none": torch.zeros(0, 3),
        "wide": torch.ones(1, 3).expand(4, 3),
        "turned": base.view(3, 4).t(),
        "leaf": torch.ones(2, requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "array": np.arange(5.0),
        "text": "x" * 10_000,
        "bytes": b"y" * 3,
    }
    got = next(iter(data.DataLoader([values], batch_size=None, num_workers=1, collate_fn=lambda x: x)))
    assert got.keys() == values.keys()
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            assert type(got[name]) is type(value) and got[name].requires_grad == value.requires_grad
            assert (got[name].dtype, got[name].shape) == (value.dtype, value.shape)
            assert got[name].tolist() == value.tolist()
        else:
            assert np.array_equal(got[name], value)
    assert got["turned"].stride() == (1, 4) and got["wide"].stride()[0] == 0
    got["array"][0] = 7  # what came is the receiver's


def test_tensors_lie_in_shared_memory_and_share_it_as_before(torch, data):
    base = torch.arange(100.0)
    views = [base[10:20], base[15:30], base[50:60], base[10:20]]
    loader = data.DataLoader([[*views, views[0]]], batch_size=None, collate_fn=lambda x: x, num_workers=1)
    a, b, c, d, again = next(iter(loader))
    assert all(x.is_shared() for x in (a, b, c, d)) and again is a
    a[5] = -1
    assert b[0] == -1 and d[5] == -1 and c.tolist() == list(range(50, 60)) and base[15] == 15


def test_only_what_a_tensor_shows_travels(torch, data, beyond_pytorch):
    rows = data.TensorDataset(torch.zeros(1000, 100))
    batch = next(iter(data.DataLoader(rows, 4, collate_fn=list, num_workers=1)))
    assert len(batch) == 4 and all(row.untyped_storage().nbytes() <= 416 for (row,) in batch)


def test_a_tensor_of_a_graph_is_refused(torch, data, beyond_pytorch):
    def graph(samples):
        return torch.ones(2, requires_grad=True) * 2

    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        list(data.DataLoader([0], num_workers=1, collate_fn=graph))


def test_long_messages_in_both_directions(data, beyond_pytorch):
    """Lists of indices, and pickles, that no socket has room for."""

    class Long(data.Dataset):
        def __len__(self):
            return 300_000

        def __getitem__(self, i):
            return i

        def __getitems__(self, indices):
            return [f"{i} " * 5 for i in indices]

    loader = data.DataLoader(Long(), 100_000, num_workers=2, prefetch_factor=3, collate_fn=list)
    assert [len(batch) for batch in loader] == [100_000] * 3


def test_a_loader_that_is_far_ahead(data, numbers):
    """More requests and answers than the sockets hold."""
    loader = data.DataLoader(numbers(5000), 1, num_workers=2, prefetch_factor=2000)
    steps = iter(loader)
    first = next(steps)
    time.sleep(0.3)
    assert first[1].item() == 0 and [y.item() for _, y in steps] == list(range(1, 5000))


def test_out_of_order(data):
    class Slow(data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            if i == 0:
                time.sleep(1)
            return i

    slow = Slow()
    assert [x.item() for x in data.DataLoader(slow, num_workers=2)] == list(range(8))
    got = [x.item() for x in data.DataLoader(slow, num_workers=2, in_order=False)]
    assert sorted(got) == list(range(8)) and got[-2:] == [0, 2]  # 2 waited for the same worker


def test_bad_contexts(data, numbers):
    for error, context in ((ValueError, "thread"), (TypeError, 3)):
        with pytest.raises(error, match="multiprocessing_context"):
            data.DataLoader(numbers(), num_workers=1, multiprocessing_context=context)


def test_what_cannot_be_pickled_for_a_worker(data):
    loader = data.DataLoader([1], num_workers=1, collate_fn=lambda x: x, multiprocessing_context="spawn")
    with warnings.catch_warnings(), pytest.raises((AttributeError, pickle.PicklingError)):
        warnings.simplefilter("ignore")
        next(iter(loader))


# ---- iterable datasets
@pytest.fixture
def stream(data):
    class Stream(data.IterableDataset):
        def __init__(self, n=7, divided=False):
            self.n, self.divided = n, divided

        def __iter__(self):
            info = data.get_worker_info()
            if self.divided and info is not None:
                return iter(range(info.id, self.n, info.num_workers))
            return iter(range(self.n))

        def __len__(self):
            return self.n

    return Stream


def test_streams(data, stream):
    assert lists([[b] for b in data.DataLoader(stream(4), 3, num_workers=2)]) == [[[0, 1, 2]]] * 2 + [[[3]]] * 2
    loader = data.DataLoader(stream(7, divided=True), 2, num_workers=3)
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[0, 3], [1, 4], [2, 5], [6]]
    kept = data.DataLoader(stream(7, divided=True), 2, num_workers=3, persistent_workers=True)
    assert [[b.tolist() for b in kept] for _ in range(3)] == [[[0, 3], [1, 4], [2, 5], [6]]] * 3
    assert list(data.DataLoader(stream(5, divided=True), None, num_workers=2)) == list(range(5))
    assert [b.tolist() for b in data.DataLoader(stream(5, True), 2, num_workers=2, drop_last=True)] == [[0, 2], [1, 3]]
    assert list(data.DataLoader(stream(0), 2, num_workers=2)) == []


def test_more_samples_than_a_stream_announced(data, stream):
    loader = data.DataLoader(stream(3), None, num_workers=2)
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3.*but 4 samples have been fetched"):
        assert len(list(loader)) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert len(list(data.DataLoader(stream(3), None, num_workers=2))) == 6


# ---- workers that stay
def test_persistent_workers_stay(data, numbers):
    loader = data.DataLoader(numbers(6), num_workers=2, persistent_workers=True, collate_fn=lambda _: os.getpid())
    first = list(loader)
    steps = iter(loader)
    assert next(steps) == first[0]  # broken off: what is still on its way does not get into the next pass
    assert list(loader) == first == list(loader)
    assert len(running(set(first))) == 2
    del steps, loader
    assert gone(set(first))


def test_persistent_workers_after_a_death(data, tmp_path, beyond_pytorch):
    class Deadly(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            if i == 2 and not os.path.exists(self.mark):
                open(self.mark, "w").close()
                os._exit(3)
            return i

    deadly = Deadly()
    deadly.mark = str(tmp_path / "died")
    loader = data.DataLoader(deadly, num_workers=2, persistent_workers=True)
    steps = iter(loader)
    with pytest.raises(RuntimeError, match="exited unexpectedly: exit code 3"):
        list(steps)
    with pytest.raises(RuntimeError, match="exited unexpectedly: exit code 3"):
        next(steps)
    assert [x.item() for x in loader] == [0, 1, 2, 3]


# ---- failures
class TwoArguments(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class WithMessage(Exception):
    message = "anything"

    def __init__(self, message):
        super().__init__(message)


def throw(error):
    raise error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("no three"), ValueError),
        (KeyError("no three"), KeyError),
        (FileNotFoundError(2, "no three"), FileNotFoundError),
        (StopIteration("no three"), Exception),
        (TwoArguments("no three", 1), RuntimeError),
        (WithMessage("no three"), WithMessage),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "no three"), RuntimeError),
    ],
)
def test_errors_come_with_the_workers_traceback(data, failing, error, kind):
    steps = iter(data.DataLoader(failing(lambda: throw(error)), num_workers=2))
    assert [next(steps).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(kind) as caught:
        next(steps)
    text = str(caught.value)
    assert text.startswith(f"Caught {type(error).__name__} in DataLoader worker process 1.\nOriginal Traceback")
    assert "no three" in text and "in throw" in text and "\\n" not in text
    if kind is not Exception:
        assert [x.item() for x in steps] == [4, 5, 6, 7]


def test_an_error_of_a_class_without_a_name(data, failing, beyond_pytorch):
    class Local(Exception):
        pass

    with pytest.raises(RuntimeError, match=r"(?s)Caught Local in DataLoader worker process 0.*no three"):
        list(data.DataLoader(failing(lambda: throw(Local("no three"))), num_workers=1))


def test_a_batch_that_cannot_be_pickled(data, beyond_pytorch):
    class Unpicklable:
        def __reduce__(self):
            raise TypeError("not me")

    with pytest.raises(TypeError, match=r"(?s)Caught TypeError in DataLoader worker process 0.*not me"):
        list(data.DataLoader([0], num_workers=1, collate_fn=lambda _: Unpicklable()))
    with pytest.raises((AttributeError, pickle.PicklingError), match="worker process 0"):
        list(data.DataLoader([0], num_workers=1, collate_fn=lambda _: lambda: 0))


class Unmakable:
    def __reduce__(self):
        return throw, (EOFError("not here"),)


def test_a_batch_that_cannot_be_unpickled(data, beyond_pytorch):
    steps = iter(data.DataLoader(range(4), num_workers=2, collate_fn=lambda x: Unmakable() if x[0] == 1 else x[0]))
    assert next(steps) == 0
    with pytest.raises(EOFError, match="not here"):
        next(steps)
    assert list(steps) == [2, 3]


def test_an_error_while_initialising(data, numbers, stream, beyond_pytorch):
    def init(number):
        raise ValueError("no worker")

    with pytest.raises(ValueError, match=r"(?s)worker process 0.*no worker"):
        list(data.DataLoader(numbers(), num_workers=2, worker_init_fn=init))

    class Bad(stream):
        def __iter__(self):
            raise OSError("no stream")

    with pytest.raises(OSError, match=r"(?s)worker process 0.*no stream"):
        list(data.DataLoader(Bad(), num_workers=1))


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by SIGKILL"),
        (lambda: sys.exit(4), "exit code 4"),
    ],
)
def test_a_worker_that_ends(data, failing, end, how, beyond_pytorch):
    loader = data.DataLoader(failing(end), num_workers=2)
    with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: {how}"):
        list(loader)
    assert not multiprocessing.active_children()


def test_a_worker_that_is_killed_while_it_waits(data, numbers, beyond_pytorch):
    steps = iter(data.DataLoader(numbers(), num_workers=2, collate_fn=lambda _: os.getpid(), prefetch_factor=1))
    pids = [next(steps), next(steps)]
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(RuntimeError, match=str(pids[0])):
        list(steps)
    assert gone(pids)


def test_a_worker_whose_child_keeps_the_connection(data, failing, beyond_pytorch):
    def end():
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        os._exit(5)

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="exit code 5"):
        list(data.DataLoader(failing(end), num_workers=1))
    assert time.monotonic() - start < 25


def test_a_worker_that_hangs(data, failing):
    loader = data.DataLoader(failing(lambda: time.sleep(60)), num_workers=2, timeout=1)
    start = time.monotonic()
    steps = iter(loader)
    with pytest.raises(RuntimeError, match="DataLoader timed out after 1 seconds"):
        list(steps)
    del steps
    assert time.monotonic() - start < 30


def test_timeouts_are_for_workers(data, numbers):
    with pytest.raises(AssertionError):
        next(iter(data.DataLoader(numbers(), timeout=1)))
    with pytest.raises(AssertionError, match="prefetch_factor"):
        iter(data.DataLoader(numbers(), num_workers=1, prefetch_factor=0))
    with pytest.raises(ValueError, match="prefetch_factor"):
        data.DataLoader(numbers(), num_workers=1, prefetch_factor=-1)


def test_more_workers_than_processors(data, numbers):
    with pytest.warns(UserWarning, match="This DataLoader will create 1000 worker processes in total"):
        data.DataLoader(numbers(), num_workers=1000)


# ---- what is left of them
def test_nothing_grows(torch, data, numbers):
    """Passes that end, are broken off, or fail: descriptors, processes and shared memory are as before."""

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    loader = data.DataLoader(numbers(), 4, num_workers=2)
    list(loader)
    before = descriptors()
    pids = set()
    for _ in range(25):
        list(loader)
        steps = iter(loader)
        next(steps)
        pids |= {process.pid for process in multiprocessing.active_children()}
        del steps
    assert descriptors() == before and gone(pids)


def test_batches_that_are_kept_use_no_descriptors(data, numbers, beyond_pytorch):
    before = len(os.listdir("/proc/self/fd"))
    batches = list(data.DataLoader(numbers(2000), 2, num_workers=2))
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert batches[-1][1].tolist() == [1998, 1999]


def test_two_loaders_and_threads(data, numbers):
    a, b = (data.DataLoader(numbers(6), 2, num_workers=1) for _ in range(2))
    pairs = [(x[1].tolist(), y[1].tolist()) for x, y in zip(a, b, strict=True)]
    assert pairs == [([0, 1],) * 2, ([2, 3],) * 2, ([4, 5],) * 2]
    inner = [(x[1].tolist(), [y[1].tolist() for y in b]) for x in a]
    assert inner == [([i, i + 1], [[0, 1], [2, 3], [4, 5]]) for i in (0, 2, 4)]
    results = []
    threads = [threading.Thread(target=lambda: results.append(lists(a))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 3 and results[0] == results[1] == results[2]


def test_loaders_inside_a_worker(data, numbers):
    inner = data.DataLoader(numbers(4), 2)
    seen = data.DataLoader([0, 1], num_workers=1, collate_fn=lambda _: lists(inner))
    assert list(seen) == [lists(inner)] * 2
    deep = data.DataLoader(numbers(4), 2, num_workers=1)
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        list(data.DataLoader([0], num_workers=1, collate_fn=lambda _: lists(deep)))


def test_kernels_in_forked_workers(torch, data):
    """The main process has used a team of threads, which its children do not have."""
    torch.ones(1000, 1000) @ torch.ones(1000, 1000)
    torch.ones(2_000_000).exp().sum()

    class Heavy(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return (torch.ones(300, 300) @ torch.ones(300, 300))[0, 0] + torch.ones(1_000_000).sum() * i

    assert [x.item() for x in data.DataLoader(Heavy(), num_workers=2)] == [300.0 + 1e6 * i for i in range(4)]


def test_a_loader_can_be_pickled_and_its_passes_cannot(data):
    loader = data.DataLoader(range(5), 2, num_workers=1, persistent_workers=True)
    steps = iter(loader)
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(steps)


def test_state_of_a_loader_is_plain(data):
    file = io.BytesIO()
    loader = data.DataLoader(range(5), 2, num_workers=2, prefetch_factor=3, timeout=4, in_order=False)
    pickle.dump(loader, file)
    again = pickle.loads(file.getvalue())
    assert (again.num_workers, again.prefetch_factor, again.timeout, again.in_order) == (2, 3, 4, False)

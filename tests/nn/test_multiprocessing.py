"""Shared memory, and tensors in the queues and pipes of `cygrad.multiprocessing`."""

import gc
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest


@pytest.fixture
def mp(torch):
    import importlib

    return importlib.import_module(torch.__name__ + ".multiprocessing").get_context("fork")


def run_child(mp, function, *args):
    process = mp.Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


# ---- moving memory
def test_a_forked_process_writes_into_shared_memory(torch, mp):
    t = torch.zeros(3)
    private = torch.zeros(3)
    assert not t.is_shared() and t.share_memory_() is t and t.is_shared() and t.share_memory_() is t

    def write():
        t.fill_(7)
        private.fill_(7)

    run_child(mp, write)
    assert t.tolist() == [7] * 3 and private.tolist() == [0] * 3


def test_everything_over_the_memory_moves_along(torch):
    t = torch.arange(6.0)
    view, alias, other, part = t.view(2, 3), t.data, t.detach(), t[4:]
    before = t.data_ptr()
    t.share_memory_()
    assert t.data_ptr() != before and len({x.data_ptr() for x in (t, view, alias, other)}) == 1
    assert all(x.is_shared() for x in (view, alias, other, part))
    t.add_(1)
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]] and part.tolist() == [5, 6] and alias[0] == 1
    part[0] = -1
    assert t[4] == -1 and part.storage_offset() == 4


def test_gradients_go_on_after_a_move(torch):
    w = torch.ones(3, requires_grad=True)
    view = w * 2
    loss = (view * w).sum()
    w.share_memory_()
    loss.backward()
    assert w.grad.tolist() == [4] * 3 and w.is_leaf and w.requires_grad
    with torch.no_grad():
        w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        z = y.sum()
        y.share_memory_()
        y.add_(1)
        z.backward()


def test_memory_whose_address_is_known_elsewhere(torch, beyond_pytorch):
    for lend in (lambda t: t.numpy(), memoryview, lambda t: t.untyped_storage()[1:], lambda t: t.__dlpack__()):
        t = torch.zeros(4)
        lent = lend(t)
        before = t.data_ptr()
        with pytest.raises(RuntimeError, match=r"share_memory_\(\).*NumPy"):
            t.share_memory_()
        assert t.data_ptr() == before and not t.is_shared()
        del lent
        gc.collect()
        assert t.share_memory_().is_shared()


def test_moving_loses_no_write_of_another_thread(torch, beyond_pytorch):
    for _ in range(5):
        t = torch.zeros(1_000_000)
        thread = threading.Thread(target=lambda t=t: [t.add_(1) for _ in range(40)])
        thread.start()
        while t[-1] < 2:
            pass
        t.share_memory_()
        thread.join()
        assert t.is_shared() and (t == 40).all()


def test_a_slice_of_a_storage_stays_with_it(torch, beyond_pytorch):
    t = torch.zeros(4)
    part = torch.empty(0).set_(t.untyped_storage()[8:])
    with pytest.raises(RuntimeError, match="share_memory_"):
        part.share_memory_()
    part.fill_(3)
    assert t.tolist() == [0, 0, 3, 3]


def test_a_mapped_file_stays_one(torch, mp, tmp_path, beyond_pytorch):
    t = torch.from_file(str(tmp_path / "numbers"), shared=True, size=3)
    assert t.share_memory_() is t
    here, there = mp.Pipe()
    here.send(t)
    assert there.recv().tolist() == [0] * 3
    t.fill_(1)
    assert (tmp_path / "numbers").read_bytes() == np.ones(3, dtype=np.float32).tobytes()


def test_memory_of_others_moves_too(torch):
    array = np.arange(3.0)
    t = torch.from_numpy(array).share_memory_()
    t[0] = 5
    assert t.tolist() == [5, 1, 2] and array[0] == 0


def test_moves_give_memory_back(torch, beyond_pytorch):
    from cygrad.storage.core import memory_stats

    torch.zeros(1000).share_memory_()
    fds, live = len(os.listdir("/proc/self/fd")), memory_stats()["live_bytes"]
    for n in (0, 1, 100, 10**6):
        t = torch.ones(n).share_memory_()
        assert t.sum() == n
        del t
    assert (len(os.listdir("/proc/self/fd")), memory_stats()["live_bytes"]) == (fds, live)


# ---- queues and pipes
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_both_sides_see_the_same_memory(torch, mp, dtype):
    here, there = mp.Pipe()
    t = torch.ones(2, 3, dtype=getattr(torch, dtype))[:, 1:]

    def answer():
        got = there.recv()
        assert got.is_shared() and got.tolist() == [[1, 1]] * 2 and got.stride() == (3, 1)
        got.fill_(0)
        there.send(got)
        there.recv()  # a descriptor is taken from the process that sends it

    process = mp.Process(target=answer)
    process.start()
    here.send(t)
    back = here.recv()
    here.send(None)
    process.join(60)
    assert process.exitcode == 0
    assert t.is_shared() and t.tolist() == [[0, 0]] * 2 and back.tolist() == t.tolist()
    t.fill_(1)
    assert back.tolist() == [[1, 1]] * 2


def test_a_queue_keeps_what_shares_memory_together(torch, mp):
    queue, done = mp.Queue(), mp.Event()
    base = torch.arange(6.0)

    def put():
        queue.put({"base": base, "part": base[2:4], "leaf": torch.nn.Parameter(base[:2]), "empty": torch.zeros(0, 2)})
        queue.put(base)
        done.wait(60)

    process = mp.Process(target=put)
    process.start()
    got, again = queue.get(timeout=60), queue.get(timeout=60)
    done.set()
    process.join(60)
    got["base"].mul_(2)
    assert got["part"].tolist() == [4, 6] and again.tolist() == [0, 2, 4, 6, 8, 10]
    assert type(got["leaf"]) is torch.nn.Parameter and got["leaf"].requires_grad and got["empty"].shape == (0, 2)


def test_a_tensor_of_a_graph_stays_here(torch, mp):
    here, _there = mp.Pipe()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        here.send(torch.ones(2, requires_grad=True) * 2)


def test_memory_that_cannot_move_is_copied(torch, mp, beyond_pytorch):
    here, there = mp.Pipe()
    t = torch.arange(3.0)
    array = t.numpy()
    here.send(t)
    got = there.recv()
    got[0] = 9
    assert got.tolist() == [9, 1, 2] and array.tolist() == t.tolist() == [0, 1, 2] and not t.is_shared()


def test_pools(torch, mp):
    with mp.Pool(2) as pool:
        assert [x.tolist() for x in pool.map(torch.exp, [torch.zeros(2), torch.zeros(1)])] == [[1, 1], [1]]


def test_strategies(torch):
    import importlib

    module = importlib.import_module(torch.__name__ + ".multiprocessing")
    assert module.get_sharing_strategy() in module.get_all_sharing_strategies()
    with pytest.raises(AssertionError):
        module.set_sharing_strategy("by hand")
    assert set(multiprocessing.__all__) <= set(dir(module))


# ---- spawn
def spawned(torch, tmp_path, code):
    path = tmp_path / "program.py"
    path.write_text(f"import os, signal, sys, time\nimport {torch.__name__} as torch\n"
                    f"import {torch.__name__}.multiprocessing as mp\n" + textwrap.dedent(code))
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False)


def test_spawn(torch, tmp_path):
    result = spawned(torch, tmp_path, """
        def work(i, values, queue):
            values[i] = i + 1
            queue.put((i, values))
            queue.close()
        if __name__ == "__main__":
            values = torch.zeros(3).share_memory_()
            queue = mp.get_context("spawn").SimpleQueue()
            assert mp.spawn(work, (values, queue), nprocs=3) is None
            print(values.tolist())
    """)
    assert result.stdout == "[1.0, 2.0, 3.0]\n", result.stderr


@pytest.mark.parametrize(
    ("end", "kind", "text"),
    [
        ("raise ValueError('not me')", "ProcessRaisedException", "Process 1 terminated with the following error"),
        ("sys.exit(3)", "ProcessExitedException", "process 1 terminated with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ProcessExitedException", "process 1 terminated with signal SIGKILL"),
    ],
)
def test_a_failure_ends_all(torch, tmp_path, end, kind, text):
    start = time.monotonic()
    result = spawned(torch, tmp_path, f"""
        def work(i):
            if i == 1:
                {end}
            time.sleep(100)
        if __name__ == "__main__":
            try:
                mp.start_processes(work, nprocs=3, start_method="fork")
            except Exception as error:
                print(type(error).__name__, error.error_index, error)
    """)
    assert result.stdout.startswith(f"{kind} 1") and text in result.stdout, result.stderr
    assert "raise" not in end or "ValueError: not me" in result.stdout
    assert time.monotonic() - start < 60


def test_modules_share_their_memory(torch, nn, mp):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].weight.sum().backward()
    tied = nn.ModuleList([model, model[0]])
    weight = model[0].weight
    assert tied.share_memory() is tied and weight is model[0].weight
    assert all(t.is_shared() for t in (*tied.parameters(), *tied.buffers(), weight.grad))

    def train():
        with torch.no_grad():
            weight.fill_(5)
        model[1].running_mean.fill_(6)

    run_child(mp, train)
    assert model[0].weight.tolist() == [[5, 5]] * 2 and model[1].running_mean.tolist() == [6, 6]

"""Shared memory that carries one batch after another: what is still used is never written over."""

import gc
import os
import sys
import time

import numpy as np
import pytest

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork"),
]

WIDE = 20_000  # numbers of a sample: batches of two are larger than what gets a file each


@pytest.fixture
def wide(data, torch):
    """Sample i: WIDE times i, as a tensor and as an array."""

    class Wide(data.Dataset):
        def __len__(self):
            return 60

        def __getitem__(self, i):
            return torch.full((WIDE,), float(i)), np.full(WIDE, i, dtype=np.int32)

    return Wide()


def as_they_come(samples):
    return samples


def right(batch, first):
    (x, a), (y, b) = batch
    ends = x.min().item(), x.max().item(), y.min().item(), y.max().item(), a.min(), a.max(), b.min(), b.max()
    return ends == (first, first, first + 1, first + 1) * 2


def places(loader, keep):
    """Addresses of the batches of a pass, of which the last `keep` are not let go."""
    kept, seen = [], []
    for batch in loader:
        seen.append(min(x.data_ptr() for x, _ in batch))
        kept = [*kept, batch][-keep:] if keep else []
        del batch
    return seen


def test_memory_is_used_again(data, wide, beyond_pytorch):
    loader = data.DataLoader(wide, 2, collate_fn=as_they_come, num_workers=1, persistent_workers=True)
    first, second = places(loader, 0), places(loader, 0)
    assert len({*first, *second}) <= 4 and len(set(places(loader, 5))) > 4
    del loader


def test_what_is_kept_stays(data, wide, torch):
    """Batches, some samples, views, NumPy's views of tensors, and tensors over NumPy's arrays."""
    loader = data.DataLoader(wide, 2, collate_fn=as_they_come, num_workers=2, persistent_workers=True)
    for _ in range(2):
        batches, parts = [], []
        for i, batch in enumerate(loader):
            (x, a), (y, b) = batch
            kind = i % 6
            if kind == 0:
                batches.append((2 * i, batch))
            elif kind < 5:
                parts.append((2 * i, (x[5:9], x.numpy()[3:], torch.from_numpy(a), b[::7] - 1)[kind - 1]))
            del batch, x, a, y, b
        assert len(batches) == 5 and all(right(batch, first) for first, batch in batches)
        assert len(parts) == 20 and all(part.min() == part.max() == first for first, part in parts)


def test_all_batches_of_a_pass(data, wide, beyond_pytorch):
    """More than there are blocks; then they are let go, and the next pass has right ones again."""
    loader = data.DataLoader(wide, 2, collate_fn=as_they_come, num_workers=1, persistent_workers=True)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        batches = list(loader)
        assert all(right(batch, 2 * i) for i, batch in enumerate(batches))
        assert len(os.listdir("/proc/self/fd")) <= before + 4
        del batches


def test_sizes_that_vary(data, torch):
    sizes = [10, 50_000, 9_000, 200_000, 20_000, 1, 300_000, 8_200, 60_000, 0] * 4
    loader = data.DataLoader([torch.full((n,), float(i)) for i, n in enumerate(sizes)], batch_size=None, num_workers=1)
    for i, x in enumerate(loader):
        assert len(x) == sizes[i] and bool((x == i).all())


def test_passes_that_are_broken_off(data, wide):
    """What a worker still answers about a pass is not looked at, and its memory is used again."""
    loader = data.DataLoader(wide, 2, collate_fn=as_they_come, num_workers=2, persistent_workers=True)
    kept = []
    for _ in range(30):
        steps = iter(loader)
        kept = [*kept, next(steps)][-3:]
    assert all(right(batch, 0) for batch in kept)
    assert all(right(batch, 2 * i) for i, batch in enumerate(loader))


def test_a_forked_process_keeps_its_batch(data, wide):
    """Its parent lets go of the batch; the workers may not write over what the child still has."""
    loader = data.DataLoader(wide, 2, collate_fn=as_they_come, num_workers=1, persistent_workers=True)
    steps = iter(loader)
    batch = next(steps)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        ok = False
        try:
            os.close(write)
            os.read(read, 1)  # until the parent has closed the pipe
            ok = right(batch, 0)
        finally:
            os._exit(0 if ok else 1)
    os.close(read)
    del batch
    for _ in steps:
        pass
    list(loader)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0


def test_batches_do_not_wait_for_the_collector(data, torch, beyond_pytorch):
    """Neither in the worker, where each batch would take new memory, nor here."""

    class Memory(data.Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, i):
            gc.disable()
            x = torch.zeros(1_000_000)
            return x, torch.tensor(x.data_ptr())

    gc.disable()
    try:
        loader = data.DataLoader(Memory(), batch_size=None, num_workers=1)
        here, there = zip(*[(x.data_ptr(), place.item()) for x, place in loader], strict=True)
    finally:
        gc.enable()
    assert len(set(there)) <= 2 and len(set(here)) <= 5


def test_no_room_to_grow(data, torch, beyond_pytorch):
    """An error, and the blocks that there are go on."""

    def limit(number):
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    sizes = [20_000, 30_000, 40_000, 300_000, 200_000]
    loader = data.DataLoader(
        [torch.full((n,), float(i)) for i, n in enumerate(sizes)],
        batch_size=None,
        num_workers=1,
        worker_init_fn=limit,
        prefetch_factor=1,
    )
    steps = iter(loader)
    for i in range(3):
        assert next(steps).sum().item() == i * sizes[i]
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match=r"unable to allocate 1200[0-9]* bytes of shared memory: File too large"):
        next(steps)
    assert next(steps).sum().item() == 4 * 200_000

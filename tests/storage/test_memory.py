"""The block cache and Storage: alignment, reuse, limits, counters, and what keeps memory alive."""

import copy
import gc
import itertools
import pickle
import random
import resource
import subprocess
import sys
import weakref

import numpy as np
import pytest

from cygrad.storage import Storage, empty_cache, float32, memory_stats, reset_peak
from cygrad.storage.array import Array

HUGE = 2 << 20


@pytest.fixture(autouse=True)
def clean():
    """Each test starts and ends with an empty cache."""
    gc.collect()
    empty_cache()
    before = memory_stats()
    yield
    gc.collect()
    empty_cache()
    after = memory_stats()
    assert after["cached_bytes"] == 0
    assert (after["live_bytes"], after["live_storages"]) == (before["live_bytes"], before["live_storages"])


def fill(s, byte):
    """Write the whole storage."""
    if s.nbytes():
        s[:] = byte


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4095, 4096, 4097, 70000, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 77])
def test_blocks_are_aligned_and_whole(n):
    kept = [Storage(n) for _ in range(3)]
    for i, s in enumerate(kept):
        assert s.data_ptr() % 64 == 0
        assert n < HUGE or s.data_ptr() % HUGE == 0
        fill(s, i + 1)
    for i, s in enumerate(kept):
        assert (s[0], s[n // 2], s[n - 1]) == (i + 1,) * 3


@pytest.mark.parametrize("n", [1, 64, 4096, 4097, 100000, 3 * HUGE])
def test_a_freed_block_is_the_next_one_given_out(n):
    s = Storage(n)
    at = s.data_ptr()
    del s
    assert memory_stats()["cached_bytes"] >= n
    assert Storage(n).data_ptr() == at


def test_neighbouring_sizes_share_a_class():
    s = Storage(1_000_000)
    at = s.data_ptr()
    del s
    assert Storage(1_000_001).data_ptr() == at


@pytest.mark.parametrize("seed", range(3))
def test_live_blocks_never_overlap(seed):
    """Thousands of random allocations and frees; each block keeps its own byte at both ends."""
    rng = random.Random(seed)
    live = []
    for step in range(6000):
        if live and rng.random() < 0.48:
            s, byte = live.pop(rng.randrange(len(live)))
            assert s[0] == s[s.nbytes() - 1] == byte
        else:
            n = rng.randint(1, rng.choices([200, 5000, 100_000, 3 * HUGE], [4, 4, 2, 1])[0])
            s = Storage(n)
            s[0] = s[n - 1] = step % 251
            live.append((s, step % 251))
    spans = sorted((s.data_ptr(), s.data_ptr() + s.nbytes()) for s, _ in live)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert all(s[0] == s[s.nbytes() - 1] == byte for s, byte in live)


def test_counters_follow_every_storage():
    start = memory_stats()
    a = Storage(1000)
    b = Storage(50_000)
    middle = memory_stats()
    assert middle["live_bytes"] - start["live_bytes"] == 51_000
    assert middle["live_storages"] - start["live_storages"] == 2
    reset_peak()
    c = Storage(7_000_000)
    del c
    assert memory_stats()["peak_bytes"] == middle["live_bytes"] + 7_000_000
    del a, b
    assert memory_stats()["live_bytes"] == start["live_bytes"]


def test_the_cache_is_bounded_and_gives_back_the_oldest():
    cap = 256 << 20
    blocks = [Storage(n) for n in range(20 << 20, 60 << 20, 2 << 20)]
    assert sum(s.nbytes() for s in blocks) > 2 * cap
    newest = blocks[-1].data_ptr()
    while blocks:
        del blocks[0]
        assert memory_stats()["cached_bytes"] <= cap
    assert Storage(58 << 20).data_ptr() == newest
    before = memory_stats()["cached_bytes"]
    del newest
    Storage(20 << 20)  # the first one freed is gone, so this is new memory
    assert memory_stats()["cached_bytes"] > before - (60 << 20)


def test_a_block_above_the_cap_is_not_kept():
    s = Storage(300 << 20)
    del s
    assert memory_stats()["cached_bytes"] == 0


def test_blocks_that_nobody_asks_for_grow_old():
    old = Storage(1_000_000)
    del old
    for _ in range(30_000):
        Storage(10_000)
    assert memory_stats()["cached_bytes"] < 1_000_000


def test_small_blocks_are_kept_in_bounded_number():
    blocks = [Storage(100) for _ in range(1000)]
    del blocks
    assert memory_stats()["cached_bytes"] == 64 * 128


def test_the_resident_set_stays_flat():
    """The same work again and again takes no more memory than the first time."""

    def work():
        kept = [Array.empty(n).fill_(1) for n in range(1000, 400_000, 1777)]
        return sum(Array.call("add", a, a).numel() for a in kept)

    work()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        work()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024


@pytest.mark.parametrize("n", [2**50, 2**62, 2**62 + 1, 2**63 - 1])
def test_too_large_a_request_names_its_size_and_changes_nothing(n):
    before = memory_stats()
    with pytest.raises(RuntimeError, match=f"can't allocate memory: you tried to allocate {n} bytes"):
        Storage(n)
    after = memory_stats()
    assert after["live_bytes"] == before["live_bytes"]
    assert after["live_storages"] == before["live_storages"]


def test_negative_size():
    with pytest.raises(RuntimeError, match="-1"):
        Storage(-1)


def test_the_cache_is_given_up_before_memory_runs_out():
    """With a limit on address space, blocks in the cache make room for a size that they do not fit."""
    program = """
import resource
from cygrad.storage import Storage, memory_stats
def grown():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (grown() + (300 << 20),) * 2)
blocks = [Storage(60 << 20) for _ in range(4)]
del blocks
assert memory_stats()["cached_bytes"] >= 240 << 20
s = Storage(230 << 20)
assert memory_stats()["cached_bytes"] == 0
try:
    Storage(230 << 20)
except RuntimeError as e:
    assert str(230 << 20) in str(e), e
else:
    raise SystemExit("the limit had no effect")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- Storage as Python sees it
def test_an_empty_storage_has_no_address():
    s = Storage(0)
    assert (s.nbytes(), len(s), s.data_ptr(), s.tolist()) == (0, 0, 0, [])
    with pytest.raises(IndexError):
        s[0]


def test_bytes_are_read_and_written():
    s = Storage(4)
    s[:] = 7
    s[1] = 255
    s[-1] = 256 + 3
    assert s.tolist() == [7, 255, 7, 3]
    assert s[1:3].tolist() == [255, 7]
    assert s[3:1].tolist() == []
    assert s._version == 3


def test_a_slice_shares_and_keeps_the_memory():
    s = Storage(100)
    s[:] = 1
    part = s[10:20]
    part[0] = 9
    assert s[10] == 9
    gone = weakref.ref(s)
    del s
    gc.collect()
    assert gone() is not None
    assert part.tolist() == [9] + [1] * 9
    del part
    assert gone() is None


@pytest.mark.parametrize("index", [4, -5, 2**70, -(2**70)])
def test_an_index_outside_is_refused(index):
    s = Storage(4)
    with pytest.raises(IndexError, match=f"{index} is out of range for a storage of 4 bytes"):
        s[index]
    with pytest.raises(IndexError, match=f"{index} is out of range"):
        s[index] = 1
    assert s._version == 0


def test_what_is_no_byte_is_refused():
    s = Storage(4)
    s[:] = 5
    with pytest.raises(RuntimeError, match=r"1\.5"):
        s[0] = 1.5
    for bad in ("a", 1.0, None):
        with pytest.raises(TypeError):
            s[bad]
    with pytest.raises(RuntimeError, match="step 1, not 2"):
        s[::2]
    with pytest.raises(RuntimeError, match="step 1, not 2"):
        s[::2] = 1
    assert s.tolist() == [5, 5, 5, 5]


def test_it_is_initialised_once():
    s = Storage(8)
    at = s.data_ptr()
    with pytest.raises(RuntimeError, match="once"):
        s.__init__(16)
    assert (s.data_ptr(), s.nbytes()) == (at, 8)


def test_it_prints_as_pytorchs():
    s = Storage(2)
    s[0], s[1] = 1, 20
    assert repr(s) == " 1\n 20\n[torch.storage.UntypedStorage(device=cpu) of size 2]"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
@pytest.mark.parametrize("n", [0, 5])
def test_a_copy_has_the_bytes_and_memory_of_its_own(again, n):
    s = Storage(n)
    fill(s, 7)
    c = again(s)
    assert c.tolist() == [7] * n
    assert n == 0 or c.data_ptr() != s.data_ptr()
    borrowed = Array(b"abc").memory
    assert again(borrowed).tolist() == list(b"abc")
    assert not again(borrowed)._readonly


def test_weak_references_end_with_the_storage():
    s = Storage(8)
    gone = weakref.ref(s)
    del s
    assert gone() is None


def test_an_array_keeps_its_storage_until_the_last_buffer_is_released():
    a = Array.empty(3, dtype=float32).fill_(2)
    gone = weakref.ref(a.memory)
    n = np.asarray(a)
    del a
    assert gone() is not None
    assert n.tolist() == [2, 2, 2]
    del n
    assert gone() is None

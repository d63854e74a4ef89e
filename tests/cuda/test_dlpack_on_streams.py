"""Memory that libraries share is used again only when the streams of both are done with it."""

import pytest

import cygrad
from cygrad.storage import cuda as devices

pytestmark = pytest.mark.usefixtures("any_devices")
N = 1 << 16


def ones():
    x = cygrad.ones(N, device="cuda")
    cygrad.cuda.synchronize()
    return x


def overwrite():
    """Another tensor in the memory that was given back last, if it was given back."""
    x = cygrad.full((N,), 7.0, device="cuda")
    cygrad.cuda.default_stream().synchronize()
    return x


def test_a_consumer_on_a_stream_of_its_own():
    x, s = ones(), cygrad.cuda.Stream()
    taken = cygrad.from_dlpack(x.__dlpack__(stream=s.cuda_stream))
    del x
    with cygrad.cuda.stream(s):
        y = taken * 2
    del taken
    kept = overwrite()
    s.synchronize()
    assert y.tolist() == [2] * N and kept[0].item() == 7


def test_a_producer_whose_memory_was_used_on_a_stream():
    x, s = ones(), cygrad.cuda.Stream()
    with cygrad.cuda.stream(s):
        taken = cygrad.from_dlpack(x)
        del x
        y = taken * 2
        del taken
    kept = overwrite()
    s.synchronize()
    assert y.tolist() == [2] * N and kept[0].item() == 7


def test_record_stream_counts_for_memory_of_others():
    x, s = ones(), cygrad.cuda.Stream()
    taken = cygrad.from_dlpack(x.__dlpack__(stream=1))
    del x
    with cygrad.cuda.stream(s):
        y = taken * 2
    taken.record_stream(s)
    del taken
    kept = overwrite()
    s.synchronize()
    assert y.tolist() == [2] * N and kept[0].item() == 7


def test_a_copy_is_made_before_the_memory_goes_back():
    x, s = ones(), cygrad.cuda.Stream()
    with cygrad.cuda.stream(s):
        y = cygrad.from_dlpack(x, copy=True)
        del x
    kept = overwrite()
    s.synchronize()
    assert y.tolist() == [1] * N and kept[0].item() == 7


def test_what_is_empty_has_no_address():
    x = cygrad.from_dlpack(cygrad.empty(0, 3, device="cuda"))
    assert x.shape == (0, 3) and x.is_cuda and x.data_ptr() == 0


@pytest.mark.usefixtures("imitated_devices")
def test_memory_of_a_stream_that_the_default_one_reads():
    s = cygrad.cuda.Stream()
    with cygrad.cuda.stream(s):
        x = cygrad.ones(N, device="cuda")
    capsule = x.__dlpack__(stream=1)
    later = cygrad.zeros(1, device="cuda")                  # stands for what the consumer does
    before = cygrad.cuda.memory_stats()
    del x, capsule
    after = cygrad.cuda.memory_stats()
    held = [(b - a) // (4 * N) for a, b in ((after[k], before[k]) for k in (
        "allocated_bytes.all.current", "active_bytes.all.current"))]  # fmt: skip
    assert held == [1, 0] and later.tolist() == [0]


def test_a_stream_beside_a_copy_on_the_cpu(monkeypatch):
    """The copy is of no device, so that none is waited for when it goes."""
    x, s, real, waits = ones(), cygrad.cuda.Stream(), devices.extension(), []

    class Spied:
        wait_for = staticmethod(lambda *given: waits.append(given))

        def __getattr__(self, name):
            return getattr(real, name)

    monkeypatch.setattr(devices, "extension", Spied)
    y = cygrad.from_dlpack(x.__dlpack__(stream=s.cuda_stream, dl_device=(1, 0)))
    assert y.is_cpu and y.tolist() == [1] * N
    del y
    assert waits == []

"""What belongs to a thread, to a process, or to nobody any more: default devices, streams, pinned memory, forks."""

import io
import os
import threading

import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("two_devices")
def test_the_default_device_is_one_of_a_thread():
    try:
        cygrad.set_default_device("cuda:1")
        assert cygrad.ones(2).is_cuda and cygrad.get_default_device() == cygrad.device("cuda:1")
        assert in_thread(lambda: cygrad.ones(2).is_cpu and str(cygrad.get_default_device()) == "cpu")
        with cygrad.device("cpu"):
            assert cygrad.ones(2).is_cpu
    finally:
        cygrad.set_default_device(None)

    def elsewhere():
        with cygrad.device("cuda"):
            inside.set()
            done.wait(10)
            return cygrad.ones(2).is_cuda

    inside, done, found = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: found.append(elsewhere()))
    thread.start()
    inside.wait(10)
    assert cygrad.ones(2).is_cpu
    done.set()
    thread.join()
    assert found == [True]


def test_streams_that_are_chosen_no_more_are_used_again():
    seen = set()
    for _ in range(50):
        cygrad.cuda.set_stream(cygrad.cuda.Stream())
        with cygrad.cuda.stream(cygrad.cuda.Stream()):
            pass
        seen.add(cygrad.cuda.current_stream().cuda_stream)
    cygrad.cuda.set_stream(cygrad.cuda.default_stream())
    assert len(seen) <= 4 and cygrad.cuda.current_stream().cuda_stream == 0


@pytest.mark.usefixtures("two_devices")
def test_contexts_of_streams_give_back_what_was_there():
    s, t, far = cygrad.cuda.Stream(), cygrad.cuda.Stream(), cygrad.cuda.Stream("cuda:1")
    with cygrad.cuda.stream(s):
        with cygrad.cuda.stream(far):
            assert cygrad.cuda.current_device() == 1 and cygrad.cuda.current_stream() == far
            with cygrad.cuda.stream(t):
                assert cygrad.cuda.current_stream() == t and cygrad.cuda.current_stream(1) == far
            assert cygrad.cuda.current_stream(0) == s
        assert cygrad.cuda.current_stream() == s and cygrad.cuda.current_device() == 0
    assert cygrad.cuda.current_stream(1).cuda_stream == cygrad.cuda.current_stream().cuda_stream == 0


def test_page_locked_memory_lives_until_its_copy_is_done():
    s = cygrad.cuda.Stream()
    cygrad.cuda.empty_cache()
    with cygrad.cuda.stream(s):
        cygrad.zeros(4000, device="cuda").add_(1)           # work that the copies have to wait for
        copies = [cygrad.full((4000,), float(k)).pin_memory().to("cuda", non_blocking=True) for k in range(5)]
        cygrad.cuda.empty_cache()
        later = [cygrad.full((4000,), -1.0).pin_memory() for _ in range(5)]
    s.synchronize()
    assert [c.unique().tolist() for c in copies] == [[float(k)] for k in range(5)]
    places = {x.data_ptr() for x in later}
    del later
    assert cygrad.ones(4000).pin_memory().data_ptr() in places          # it is kept for reuse


@pytest.mark.usefixtures("imitated_devices")
def test_copies_to_page_locked_memory_go_on():
    s = cygrad.cuda.Stream()
    x, y = cygrad.arange(1000.0, device="cuda"), cygrad.zeros(1000).pin_memory()
    cygrad.cuda.synchronize()
    with cygrad.cuda.stream(s):
        y.copy_(x * 2, non_blocking=True)
    assert not y.any()
    s.synchronize()
    assert y.tolist() == (cygrad.arange(1000.0) * 2).tolist()
    z = cygrad.zeros(1000)
    with cygrad.cuda.stream(s):
        z.copy_(x * 3, non_blocking=True)
    assert z[1] == 3                                        # other memory is there when the copy returns


@pytest.mark.usefixtures("two_devices")
def test_other_threads_copy_as_they_say(monkeypatch):
    """Whether a copy may go on is asked of the thread that makes it."""
    x = cygrad.ones(1000).pin_memory()
    stop, wrong = threading.Event(), []

    def blocking():
        while not stop.is_set():
            y = cygrad.zeros(1000).pin_memory()
            y.copy_(cygrad.ones(1000, device="cuda:1"))
            if not bool((y == 1).all()):
                wrong.append(y)

    thread = threading.Thread(target=blocking)
    thread.start()
    for _ in range(300):
        x.to("cuda", non_blocking=True)
    stop.set()
    thread.join()
    assert not wrong


def test_a_forked_child_is_told():
    x, stream, event = cygrad.ones(3, device="cuda"), cygrad.cuda.Stream(), cygrad.cuda.Event()
    event.record()
    words = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn'"
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:                                          # no exception may leave this branch
        told = []
        calls = [lambda: cygrad.ones(3).cuda(), lambda: x + 1, x.tolist, lambda: cygrad.cuda.synchronize(), x.cpu,
                 lambda: cygrad.zeros(2, device="cuda:1"), lambda: cygrad.cuda.Stream(),
                 event.record, event.query, event.synchronize, stream.query, stream.synchronize, stream.record_event,
                 lambda: stream.wait_event(event), lambda: x.record_stream(stream), lambda: event.record(stream),
                 lambda: cygrad.ones(3).pin_memory()]  # fmt: skip
        for call in calls:
            try:
                call()
                told.append("nothing")
            except BaseException as error:
                told.append(f"{type(error).__name__}: {error}")
        try:
            del x, call, calls
            cygrad.manual_seed(1)
            told.append(f"{cygrad.cuda.is_available()} {cygrad.ones(2).sum().item()}")
        finally:
            os.write(writing, "\n".join(told).encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read().decode().split("\n")
    assert os.waitpid(child, 0)[1] == 0
    assert all(line.startswith("RuntimeError: ") and words in line for line in told[:-1]), told
    assert told[-1] == "False 2.0" and x.tolist() == [1, 1, 1]


@pytest.mark.usefixtures("two_devices")
def test_loading_without_room_says_so():
    file = io.BytesIO()
    cygrad.save(cygrad.ones(1000, 1000), file)
    cygrad.cuda.empty_cache()
    file.seek(0)
    cygrad.cuda.set_per_process_memory_fraction(0.0, 1)
    try:
        with pytest.raises(cygrad.cuda.OutOfMemoryError, match=r"out of memory\. Tried to allocate 3\.81 MiB"):
            cygrad.load(file, map_location="cuda:1")
    finally:
        cygrad.cuda.set_per_process_memory_fraction(1.0, 1)
    file.seek(0)
    with pytest.raises(RuntimeError, match="deserialize object on device 'cuda:7', which is not available"):
        cygrad.load(file, map_location="cuda:7")
    file.seek(0)
    assert cygrad.load(file, map_location=lambda storage, place: storage.cuda(1)).sum().item() == 1e6

"""The order of work on streams. Imitated devices put work off until something waits for it, so that mistakes show."""

import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


@pytest.mark.usefixtures("imitated_devices")
def test_work_is_put_off_until_something_waits():
    x = cygrad.zeros(4, device="cuda")
    x.tolist()
    s = cygrad.cuda.Stream()
    with cygrad.cuda.stream(s):
        x.fill_(1)
    assert not s.query() and x.tolist() == [1] * 4          # asking let one piece of work be done
    with cygrad.cuda.stream(s):
        x.fill_(2)
    assert x.tolist() == [1] * 4                            # the default stream does not wait for others
    cygrad.cuda.current_stream().wait_stream(s)
    assert x.tolist() == [2] * 4


@pytest.mark.usefixtures("imitated_devices")
def test_a_forgotten_record_stream_shows():
    def used(say):
        s = cygrad.cuda.Stream()
        x = cygrad.ones(3000, device="cuda")
        s.wait_stream(cygrad.cuda.current_stream())
        with cygrad.cuda.stream(s):
            total = x.sum()
        if say:
            x.record_stream(s)
        del x
        cygrad.full((3000,), 5.0, device="cuda")[0].item()  # the same block, if nobody said that it is in use
        s.synchronize()
        return total.item()

    assert used(True) == 3000
    assert used(False) == 15000


@pytest.mark.usefixtures("imitated_devices")
def test_events_name_a_place_in_a_stream():
    s, t = cygrad.cuda.Stream(), cygrad.cuda.Stream()
    x, event = cygrad.zeros(4, device="cuda"), cygrad.cuda.Event()
    cygrad.cuda.synchronize()
    with cygrad.cuda.stream(s):
        x.fill_(1)
        event.record()
        x.fill_(2)
    t.wait_event(event)
    event.record(s)                                         # what waits already waits for the first place
    with cygrad.cuda.stream(t):
        y = x.clone()
    t.synchronize()
    assert y.tolist() == [1] * 4 and not event.query()
    event.synchronize()
    assert event.query() and x.tolist() == [2] * 4


@pytest.mark.usefixtures("imitated_devices")
def test_freed_memory_waits_for_every_stream_that_uses_it():
    s = cygrad.cuda.Stream()
    x = cygrad.ones(3000, device="cuda")
    place = x.data_ptr()
    s.wait_stream(cygrad.cuda.current_stream())
    with cygrad.cuda.stream(s):
        x.mul_(2)
    x.record_stream(s)
    del x
    assert cygrad.empty(3000, device="cuda").data_ptr() != place
    s.synchronize()
    assert cygrad.empty(3000, device="cuda").data_ptr() == place


@pytest.mark.usefixtures("imitated_devices")
def test_pinned_memory_is_read_when_the_stream_comes_to_it():
    x = cygrad.ones(4).pin_memory()
    y = x.to("cuda", non_blocking=True)
    x.fill_(3)
    assert y.tolist() == [3] * 4                            # as on a device, where it depends on who is faster
    z = cygrad.ones(4).to("cuda", non_blocking=True)        # of other memory, the bytes are taken at once
    assert z.tolist() == [1] * 4


@pytest.mark.usefixtures("two_devices")
def test_a_stream_of_another_device_or_none_is_an_error():
    far = cygrad.cuda.Stream("cuda:1")
    with cygrad.cuda.stream(far):
        a, b = cygrad.ones(3, device="cuda:0") + 1, cygrad.ones(3, device="cuda:1") + 2
    far.synchronize()
    assert a.tolist() == [2] * 3 and b.tolist() == [3] * 3


def test_all_work_is_done_before_memory_goes_back_to_the_device():
    cygrad.cuda.empty_cache()
    s = cygrad.cuda.Stream()
    with cygrad.cuda.stream(s):
        x = cygrad.ones(1 << 20, device="cuda")
        total = x.sum()
        del x
    cygrad.cuda.empty_cache()
    assert s.query() and total.item() == 1 << 20


@pytest.mark.usefixtures("two_devices")
def test_a_context_that_is_entered_again_inside():
    first, s = cygrad.cuda.current_stream(), cygrad.cuda.Stream("cuda:1")
    context, other = cygrad.cuda.stream(s), cygrad.cuda.current_stream("cuda:1")
    with context:
        with context:
            assert cygrad.cuda.current_stream() == s
        assert cygrad.cuda.current_stream() == s and cygrad.cuda.current_device() == 1
    assert cygrad.cuda.current_stream() == first and cygrad.cuda.current_device() == 0
    assert cygrad.cuda.current_stream("cuda:1") == other


@pytest.mark.usefixtures("imitated_devices")
def test_memory_that_a_stream_still_uses_is_active():
    stats = cygrad.cuda.memory_stats
    before, s = stats(), cygrad.cuda.Stream()
    x = cygrad.ones(1000, device="cuda")
    with cygrad.cuda.stream(s):
        x.add_(1)
    x.record_stream(s)
    del x
    after = stats()
    assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    assert after["active_bytes.all.current"] == before["active_bytes.all.current"] + 4096
    s.synchronize()
    cygrad.ones(1, device="cuda")
    assert stats()["active_bytes.all.current"] <= before["active_bytes.all.current"] + 512

"""Programs that ask for CUDA go on with the CPU."""

import pytest

import cygrad as torch
from cygrad.storage import cuda

pytestmark = pytest.mark.skipif(cuda.why_not() is None, reason="there is a CUDA device")


def test_the_usual_line():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    assert torch.ones(2, device=device).device.type == "cpu"
    assert torch.cuda.device_count() == 0
    torch.cuda.manual_seed_all(3)
    torch.cuda.manual_seed(3)


def test_what_needs_a_device_says_that_there_is_none():
    for call in (torch.cuda.current_device, torch.cuda.synchronize):
        with pytest.raises(RuntimeError, match="no CUDA device"):
            call()


def test_newer_names_answer_too():
    assert torch.version.cuda is None and torch.cuda.get_arch_list() == [] and torch.cuda.default_generators == ()
    assert torch.accelerator.memory_allocated() == torch.cuda.memory.memory_reserved() == 0
    assert torch.cuda.memory_stats() == torch.cuda.host_memory_stats() == {}
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    assert torch.initial_seed() != torch.seed() == torch.initial_seed()
    with torch.random.fork_rng(devices=[]):
        torch.rand(1)
    assert not torch.ones(1).untyped_storage().is_pinned() and not hasattr(torch.ones(1), "__cuda_array_interface__")


@pytest.mark.parametrize("call", [
    lambda: torch.device(1), torch.Stream, torch.Event, torch.cuda.Event, torch.accelerator.current_stream,
    torch.accelerator.synchronize, torch.accelerator.get_memory_info,
    torch.cuda.Stream.priority_range, torch.ones(1).untyped_storage().pin_memory, torch.cuda.cudart,
    lambda: torch.empty(2, pin_memory=True), lambda: torch.tensor([1.0], pin_memory=True),
    lambda: torch.autograd.graph.save_on_cpu(pin_memory=True), lambda: torch.set_default_device("cuda"),
])  # fmt: skip
def test_without_a_device_it_says_so(call):
    with pytest.raises(RuntimeError, match=r"accelerator|no CUDA|no device"):
        call()

"""Programs that ask for CUDA go on with the CPU."""

import pytest

import cygrad as torch


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

"""The profiler under PyTorch's name, torch.profiler: see `cygrad.tools.profiler`."""

from cygrad.tools.profiler import ProfilerActivity, machine_limits, profile, record_function

__all__ = ["ProfilerActivity", "machine_limits", "profile", "record_function"]

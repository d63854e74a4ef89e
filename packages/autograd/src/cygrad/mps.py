"""Apple's GPUs: there are none, as on a machine without them."""

from ._no_device import (
    current_device,
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    manual_seed_all,
    synchronize,
)

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]

"""Random numbers on CUDA devices, as torch.cuda.random."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from ..autograd._core import Tensor
from ..random import Generator
from ._devices import device_count, extension, index_of, is_available

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
           "set_rng_state", "set_rng_state_all"]


def generator_of(device: Any) -> Generator:
    """The default generator of a device; None is the current one."""
    return extension.default_generator_of(index_of(device))


def manual_seed(seed: int) -> None:
    """Start the generator of the current device anew; without a device nothing happens."""
    if is_available():
        generator_of(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Start the generators of all devices anew; without a device nothing happens."""
    for i in range(device_count()):
        generator_of(i).manual_seed(int(seed))


def seed() -> None:
    """Start the generator of the current device anew with a seed from the operating system."""
    if is_available():
        generator_of(None).seed()


def seed_all() -> None:
    """Start the generators of all devices anew, with one seed from the operating system."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed that the current device's generator was last started with."""
    return generator_of(None).initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of a device's generator, a uint8 tensor on the CPU."""
    return generator_of(device).get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of a device's generator."""
    generator_of(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The states of the generators of all devices."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of the devices' generators, one each."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)

"""The checkpoint of a run: all states, and all sources of random numbers."""

from __future__ import annotations

import contextlib
import glob
import os
import random
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np

import cygrad
from cygrad import Generator
from cygrad.serialization import load, save

__all__ = ["Checkpoint", "generators_of", "random_states", "set_random_states"]

FORMAT = "cygrad training run 1"


def generators_of(loader: Any) -> list[Generator]:
    """The generators of a loader and of its samplers, each once."""
    found: list[Generator] = []
    owners = [loader]
    while owners:
        owner = owners.pop()
        generator = getattr(owner, "generator", None)
        if isinstance(generator, Generator) and all(generator is not g for g in found):
            found.append(generator)
        owners += [part for name in ("sampler", "batch_sampler") if (part := getattr(owner, name, None)) is not None]
    return found


def random_states(generators: Iterable[Generator]) -> dict[str, Any]:
    """Where all sources of random numbers are: cygrad's, Python's, NumPy's, and generators."""
    kind, key, *rest = np.random.get_state()  # noqa: NPY002  what datasets of others draw from
    return {
        "cygrad": cygrad.get_rng_state(),
        "python": random.getstate(),
        "numpy": [kind, key.tolist(), *rest],
        "generators": [generator.get_state() for generator in generators],
    }


def set_random_states(states: dict[str, Any], generators: Iterable[Generator]) -> None:
    """Go back to where `random_states` was called."""
    version, numbers, gauss = states["python"]
    kind, key, *rest = states["numpy"]
    cygrad.set_rng_state(states["cygrad"])
    random.setstate((version, tuple(numbers), gauss))
    np.random.set_state((kind, np.array(key, dtype=np.uint32), *rest))  # noqa: NPY002
    for generator, state in zip(generators, states["generators"], strict=True):
        generator.set_state(state)


class Checkpoint:
    """The file of a run. It is replaced at once: whenever the program ends, it is whole."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.path.abspath(path)

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def write(self, parts: dict[str, Any], progress: dict[str, Any]) -> None:
        self._sweep()
        states = {name: part.state_dict() for name, part in parts.items()}
        save({"format": FORMAT, "states": states, "progress": progress}, self.path)

    def _sweep(self) -> None:
        """Remove what a killed run was writing."""
        folder, name = os.path.split(os.path.realpath(self.path))
        for part in glob.glob(os.path.join(glob.escape(folder), f".{glob.escape(name)}.*.part")):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)

    def read(self, parts: dict[str, Any], accumulate: int, generators: int) -> dict[str, Any]:
        """Load all states; returns the progress. After an error everything is as it was."""
        found = load(self.path)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise RuntimeError(f"{self.path} is no checkpoint of fit(): give another path, or resume=False")
        states, progress = found["states"], found["progress"]
        self._compare("parts", sorted(states), sorted(parts))
        self._compare("accumulate", progress["accumulate"], accumulate)
        self._compare("number of generators", len(progress["now"]["generators"]), generators)
        before = {name: deepcopy(part.state_dict()) for name, part in parts.items()}
        try:
            for name, part in parts.items():
                part.load_state_dict(states[name])
        except Exception as error:
            for other, part in parts.items():
                part.load_state_dict(before[other])
            raise RuntimeError(f"{self.path} does not fit: its {name} cannot be loaded: {error}") from error
        return progress

    def _compare(self, what: str, saved: Any, given: Any) -> None:
        if saved != given:
            raise RuntimeError(f"{self.path} does not fit: {what} in the checkpoint: {saved}, in this run: {given}")

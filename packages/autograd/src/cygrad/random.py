"""Random number generators and their seeds, as PyTorch's torch.random."""

import struct
import sys
from contextlib import contextmanager

from cygrad.storage import cuda
from cygrad.storage.core import device, dtypes
from cygrad.storage.ops import Generator as _Numbers
from cygrad.storage.ops import use_generator as _use_generator

from .autograd._core import Tensor, frombuffer, manual_seed

__all__ = ["Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
           "set_rng_state"]


class Generator(_Numbers):
    """A source of random numbers: PyTorch's, number for number, from the same seed.

    Parameters
    ----------
    device : str or device
        Where it draws. On a CUDA device numbers are Philox's: of the seed, and how many were drawn before.
    """

    # A state is a tensor of bytes here; storage, which knows no tensors, has plain bytes.
    __slots__ = ()

    def __new__(cls, device="cpu"):
        return super().__new__(cls, _code(device))

    def __init__(self, device="cpu"):
        pass

    @property
    def device(self):
        """Where it draws."""
        return device("cuda", self.device_code - 1) if self.device_code else device("cpu")

    def get_state(self):
        """The state: a uint8 tensor, in PyTorch's layout."""
        return frombuffer(bytearray(super().get_state()), dtype=dtypes["uint8"])

    def set_state(self, new_state):
        """Continue from a state that `get_state` gave; returns the generator.

        Raises
        ------
        TypeError
            It is not a uint8 tensor.
        RuntimeError
            It is no state.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype != dtypes["uint8"]:
            raise TypeError(f"RNG state must be a torch.ByteTensor, got a tensor of {new_state.dtype}")
        return super().set_state(bytes(new_state.flatten().tolist()))

    def get_offset(self):
        """How many words were drawn since it was started; RuntimeError on the CPU, where they are not counted."""
        return self._counted("get_offset")[1]

    def set_offset(self, offset):
        """Continue as if so many words had been drawn, a multiple of 4; returns the generator."""
        seed, _ = self._counted("set_offset")
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise TypeError(f"set_offset(): an int is wanted, got {type(offset).__name__}")
        if not 0 <= offset < 1 << 64 or offset % 4:
            raise RuntimeError(f"set_offset(): the offset must be a multiple of 4 of 64 bits, got {offset}")
        return super().set_state(struct.pack("<QQ", seed, offset))

    def _counted(self, name):
        if not self.device_code:
            raise RuntimeError(f"{name}(): a generator of the CPU does not count what it draws")
        return struct.unpack("<QQ", super().get_state())

    def graphsafe_get_state(self):
        """NotImplementedError: graphs of CUDA are not here; see `clone_state`."""
        raise NotImplementedError("graphsafe_get_state(): graphs of CUDA are not here; clone_state() gives a copy")

    def graphsafe_set_state(self, state):
        """NotImplementedError: graphs of CUDA are not here; see `set_state`."""
        raise NotImplementedError("graphsafe_set_state(): graphs of CUDA are not here; set_state() takes a state")

    def clone_state(self):
        """A new generator in the same state."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self):
        return _rebuild, (self.initial_seed(), self.get_state(), str(self.device))

    def __deepcopy__(self, memo):
        return self.clone_state()


def _code(where):
    """The number of a device; RuntimeError where there is none."""
    where = device(where)
    return 0 if where.type == "cpu" else cuda.code_of(where)


def _rebuild(seed, state, where="cpu"):
    """An unpickled generator: the state holds the seed, too."""
    return Generator(where).set_state(state)


default_generator = Generator()
_use_generator(default_generator)


def _of_device(code):
    return Generator(device("cuda", code - 1))


cuda.make_generator = _of_device


def seed():
    """Start the default generators of the CPU and all devices anew, with one seed from the system; returns the seed."""
    value = default_generator.seed()
    devices = sys.modules.get("cygrad.storage.cuda._cuda")
    if devices is not None:
        devices.seed_all(value)
    return value


def initial_seed():
    """The seed that the default generator was last started with."""
    return default_generator.initial_seed()


def get_rng_state():
    """The default generator's state, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Set the default generator's state."""
    default_generator.set_state(new_state)


def _states(devices=None):
    """The states of the default generators: the CPU's, and those of some devices; None: of all that were used."""
    if devices is None:
        others = cuda.generators()
    else:
        from .cuda.random import generator_of

        others = [generator_of(where) for where in devices]
    return [(generator, generator.get_state()) for generator in (default_generator, *others)]


def _restore(states):
    for generator, state in states:
        generator.set_state(state)


@contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cpu"):
    """A context in which random numbers are drawn as usual; afterwards the default generators are as they were before.

    Parameters
    ----------
    devices : iterable, optional
        The devices whose generators are looked after, beside the CPU's; default: all.
    enabled : bool
        Whether it does anything.
    """
    if not enabled:
        yield
        return
    states = _states(devices)
    try:
        yield
    finally:
        _restore(states)

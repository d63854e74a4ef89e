"""Random number generators and their seeds, as PyTorch's torch.random."""

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


def seed():
    """Start the default generator anew with a seed from the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed():
    """The seed that the default generator was last started with."""
    return default_generator.initial_seed()


def get_rng_state():
    """The default generator's state, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Set the default generator's state."""
    default_generator.set_state(new_state)


def _states():
    """The states of all default generators: the CPU's, and the devices' where one was used."""
    return [(generator, generator.get_state()) for generator in (default_generator, *cuda.generators())]


def _restore(states):
    for generator, state in states:
        generator.set_state(state)


@contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cpu"):
    """A context in which random numbers are drawn as usual; afterwards the default generators are as they were before.

    Parameters
    ----------
    devices : iterable, optional
        Ignored: the generators of all devices are looked after.
    enabled : bool
        Whether it does anything.
    """
    if not enabled:
        yield
        return
    states = _states()
    try:
        yield
    finally:
        _restore(states)

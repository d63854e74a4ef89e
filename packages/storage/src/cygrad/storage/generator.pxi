# generator: the object that holds a state of random numbers, and the default one. May use: twister.
import os
import struct

DEFAULT_SEED = 67280421310721

cdef class Generator:
    """PyTorch's CPU random number generator: the same seed gives the same numbers.

    Attributes and methods follow ``torch.Generator``; a state is the 5056 bytes that PyTorch uses.
    """
    # final lifetime: one default instance for ever, others owned by their user

    def __cinit__(self, int device_code=0):
        self.device_code = device_code
        self.key, self.taken = DEFAULT_SEED, 0
        self.mt = malloc(sizeof(Twister))
        if self.mt == NULL:
            raise MemoryError("no memory for a generator state")
        (<Twister*> self.mt).busy = 0
        twister_seed(<Twister*> self.mt, DEFAULT_SEED)

    def __dealloc__(self):
        free(self.mt)

    def manual_seed(self, seed):
        """Restart from `seed`; returns the generator.

        Parameters
        ----------
        seed : int
            From -2**63 to 2**64 - 1; negative numbers stand for ``2**64 + seed``.

        Raises
        ------
        RuntimeError
            `seed` is not an integer.
        ValueError
            It does not fit 64 bits.
        """
        if not hasattr(type(seed), "__index__"):
            raise RuntimeError(f"manual_seed: an integer is wanted, got {type(seed).__name__}")
        seed = seed.__index__()
        if not -2**63 <= seed < 2**64:
            raise ValueError(f"manual_seed: a seed of 64 bits is wanted, got {seed}")
        cdef Twister* g = <Twister*> self.mt
        cdef uint64_t word = seed & 0xffffffffffffffff
        self.key, self.taken = word, 0
        hold(g)
        twister_seed(g, word)
        let_go(g)
        return self

    def initial_seed(self):
        """The seed that the generator was last started with."""
        return self.key if self.device_code else (<Twister*> self.mt).seed

    def seed(self):
        """Restart from a seed taken from the operating system, and return it."""
        value = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(value)
        return value

    def get_state(self):
        """The state, as bytes of PyTorch's layout."""
        if self.device_code:
            return struct.pack("<QQ", self.key, self.taken)
        cdef Twister* g = <Twister*> self.mt
        cdef Twister copy
        hold(g)
        copy = g[0]
        let_go(g)
        words = [copy.state[i] for i in range(MT_N)]
        return struct.pack("<Qii626Q", copy.seed, copy.left, 1, copy.next, *words, 0)[:5016] + struct.pack(
            "<dddi4xfi", 0.0, copy.normal if copy.has_normal else 0.0, 0.0, copy.has_normal, 0.0, 0)

    def set_state(self, state):
        """Continue from `state`, bytes as `get_state` gives them.

        Raises
        ------
        RuntimeError
            The length is not 5056 (on a device 16), or the position in the state is impossible.
        """
        cdef Twister* g = <Twister*> self.mt
        cdef Twister new
        cdef int i
        state = bytes(state)
        if self.device_code:
            if len(state) != 16:
                raise RuntimeError(f"set_state: 16 bytes are wanted, got {len(state)}")
            self.key, self.taken = struct.unpack("<QQ", state)
            return self
        if len(state) != STATE_BYTES:
            raise RuntimeError(f"set_state: {STATE_BYTES} bytes are wanted, got {len(state)}")
        seed, left, seeded, at, *words = struct.unpack_from("<Qii625Q", state)
        _, normal, _, has_normal = struct.unpack_from("<dddi", state, 5016)
        if not (seeded == 1 and 0 < left <= MT_N and 0 <= at <= MT_N + 1 - left and any(words)):
            raise RuntimeError(f"set_state: not a state of this generator (left={left}, next={at}, seeded={seeded})")
        new.seed, new.left, new.next, new.normal, new.has_normal = seed, left, at, normal, bool(has_normal)
        for i in range(MT_N):
            new.state[i] = <uint32_t> words[i]
        new.busy = 1
        hold(g)
        g[0] = new
        let_go(g)
        return self


cdef Generator THE_GENERATOR = Generator()
THE_GENERATOR.seed()


def forget_threads():
    """In a forked child: the threads that drew from the default generator are not there."""
    let_go(<Twister*> THE_GENERATOR.mt)


os.register_at_fork(after_in_child=forget_threads)


cdef Generator default_generator():
    return THE_GENERATOR


def use_generator(Generator gen not None):
    """Make `gen` the default generator; it goes on where the one before it was."""
    global THE_GENERATOR
    cdef Twister* last = <Twister*> THE_GENERATOR.mt
    if gen is not THE_GENERATOR:
        hold(last)
        (<Twister*> gen.mt)[0] = last[0]
        let_go(last)
        let_go(<Twister*> gen.mt)
        THE_GENERATOR = gen

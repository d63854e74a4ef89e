"""x[key] and x[key] = v for random keys, against PyTorch: values, shapes, strides, aliasing, errors."""

import random
import warnings

import numpy as np
import pytest

import cygrad

torch = pytest.importorskip("torch")

KEYS = 2500
DTYPES = ("bool", "uint8", "int32", "int64", "float32", "float64")
INDEX_SHAPES = ((), (1,), (2,), (3,), (2, 3), (2, 1), (3, 1), (1, 3), (0,))


class Data:
    """Numbers that become a tensor of either library, or an array or a list."""

    def __init__(self, values, kind, dtype="int64", transposed=False):
        self.values, self.kind, self.dtype, self.transposed = values, kind, dtype, transposed

    def make(self, lib):
        if self.kind == "list":
            return self.values.tolist()
        if self.kind == "array":
            return self.values.astype(self.dtype)
        t = lib.tensor(self.values.tolist(), dtype=getattr(lib, self.dtype))
        return t.transpose(0, 1).contiguous().transpose(0, 1) if self.transposed and t.ndim > 1 else t

    def __repr__(self):
        return f"{self.kind}({self.values.tolist()}, {self.dtype}{', transposed' * self.transposed})"


def mask_data(rng, shape):
    values = np.array([rng.random() < 0.5 for _ in range(int(np.prod(shape)))], dtype=bool).reshape(shape)
    kind = rng.choice(("tensor", "tensor", "list", "array")) if values.ndim == 1 and values.size else "tensor"
    return Data(values, kind, "bool", rng.random() < 0.3)


def index_data(rng, n):
    shape = rng.choice(INDEX_SHAPES) if n else (0,)
    values = np.array([rng.randint(-n, n - 1) for _ in range(int(np.prod(shape)))], dtype="int64").reshape(shape)
    kind = rng.choice(("tensor", "tensor", "list", "array")) if values.ndim and values.size else "tensor"
    return Data(values, kind, rng.choice(("int64", "int64", "int32")), rng.random() < 0.5)


def entry(rng, n):
    kind = rng.choices(("int", "slice", "none", "bool", "mask", "index"), (25, 22, 8, 4, 12, 40))[0]
    if kind == "int" and n:
        return rng.randint(-n, n - 1)
    if kind == "slice":
        ends = [rng.choice((None, rng.randint(-n - 2, n + 2))) for _ in range(2)]
        return slice(*ends, rng.choice((None, 1, 2, 3)))
    if kind == "none":
        return None
    if kind == "bool":
        return rng.random() < 0.5
    return mask_data(rng, (n,)) if kind == "mask" else index_data(rng, n)


def draw_key(rng, shape):
    """At most one entry for each dimension, perhaps an ellipsis, perhaps a mask of the first two dimensions."""
    key, d = [], 0
    if len(shape) >= 2 and rng.random() < 0.12:
        key.append(mask_data(rng, shape[:2]))
        d = 2
    ellipsis = rng.random() < 0.15
    while d < len(shape) and rng.random() < 0.8:
        key.append(entry(rng, shape[d]))
        d += not (key[-1] is None or isinstance(key[-1], bool))
    if ellipsis:
        at = rng.randint(0, len(key))
        key.insert(at, Ellipsis)
        key = key[: at + 1] if len(key) > at + 1 else key       # what follows would index other dimensions
    return tuple(key) if len(key) != 1 or rng.random() < 0.5 else key[0]


def draw_shape(rng):
    sizes = (0, 1, 2, 3) if rng.random() < 0.1 else (1, 2, 3, 4, 5)
    return tuple(rng.choice(sizes) for _ in range(rng.randint(0, 4)))


def tensor(lib, shape, layout, dtype):
    x = lib.arange(int(np.prod(shape))).to(getattr(lib, dtype))
    if layout == "transposed":
        return x.reshape(shape[::-1]).permute(tuple(range(len(shape)))[::-1])
    if layout == "rotated" and len(shape) > 2:
        return x.reshape(*shape[1:], shape[0]).permute(len(shape) - 1, *range(len(shape) - 1))
    if layout == "sliced":
        return lib.stack([x.reshape(shape)] * 2, -1)[..., 0]
    if layout == "expanded" and shape:
        return lib.arange(int(np.prod(shape[1:]))).to(getattr(lib, dtype)).reshape(shape[1:]).expand(shape)
    return x.reshape(shape)


def make_key(key, lib):
    if isinstance(key, tuple):
        return tuple(make_key(k, lib) for k in key)
    return key.make(lib) if isinstance(key, Data) else key


def outcome(f, *args):
    """The result; or the type of the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            return type(error).__name__


def read(lib, x, key):
    y = x[make_key(key, lib)]
    shares = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() if y.numel() else None
    return tuple(y.shape), tuple(y.stride()), str(y.dtype), y.tolist(), shares


def write(lib, x, key, kind):
    """kind: a number, a tensor of one element, or one of the shape of x[key], some of its sizes 1."""
    if kind == "number":
        value = 1
    else:
        shape = x[make_key(key, lib)].shape if kind == "tensor" else ()
        shape = tuple(1 if d % 3 == 2 else n for d, n in enumerate(shape))
        value = (lib.arange(int(np.prod(shape))) + 1).to(x.dtype).reshape(shape)
    x[make_key(key, lib)] = value
    return x.tolist()


def repeats(x, key):
    """Whether some element of x is named twice: then the order of writing decides, and PyTorch leaves it open."""
    numbers = torch.arange(x.numel()).reshape(x.shape)[make_key(key, torch)]
    return numbers.unique().numel() != numbers.numel()


@pytest.mark.parametrize("part", range(5))
def test_reading(part):
    rng = random.Random(part)
    for _ in range(KEYS // 5):
        shape = draw_shape(rng)
        key, dtype = draw_key(rng, shape), rng.choice(DTYPES)
        layout = rng.choice(("plain", "transposed", "rotated", "sliced", "expanded"))
        expected, got = (outcome(read, lib, tensor(lib, shape, layout, dtype), key) for lib in (torch, cygrad))
        assert got == expected, (shape, layout, dtype, key)


@pytest.mark.parametrize("part", range(5))
def test_writing(part):
    rng = random.Random(100 + part)
    for _ in range(KEYS // 5):
        shape = draw_shape(rng)
        key, dtype = draw_key(rng, shape), rng.choice(DTYPES)
        layout, kind = rng.choice(("plain", "transposed", "rotated", "sliced")), rng.choice(("number", "one", "tensor"))
        if kind == "tensor" and outcome(repeats, tensor(torch, shape, layout, dtype), key) is True:
            continue
        expected, got = (outcome(write, lib, tensor(lib, shape, layout, dtype), key, kind) for lib in (torch, cygrad))
        assert got == expected, (shape, layout, dtype, key, kind)


def test_the_last_of_equal_indices_is_written():
    x = cygrad.zeros(3)
    x[cygrad.tensor([1, 1, 2, 1])] = cygrad.tensor([1.0, 2, 3, 4])
    assert x.tolist() == [0, 4, 3]


def test_a_masked_write_reads_the_mask_first():
    x = cygrad.tensor([True, False, True])
    x[x] = False
    assert x.tolist() == [False] * 3


BAD_KEYS = {
    "too large": lambda t, x: x[t.tensor([0, 4])],
    "too small": lambda t, x: x[t.tensor([-5])],
    "too many": lambda t, x: x[0, 0, 0],
    "mask of another size": lambda t, x: x[t.tensor([True, False])],
    "mask of another shape": lambda t, x: x[t.ones(4, 2).bool()],
    "indices that do not broadcast": lambda t, x: x[t.tensor([0, 1]), t.tensor([0, 1, 2])],
    "floats": lambda t, x: x[t.tensor([0.0])],
    "a narrow integer": lambda t, x: x[t.tensor([0], dtype=t.int8)],
    "a text": lambda t, x: x["a"],
    "a set": lambda t, x: x[{0}],
    "an array of texts": lambda t, x: x[np.array(["a"])],
    "a step of 0": lambda t, x: x[::0],
    "a step back": lambda t, x: x[::-1],
    "a float in a slice": lambda t, x: x[1.0:],
    "0-d": lambda t, x: x[0, 0][0],
    "written: too large": lambda t, x: x.__setitem__(t.tensor([4]), 1.0),
    "written: another shape": lambda t, x: x.__setitem__(t.tensor([0, 1]), t.zeros(2, 2)),
    "written: another dtype": lambda t, x: x.__setitem__(t.tensor([0, 1]), t.zeros(3, dtype=t.int64)),
    "written: under a mask of bytes": lambda t, x: x.__setitem__(t.tensor([1, 0, 1, 0], dtype=t.uint8), 1.0),
    "written: a text": lambda t, x: x.__setitem__(0, "a"),
    "written: complex": lambda t, x: x.__setitem__(0, 1j),
    "written: its own elements": lambda t, x: x.__setitem__(t.tensor([0, 1]), x[1:3]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", BAD_KEYS)
def test_bad_keys_raise_what_pytorch_raises(name):
    types = []
    for lib in (torch, cygrad):
        x = lib.arange(12.0).reshape(4, 3)
        with pytest.raises(Exception) as caught:
            BAD_KEYS[name](lib, x)
        types.append(caught.type)
        assert x.tolist() == np.arange(12.0).reshape(4, 3).tolist()
    assert types[0] is types[1]

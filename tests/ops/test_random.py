"""The random generator: PyTorch's numbers, bit for bit, and what they are distributed like."""

import math

import numpy as np
import pytest

from cygrad.storage import functions as F
from cygrad.storage.array import Array
from cygrad.storage.core import dtypes
from cygrad.storage.ops import DEFAULT_SEED, Generator

SEEDS = (0, 1, 42, 2**40 + 7, -1)
REAL = ("float32", "float64")
SIZES = (*range(101), 624, 1000, 5003)


def seeded(seed):
    return Generator().manual_seed(seed)


# ---- PyTorch's numbers; calls follow one another on one generator, so the state is compared too


@pytest.fixture(name="torch")
def torch_fixture():
    return pytest.importorskip("torch")


def same(got, want):
    np.testing.assert_array_equal(np.asarray(got), want.numpy())


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("seed", SEEDS)
def test_real_numbers(seed, dtype, torch):
    g = seeded(seed)
    torch.manual_seed(seed)
    kind = getattr(torch, dtype)
    for n in SIZES:
        same(F.uniform_(Array(np.zeros(n, dtype)), 0, 1, g), torch.rand(n, dtype=kind))
        same(F.normal_(Array(np.zeros(n, dtype)), 0, 1, g), torch.randn(n, dtype=kind))
        same(F.uniform_(Array(np.zeros(n, dtype)), 0.1, 0.7, g), torch.empty(n, dtype=kind).uniform_(0.1, 0.7))
        same(F.normal_(Array(np.zeros(n, dtype)), 2, 3, g), torch.empty(n, dtype=kind).normal_(2, 3))
        assert g.get_state() == torch.get_rng_state().numpy().tobytes()


@pytest.mark.parametrize("dtype", REAL)
def test_numbers_are_drawn_in_the_order_of_memory(dtype, torch):
    g = seeded(5)
    torch.manual_seed(5)
    kind = getattr(torch, dtype)
    for draw, theirs in ((F.uniform_, "uniform_"), (F.normal_, "normal_")):
        for n in (1, 3, 20, 50):
            x, y = np.zeros((n, 6), dtype), torch.zeros(n, 6, dtype=kind)
            draw(Array(x.T), 0, 1, g)
            getattr(y.t(), theirs)(0, 1)
            same(x, y)
            draw(Array(x[:, ::2]), 0, 1, g)
            getattr(y[:, ::2], theirs)(0, 1)
            same(x, y)


RANGES = [
    (0, 10),
    (-5, 1000),
    (0, 2**28 - 1),
    (0, 2**28),
    (0, 2**31 - 1),
    (-(2**31), 2**31 - 1),
    (0, 2**33),
    (-(2**62), 2**62),
]


@pytest.mark.parametrize("bounds", RANGES)
def test_integers(bounds, torch):
    g = seeded(9)
    torch.manual_seed(9)
    for n in SIZES:
        same(F.random_(Array(np.zeros(n, "int64")), *bounds, g), torch.randint(*bounds, (n,)))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_integers_and_coins_of_other_dtypes(dtype, torch):
    g = seeded(3)
    torch.manual_seed(3)
    kind = getattr(torch, dtype)
    for n in (1, 30, 700):
        same(F.random_(Array(np.zeros(n, dtype)), 0, 2, g), torch.zeros(n, dtype=kind).random_(0, 2))
        for p in (0, 0.2, 0.5, 1):
            same(F.bernoulli_(Array(np.zeros(n, dtype)), p, g), torch.zeros(n, dtype=kind).bernoulli_(p))
        if dtype != "bool" and n < 200:
            same(F.randperm(n, dtypes[dtype], g), torch.randperm(n, dtype=kind))
    assert g.get_state() == torch.get_rng_state().numpy().tobytes()


def test_permutations(torch):
    g = seeded(11)
    torch.manual_seed(11)
    for n in (*range(60), 100_000):
        same(F.randperm(n, None, g), torch.randperm(n))


def test_states_are_exchanged(torch):
    g = seeded(1)
    for before in (0, 1, 3, 40):
        torch.manual_seed(8)
        torch.randn(before)
        g.set_state(torch.get_rng_state().numpy().tobytes())
        same(F.normal_(Array(np.zeros(5)), 0, 1, g), torch.randn(5, dtype=torch.float64))
        torch.set_rng_state(torch.frombuffer(bytearray(g.get_state()), dtype=torch.uint8))
        same(F.normal_(Array(np.zeros(30, "float32")), 0, 1, g), torch.randn(30))


# ---- the same without PyTorch: numbers noted once from it


NOTED = {
    "rand": [0.49625658988952637, 0.7682217955589294, 0.08847743272781372],
    "randn": [0.3643381893634796, 0.13439632952213287, 0.16421625018119812],
    "randint": [66, 56, 99],
    "randperm": [3, 1, 2, 0, 4],
    "randn20": [0.5666506290435791, -0.7425481677055359, 0.5627213716506958, -0.30670419335365295],
}


def test_noted_numbers():
    """torch.manual_seed(0), then rand(3), randn(3), randint(100, (3,)), randperm(5)."""
    g = seeded(0)
    rand = np.asarray(F.uniform_(Array(np.zeros(3, "float32")), 0, 1, g))
    np.testing.assert_array_equal(rand, np.array(NOTED["rand"], "float32"))
    randn = np.asarray(F.normal_(Array(np.zeros(3, "float32")), 0, 1, g))
    np.testing.assert_array_equal(randn, np.array(NOTED["randn"], "float32"))
    assert F.random_(Array(np.zeros(3, "int64")), 0, 100, g).tolist() == NOTED["randint"]
    assert F.randperm(5, None, g).tolist() == NOTED["randperm"]
    wide = np.asarray(F.normal_(Array(np.zeros(20, "float32")), 0, 1, g))
    np.testing.assert_array_equal(wide[[0, 7, 8, 19]], np.array(NOTED["randn20"], "float32"))


# ---- behaviour


def test_the_same_seed_gives_the_same_numbers():
    draws = [np.asarray(F.normal_(Array(np.zeros((40, 30), "float32")), 0, 1, seeded(s))).tobytes() for s in (7, 7, 8)]
    assert draws[0] == draws[1] != draws[2]
    assert seeded(-1).initial_seed() == 2**64 - 1
    assert Generator().initial_seed() == DEFAULT_SEED


def test_a_seed_from_the_system_restarts_the_generator():
    g = Generator()
    seed = g.seed()
    assert g.initial_seed() == seed
    assert g.get_state() == seeded(seed).get_state()
    assert g.seed() != seed


def test_the_default_generator_continues():
    first = np.asarray(F.uniform_(Array(np.zeros(50))))
    assert not np.array_equal(first, np.asarray(F.uniform_(Array(np.zeros(50)))))


def test_a_state_continues_where_it_was_taken():
    g = seeded(4)
    for n in (1, 7, 16, 33):
        F.normal_(Array(np.zeros(n)), 0, 1, g)
        state = g.get_state()
        first = np.asarray(F.normal_(Array(np.zeros(n)), 0, 1, g)).tobytes()
        assert np.asarray(F.normal_(Array(np.zeros(n)), 0, 1, Generator().set_state(state))).tobytes() == first
        assert g.set_state(state).get_state() == state


@pytest.mark.parametrize("dtype", REAL)
def test_distributions(dtype):
    g = seeded(2)
    n = 400_000
    u = np.asarray(F.uniform_(Array(np.zeros(n, dtype)), -2, 3, g)).astype("f8")
    assert -2 <= u.min() < -1.99
    assert 2.99 < u.max() <= 3
    assert abs(u.mean() - 0.5) < 4 * math.sqrt(25 / 12 / n)
    z = np.asarray(F.normal_(Array(np.zeros(n, dtype)), 0, 1, g)).astype("f8")
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((z**power).mean() - moment) < 4.5 * math.sqrt(spread / n), power
    b = np.asarray(F.bernoulli_(Array(np.zeros(n, dtype)), 0.3, g)).astype("f8")
    assert abs(b.mean() - 0.3) < 4 * math.sqrt(0.21 / n)
    assert set(b.tolist()) == {0, 1}


def test_permutations_hold_every_number_once():
    for n in (0, 1, 2, 1000):
        assert sorted(F.randperm(n, None, seeded(n)).tolist()) == list(range(n))


BAD = {
    "uniform swapped": (lambda x, g: F.uniform_(x, 2, 1, g), RuntimeError, r"\[2.0, 1.0\)"),
    "uniform infinite": (lambda x, g: F.uniform_(x, 0, math.inf, g), RuntimeError, "inf"),
    "uniform nan": (lambda x, g: F.uniform_(x, math.nan, 1, g), RuntimeError, "nan"),
    "uniform too wide": (lambda x, g: F.uniform_(x, -1.7e308, 1.7e308, g), RuntimeError, "width"),
    "normal negative": (lambda x, g: F.normal_(x, 0, -1, g), RuntimeError, "-1"),
    "bernoulli above 1": (lambda x, g: F.bernoulli_(x, 2, g), RuntimeError, "2"),
    "bernoulli nan": (lambda x, g: F.bernoulli_(x, math.nan, g), RuntimeError, "nan"),
    "integers of no range": (lambda x, g: F.random_(x, 5, 5, g), RuntimeError, "5, 5"),
    "integers too large for float64": (lambda x, g: F.random_(x, 0, 2**53 + 2, g), RuntimeError, "float64"),
    "integers too large for uint8": (
        lambda x, g: F.random_(Array(np.zeros(2, "uint8")), 0, 300, g),
        RuntimeError,
        "uint8.*300",
    ),
    "uniform integers": (
        lambda x, g: F.uniform_(Array(np.zeros(2, "int64")), 0, 1, g),
        NotImplementedError,
        "uniform_.*int64",
    ),
    "normal bools": (lambda x, g: F.normal_(Array(np.zeros(2, bool)), 0, 1, g), NotImplementedError, "normal_.*bool"),
    "overlapping memory": (lambda x, g: F.uniform_(x.narrow(0, 0, 1).expand(4), 0, 1, g), RuntimeError, r"clone\(\)"),
    "negative permutation": (lambda x, g: F.randperm(-1, None, g), RuntimeError, "-1"),
    "permutation too long": (lambda x, g: F.randperm(300, dtypes["uint8"], g), RuntimeError, "uint8"),
    "permutation of bools": (lambda x, g: F.randperm(2, dtypes["bool"], g), NotImplementedError, "bool"),
    "seed too large": (lambda x, g: g.manual_seed(2**64), ValueError, str(2**64)),
    "seed no integer": (lambda x, g: g.manual_seed(1.5), RuntimeError, "float"),
    "state too short": (lambda x, g: g.set_state(b"123"), RuntimeError, "5056.*3"),
    "state of zeros": (lambda x, g: g.set_state(bytes(5056)), RuntimeError, "left=0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_draws_nothing(name):
    call, error, text = BAD[name]
    x = np.full(4, 7.0)
    g = seeded(6)
    F.normal_(Array(np.zeros(3)), 0, 1, g)
    state = g.get_state()
    with pytest.raises(error, match=text):
        call(Array(x), g)
    assert (x == 7).all()
    assert g.get_state() == state


@pytest.mark.parametrize("bad", [b"", bytes(5056), bytes(5055), b"x" * 5056])
def test_a_refused_state_leaves_the_generator_as_it_was(bad):
    g = seeded(6)
    state = g.get_state()
    with pytest.raises(RuntimeError):
        g.set_state(bad)
    assert g.get_state() == state

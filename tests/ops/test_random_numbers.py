"""Random tensors as users draw them: PyTorch's numbers from the same seed, and what is refused."""

import copy
import math
import pickle

import numpy as np
import pytest

import cygrad
from cygrad import Generator

REAL = ("float16", "bfloat16", "float32", "float64")
SIZES = (*range(34), 100, 624, 1000)


@pytest.fixture(name="torch")
def torch_fixture():
    return pytest.importorskip("torch")


def same(ours, theirs):
    assert ours.shape == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    if "bfloat16" in str(theirs.dtype):
        ours, theirs = ours.float(), theirs.float()
    np.testing.assert_array_equal(np.asarray(ours.tolist()), np.asarray(theirs.tolist()))


def both(torch, call, *seeds):
    """`call` gives the same under both libraries, whose generators stay in the same state."""
    for seed in seeds or (0, 7):
        cygrad.manual_seed(seed)
        torch.manual_seed(seed)
        same(call(cygrad), call(torch))
        assert cygrad.get_rng_state().tolist() == torch.get_rng_state().tolist()


# ---- PyTorch's numbers


def skip_other_sources(torch, name):
    """Depending on the processor, PyTorch may draw these with another library's generator."""
    if name.startswith(("exponential", "bernoulli", "multinomial")):
        torch.manual_seed(0)
        u = torch.zeros(40, dtype=torch.float64).uniform_()
        torch.manual_seed(0)
        own = torch.zeros(40, dtype=torch.float64).exponential_().allclose(-torch.log1p(-u))
        torch.manual_seed(0)
        if not own or not torch.equal(torch.zeros(40).bernoulli_(0.3), (u < 0.3).float()):
            pytest.skip("PyTorch does not draw these numbers with its own generator here")


IN_PLACE = {
    "uniform": lambda x: x.uniform_(),
    "uniform bounds": lambda x: x.uniform_(-0.3, 2.5),
    "uniform narrow": lambda x: x.uniform_(2.48, 2.499),
    "normal": lambda x: x.normal_(),
    "normal moments": lambda x: x.normal_(-1, 3),
    "exponential": lambda x: x.exponential_(),
    "exponential rate": lambda x: x.exponential_(lambd=1.7),
    "geometric": lambda x: x.geometric_(0.3),
    "cauchy": lambda x: x.cauchy_(1, 2),
    "log_normal": lambda x: x.log_normal_(0.5, 0.25),
    "bernoulli": lambda x: x.bernoulli_(0.3),
    "random": lambda x: x.random_(),
    "random bounds": lambda x: x.random_(-3, 9),
    "random end": lambda x: x.random_(17),
}


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, dtype, torch):
    skip_other_sources(torch, name)

    def run(lib):
        kind = getattr(lib, dtype)
        drawn = [IN_PLACE[name](lib.zeros(n, dtype=kind)) for n in SIZES]
        block = lib.zeros(6, 10, dtype=kind)
        for view in (block.t(), block[:, ::2], block[1:3].t()):
            IN_PLACE[name](view)
        return lib.cat([*drawn, block.flatten()])

    both(torch, run)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers(dtype, torch):
    skip_other_sources(torch, "bernoulli")
    calls = [
        lambda x: x.random_(),
        lambda x: x.random_(0, None),
        lambda x: x.random_(0, 2),
        lambda x: x.bernoulli_(0.3),
    ]
    if dtype != "bool":
        calls += [lambda x: x.geometric_(0.5), lambda x: x.random_(100), lambda x: x.random_(5, None)]
    for call in calls:
        both(torch, lambda lib, call=call: lib.cat([call(lib.zeros(n, dtype=getattr(lib, dtype))) for n in SIZES]))


def test_the_whole_range_of_int64(torch):
    for low in (-(2**63), -(2**62), 2**63 - 2, 0):
        both(torch, lambda lib, low=low: lib.zeros(50, dtype=lib.int64).random_(low, None))


@pytest.mark.parametrize("dtype", REAL)
def test_new_tensors(dtype, torch):
    for n in (3, 15, 16, 17, 40):
        both(torch, lambda lib, n=n: lib.rand(n, dtype=getattr(lib, dtype)))
        both(torch, lambda lib, n=n: lib.randn(n, 2, dtype=getattr(lib, dtype)))
        both(torch, lambda lib, n=n: lib.rand_like(lib.zeros(n, 3, dtype=getattr(lib, dtype)).t()))
        both(torch, lambda lib, n=n: lib.randn_like(lib.zeros(n, 3, dtype=getattr(lib, dtype)).t()))
        both(torch, lambda lib, n=n: lib.randint_like(lib.zeros(n, 3, dtype=getattr(lib, dtype)), 3, 90))
        both(torch, lambda lib, n=n: lib.randint(-5, 60, (n, 2), dtype=getattr(lib, dtype)))
        both(torch, lambda lib, n=n: lib.randperm(n, dtype=getattr(lib, dtype)))


def test_overloads(torch):
    both(torch, lambda lib: lib.randint(10, (4,)))
    both(torch, lambda lib: lib.randint(10, size=(4,)))
    both(torch, lambda lib: lib.randint(low=3, high=10, size=(4,)))
    both(torch, lambda lib: lib.randint_like(lib.zeros(4), 10, dtype=lib.int64))
    both(torch, lambda lib: lib.rand(4, out=lib.empty(4)))
    both(torch, lambda lib: lib.randn(20, out=lib.empty(0, dtype=lib.float64)))
    both(torch, lambda lib: lib.randint(9, (4,), out=lib.empty(0, dtype=lib.int64)))
    both(torch, lambda lib: lib.randperm(9, out=lib.empty(0, dtype=lib.int64)))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype, torch):
    for n in (3, 20):
        both(torch, lambda lib, n=n: lib.rand(n, dtype=getattr(lib, dtype)))
        both(torch, lambda lib, n=n: lib.randn(n, dtype=getattr(lib, dtype)))


def test_normal(torch):
    def mean(lib):
        return lib.arange(30, dtype=lib.float32).reshape(10, 3)

    def std(lib):
        return lib.tensor([0.5, 1.0, 2.0])

    both(torch, lambda lib: lib.normal(mean(lib), std(lib)))
    both(torch, lambda lib: lib.normal(mean(lib), 2.0))
    both(torch, lambda lib: lib.normal(mean(lib)))
    both(torch, lambda lib: lib.normal(1.0, std(lib)))
    both(torch, lambda lib: lib.normal(mean(lib).double(), std(lib)))
    both(torch, lambda lib: lib.normal(1.0, 2.0, (4, 5)))
    both(torch, lambda lib: lib.normal(1.0, 2.0, size=(20,), dtype=lib.float64))
    both(torch, lambda lib: lib.normal(1.0, 2.0, (20,), out=lib.empty(20)))


@pytest.mark.parametrize("dtype", REAL)
def test_bernoulli_of_tensors(dtype, torch):
    skip_other_sources(torch, "bernoulli")

    def chances(lib):
        return (lib.arange(60, dtype=lib.float32) / 59).to(getattr(lib, dtype)).reshape(20, 3)

    both(torch, lambda lib: lib.bernoulli(chances(lib)))
    both(torch, lambda lib: chances(lib).bernoulli())
    both(torch, lambda lib: lib.bernoulli(chances(lib), 0.25))
    both(torch, lambda lib: lib.zeros(20, 3, dtype=lib.int64).bernoulli_(chances(lib)))
    both(torch, lambda lib: lib.zeros(3, 20).t().bernoulli_(chances(lib)))
    both(torch, lambda lib: lib.zeros(4, 20, 3).bernoulli_(chances(lib)))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(replacement, dtype, torch):
    skip_other_sources(torch, "multinomial")

    def weights(lib, *shape):
        return (lib.arange(math.prod(shape)) % 7 + (not replacement)).reshape(shape).to(getattr(lib, dtype))

    for n in (2, 9, 30, 500):
        for count in (1, 2, n) if replacement or "16" not in dtype else (1,):  # halves tie
            both(torch, lambda lib, n=n, count=count: lib.multinomial(weights(lib, n), count, replacement))
            both(torch, lambda lib, n=n, count=count: weights(lib, 3, n).multinomial(count, replacement))
    both(torch, lambda lib: lib.multinomial(weights(lib, 4, 5).t(), 2, replacement))
    both(torch, lambda lib: lib.multinomial(lib.ones(0, 3), 1, replacement))


def test_counts(torch):
    for dtype in ("float32", "float64"):
        both(torch, lambda lib, dtype=dtype: lib.poisson(lib.arange(80, dtype=getattr(lib, dtype))))
        both(
            torch,
            lambda lib, dtype=dtype: lib.binomial(
                lib.arange(200, dtype=getattr(lib, dtype)) * 3, lib.arange(200, dtype=getattr(lib, dtype)) / 199
            ),
        )


# Some draw in row-major order and return that, whatever the layout of what is given; others keep the layout.
SHAPED_AS = {
    "normal of tensors": lambda lib, x: lib.normal(x, x.abs()),
    "normal of means": lambda lib, x: lib.normal(x, 2.0),
    "normal of deviations": lambda lib, x: lib.normal(2.0, x.abs()),
    "bernoulli": lambda lib, x: lib.bernoulli(x.abs().clamp(0, 1)),
    "bernoulli of a number": lambda lib, x: lib.bernoulli(x, 0.3),
    "poisson": lambda lib, x: lib.poisson(x.abs() * 5),
    "rand_like": lambda lib, x: lib.rand_like(x),
    "randn_like": lambda lib, x: lib.randn_like(x),
    "randint_like": lambda lib, x: lib.randint_like(x, 9),
    "multinomial": lambda lib, x: lib.multinomial(x[:, :, 0].abs(), 2),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x),
    "alpha_dropout": lambda lib, x: lib.nn.functional.feature_alpha_dropout(x, training=True),
    "gumbel_softmax": lambda lib, x: lib.nn.functional.gumbel_softmax(x),
    "rrelu": lambda lib, x: lib.nn.functional.rrelu(x, training=True),
}
LAYOUTS = {
    "transposed": lambda x: x.permute(2, 1, 0),
    "steps": lambda x: x[::2, :, 1:],
    "expanded": lambda x: x[:1].expand(7, 5, 3),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SHAPED_AS)
def test_numbers_and_layouts_beside_tensors_of_every_layout(name, layout, dtype, torch):
    values, found = np.random.default_rng(0).normal(size=(7, 5, 3)).astype("float32"), []
    for lib in (cygrad, torch):
        x = LAYOUTS[layout](lib.from_numpy(values).to(getattr(lib, dtype)))
        lib.manual_seed(11)
        found.append(SHAPED_AS[name](lib, x))
    ours, theirs = found
    assert ours.stride() == theirs.stride()
    rtol = 1e-2 if dtype == "bfloat16" else 1e-5
    np.testing.assert_allclose(ours.double().numpy(), theirs.double().numpy(), rtol=rtol, atol=rtol)


def test_permutations(torch):
    for n in (*range(50), 1000, 70_000):
        both(torch, lambda lib, n=n: lib.randperm(n), 5)


# ---- generators


def test_generators(torch):
    ours, theirs = Generator().manual_seed(5), torch.Generator().manual_seed(5)
    for n in (1, 7, 16, 40):
        same(cygrad.rand(n, generator=ours), torch.rand(n, generator=theirs))
        same(cygrad.randn(n, generator=ours), torch.randn(n, generator=theirs))
        same(cygrad.randint(9, (n,), generator=ours), torch.randint(9, (n,), generator=theirs))
        same(cygrad.randperm(n, generator=ours), torch.randperm(n, generator=theirs))
        same(cygrad.zeros(n).cauchy_(generator=ours), torch.zeros(n).cauchy_(generator=theirs))
        assert ours.get_state().tolist() == theirs.get_state().tolist()
    ours.set_state(cygrad.tensor(theirs.get_state().tolist(), dtype=cygrad.uint8))
    same(cygrad.rand(3, generator=ours), torch.rand(3, generator=theirs))


def test_copies_go_on_alike():
    g = Generator().manual_seed(3)
    cygrad.randn(5, generator=g)
    copies = [copy.deepcopy(g), pickle.loads(pickle.dumps(g)), g.clone_state(), Generator().set_state(g.get_state())]
    want = cygrad.randn(7, generator=g).tolist()
    for other in copies:
        assert other.initial_seed() == 3
        assert cygrad.randn(7, generator=other).tolist() == want


def test_the_default_generator():
    assert isinstance(cygrad.default_generator, Generator)
    assert cygrad.random.default_generator is cygrad.default_generator is cygrad.manual_seed(4)
    assert cygrad.initial_seed() == cygrad.random.initial_seed() == 4
    state = cygrad.get_rng_state()
    assert (state.dtype, state.shape) == (cygrad.uint8, (5056,))
    first = cygrad.rand(5).tolist()
    cygrad.set_rng_state(state)
    assert cygrad.rand(5).tolist() == first
    with cygrad.random.fork_rng():
        cygrad.manual_seed(1)
        cygrad.rand(9)
    after = cygrad.rand(5).tolist()
    cygrad.set_rng_state(state)
    cygrad.rand(5)
    assert cygrad.rand(5).tolist() == after
    seed = cygrad.seed()
    assert seed == cygrad.initial_seed()
    assert cygrad.Generator(device="cpu").device == cygrad.device("cpu")


def test_threads_change_nothing():
    before = cygrad.get_num_threads()
    drawn = []
    try:
        for threads in (1, 2):
            cygrad.set_num_threads(threads)
            cygrad.manual_seed(2)
            drawn.append(
                [
                    cygrad.empty(100_000).bernoulli_(0.3).sum().item(),
                    cygrad.randn(100_000).numpy().tobytes(),
                    cygrad.bernoulli(cygrad.rand(100_000)).numpy().tobytes(),
                    cygrad.multinomial(cygrad.rand(50_000), 100).tolist(),
                ]
            )
    finally:
        cygrad.set_num_threads(before)
    assert drawn[0] == drawn[1]


# ---- gradients


def test_what_is_overwritten_gets_no_gradient():
    for draw in (lambda y: y.uniform_(), lambda y: y.normal_(), lambda y: y.bernoulli_(0.5), lambda y: y.random_(5)):
        x = cygrad.ones(3, requires_grad=True)
        y = x * 2
        draw(y)
        y.sum().backward()
        assert x.grad.tolist() == [0, 0, 0]
    p = cygrad.full((4,), 0.5, requires_grad=True)
    (cygrad.bernoulli(p) * 3).sum().backward()
    assert p.grad.tolist() == [0, 0, 0, 0]


# ---- what is refused; nothing is drawn then

REFUSED = {
    "rate": (lambda x: x.exponential_(0), RuntimeError, "lambda=0"),
    "rate nan": (lambda x: x.exponential_(math.nan), RuntimeError, "nan"),
    "exponential integers": (lambda x: x.long().exponential_(), RuntimeError, "int64"),
    "geometric 1": (lambda x: x.geometric_(1), RuntimeError, "p=1"),
    "geometric bool": (lambda x: x.bool().geometric_(0.5), NotImplementedError, "bool"),
    "cauchy": (lambda x: x.cauchy_(0, -1), RuntimeError, "sigma=-1"),
    "cauchy integers": (lambda x: x.long().cauchy_(), RuntimeError, "int64"),
    "log normal": (lambda x: x.log_normal_(0, 0), RuntimeError, "std=0"),
    "log normal integers": (lambda x: x.long().log_normal_(), NotImplementedError, "int64"),
    "normal": (lambda x: cygrad.normal(x, -x - 1), RuntimeError, "std >= 0"),
    "normal number": (lambda x: cygrad.normal(0.0, -1.0, (2,)), RuntimeError, "-1"),
    "normal integers": (lambda x: cygrad.normal(x.long(), 1.0), NotImplementedError, "int64"),
    "normal without size": (lambda x: cygrad.normal(0.0, 1.0), TypeError, "size"),
    "normal shapes": (lambda x: cygrad.normal(x, cygrad.ones(4)), RuntimeError, "3.*4"),
    "integers reversed": (lambda x: x.random_(3, 3), RuntimeError, "from=3 >= to=3"),
    "integers below 0": (lambda x: x.random_(-1), RuntimeError, "to=-1"),
    "chances": (lambda x: cygrad.bernoulli(x + 1.5), RuntimeError, "p_in"),
    "chances nan": (lambda x: cygrad.bernoulli(x * math.nan), RuntimeError, "p_in"),
    "integer chances": (lambda x: cygrad.bernoulli(x.long()), NotImplementedError, "int64"),
    "chance": (lambda x: x.bernoulli_(1.5), RuntimeError, "p=1.5"),
    "chances of another shape": (lambda x: x.bernoulli_(cygrad.zeros(2, 1)), RuntimeError, "2, 1"),
    "too many": (lambda x: cygrad.multinomial(x + 1, 4), RuntimeError, "4 of 3"),
    "none": (lambda x: cygrad.multinomial(x + 1, 0), RuntimeError, "n_sample <= 0"),
    "no weight": (lambda x: cygrad.multinomial(x, 1), RuntimeError, "sum of probabilities"),
    "negative weight": (lambda x: cygrad.multinomial(x - 1, 1), RuntimeError, "element < 0"),
    "nan weight": (lambda x: cygrad.multinomial(x * math.nan, 1, True), RuntimeError, "nan"),
    "inf weight": (lambda x: cygrad.multinomial(x + math.inf, 2, True), RuntimeError, "inf"),
    "integer weights": (lambda x: cygrad.multinomial(x.long() + 1, 1), RuntimeError, "int64"),
    "weights 3-d": (lambda x: cygrad.multinomial(cygrad.ones(2, 2, 2), 1), RuntimeError, "1 or 2 dim"),
    "no categories": (lambda x: cygrad.multinomial(cygrad.ones(2, 0), 2, True), RuntimeError, r"\[2, 0\]"),
    "samples float": (lambda x: cygrad.multinomial(x + 1, 1.0), TypeError, "float"),
    "negative rate": (lambda x: cygrad.poisson(x - 1), RuntimeError, "non-negative"),
    "no generator": (lambda x: x.normal_(generator=3), TypeError, "generator"),
    "dtype of out": (
        lambda x: cygrad.rand(2, out=cygrad.empty(2), dtype=cygrad.float64),
        RuntimeError,
        "Double.*Float",
    ),
    "state": (lambda x: Generator().set_state([1]), TypeError, "list"),
    "state dtype": (lambda x: Generator().set_state(cygrad.zeros(5056)), TypeError, "float32"),
    "state length": (lambda x: Generator().set_state(cygrad.zeros(5, dtype=cygrad.uint8)), RuntimeError, "5056"),
    "device": (lambda x: Generator("cuda"), RuntimeError, "cuda"),
    "overlap": (lambda x: x[:1].expand(3).exponential_(), RuntimeError, r"clone\(\)"),
    "leaf": (lambda x: x.requires_grad_().exponential_(), RuntimeError, "leaf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, text = REFUSED[name]
    cygrad.manual_seed(1)
    state = cygrad.get_rng_state().tolist()
    x = cygrad.zeros(3)
    with pytest.raises(error, match=text):
        call(x)
    assert cygrad.get_rng_state().tolist() == state
    assert x.tolist() == [0, 0, 0]


def test_no_input_hangs():
    assert math.isnan(cygrad.binomial(cygrad.tensor(math.nan), cygrad.tensor(0.5)).item())
    assert math.isnan(cygrad.binomial(cygrad.tensor(5.0), cygrad.tensor(math.nan)).item())
    assert math.isnan(cygrad.poisson(cygrad.tensor(math.inf)).item())
    assert cygrad.binomial(cygrad.tensor([-1.0, 4.0, 4.0]), cygrad.tensor([0.5, 0.0, 2.0])).tolist() == [0, 0, 4]


def test_threads_share_a_generator():
    """Each number is drawn once, and the state stays one."""
    from threading import Thread

    g = Generator().manual_seed(0)
    drawn = []

    def run():
        for _ in range(20):
            drawn.append(cygrad.rand(20_000, generator=g))
            g.get_state()

    threads = [Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    want = cygrad.rand(60 * 20_000, generator=Generator().manual_seed(0))
    assert cygrad.cat(drawn).sort()[0].equal(want.sort()[0])

"""Distributions beside PyTorch's: values drawn from the same seed, densities, moments, gradients, divergences."""

import importlib
import pickle
import warnings

import numpy as np
import pytest

oracle = pytest.importorskip("torch")

POSITIVE = [[0.3, 1.0, 2.5]], [[0.7], [4.0]]
PLACE = [[-1.0, 0.0, 2.0]], [[0.5], [3.0]]
CHANCES = [[0.1, 0.5, 0.9], [0.01, 0.3, 0.999]]
WEIGHTS = [[0.2, 0.5, 0.3], [3.0, 1.0, 0.5]]
MATRIX = [[2.0, 0.3, 0.1], [0.3, 1.5, -0.4], [0.1, -0.4, 1.0]]
FACTOR = [[1.2, 0.0, 0.0], [0.5, 0.8, 0.0], [-0.3, 0.1, 2.0]]


def one(name, *args, **kwargs):
    """A maker of a distribution, whose lists are tensors that require gradients."""
    return name, args, kwargs


CASES = {
    "normal": one("Normal", *PLACE),
    "normal of numbers": one("Normal", 0.5, 2.0),
    "laplace": one("Laplace", *PLACE),
    "cauchy": one("Cauchy", *PLACE),
    "uniform": one("Uniform", [[-1.0, 0.0]], [[2.0], [0.5]]),
    "exponential": one("Exponential", POSITIVE[0]),
    "gamma": one("Gamma", *POSITIVE),
    "chi2": one("Chi2", POSITIVE[0]),
    "beta": one("Beta", *POSITIVE),
    "dirichlet": one("Dirichlet", [[0.5, 1.0, 3.0], [20.0, 2.0, 7.0]]),
    "t": one("StudentT", [1.5, 2.5, 30.0], 0.5, [[2.0], [1.0]]),
    "f": one("FisherSnedecor", [[1.0, 3.0, 8.0]], [[3.0], [10.0]]),
    "gumbel": one("Gumbel", *PLACE),
    "half normal": one("HalfNormal", POSITIVE[0]),
    "half cauchy": one("HalfCauchy", POSITIVE[0]),
    "log normal": one("LogNormal", *PLACE),
    "logistic normal": one("LogisticNormal", [[0.1, -0.5], [0.0, 1.0]], [[1.0, 0.5], [2.0, 0.3]]),
    "weibull": one("Weibull", *POSITIVE),
    "pareto": one("Pareto", *POSITIVE),
    "inverse gamma": one("InverseGamma", *POSITIVE),
    "kumaraswamy": one("Kumaraswamy", *POSITIVE),
    "normal vectors": one("MultivariateNormal", [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], covariance_matrix=MATRIX),
    "normal vectors by precision": one("MultivariateNormal", [1.0, 2.0, 3.0], precision_matrix=[MATRIX, MATRIX]),
    "normal vectors by factor": one("MultivariateNormal", [1.0, 2.0, 3.0], scale_tril=FACTOR),
    "bernoulli": one("Bernoulli", CHANCES),
    "bernoulli by logits": one("Bernoulli", logits=PLACE[0]),
    "geometric": one("Geometric", CHANCES),
    "geometric by logits": one("Geometric", logits=PLACE[0]),
    "binomial": one("Binomial", 7, CHANCES),
    "binomial by logits": one("Binomial", 30, logits=PLACE[0]),
    "negative binomial": one("NegativeBinomial", [[3.0], [0.5]], probs=CHANCES),
    "negative binomial by logits": one("NegativeBinomial", 5.0, logits=PLACE[0]),
    "poisson": one("Poisson", [[0.2, 3.0, 40.0]]),
    "categorical": one("Categorical", WEIGHTS),
    "categorical by logits": one("Categorical", logits=PLACE[0]),
    "one hot": one("OneHotCategorical", WEIGHTS),
    "straight through": one("OneHotCategoricalStraightThrough", logits=PLACE[0]),
    "multinomial": one("Multinomial", 6, WEIGHTS),
    "multinomial by logits": one("Multinomial", 4, logits=PLACE[0]),
    "relaxed bernoulli": one("RelaxedBernoulli", 0.7, CHANCES),
    "relaxed one hot": one("RelaxedOneHotCategorical", 0.7, logits=WEIGHTS),
}
COUNTS = ("bernoulli", "geometric", "binomial", "negative", "poisson", "categorical", "one hot", "multinomial")


def make(lib, case, dtype="float64"):
    """The distribution, and its parameters, which require gradients."""
    name, args, kwargs = CASES[case]
    leaves = []

    def part(value):
        if isinstance(value, float) and name.startswith("Relaxed"):
            value = [value]
        if isinstance(value, list):
            leaves.append(lib.tensor(value, dtype=getattr(lib, dtype), requires_grad=True))
            return leaves[-1]
        return value

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = getattr(importlib.import_module(lib.__name__ + ".distributions"), name)
        return kind(*map(part, args), **{key: part(value) for key, value in kwargs.items()}), leaves


def moved(lib, x):
    return lib.tensor(x.detach().numpy().tolist(), dtype=getattr(lib, str(x.dtype).split(".")[1])).reshape(
        tuple(x.shape)
    )


def outcome(f):
    try:
        return f()
    except (NotImplementedError, AttributeError):
        return None


def same(ours, theirs, rtol=1e-7, atol=1e-9):
    """Nothing, or tensors that are close; of PyTorch's gaps, nothing is asked."""
    if theirs is None:
        return
    assert ours is not None
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("case", CASES)
def test_properties(torch, case):
    (ours, _), (theirs, _) = make(torch, case), make(oracle, case)
    assert repr(ours) == repr(theirs) or case in ("beta", "chi2")       # PyTorch's show no parameters
    assert ours.batch_shape == theirs.batch_shape and ours.event_shape == theirs.event_shape
    assert (ours.has_rsample, ours.has_enumerate_support) == (theirs.has_rsample, theirs.has_enumerate_support)
    # Where both concentrations are below 1, PyTorch takes the first corner for the mode, whichever is the higher.
    for name in ("mean", "variance", "stddev", *(["mode"] if case != "beta" else [])):
        mine, wanted = (outcome(lambda d=d, n=name: getattr(d, n)) for d in (ours, theirs))
        if name == "mode" and wanted is not None and wanted.is_floating_point():
            mine = torch.where(moved(torch, wanted).isnan(), float("nan"), mine)        # modes at an edge
        same(mine, wanted)
    for name in ("entropy", "perplexity"):
        # the entropy of counts that PyTorch finds by differentiating is a closed form elsewhere, or is not there
        same(outcome(getattr(ours, name)) if case != "poisson" else None,
             outcome(getattr(theirs, name)) if case != "poisson" else None)
    if theirs.has_enumerate_support:
        for expand in (True, False):
            same(ours.enumerate_support(expand), theirs.enumerate_support(expand))


@pytest.mark.parametrize("case", CASES)
def test_draws_from_the_same_seed(torch, case):
    for dtype in ("float64", "float32"):
        (ours, _), (theirs, _) = make(torch, case, dtype), make(oracle, case, dtype)
        for shape in ((), (5,), (2, 3)):
            found = []
            for lib, d in ((torch, ours), (oracle, theirs)):
                lib.manual_seed(3)
                found.append([d.sample(shape), d.rsample(shape) if theirs.has_rsample else None, lib.rand(2)])
            for a, b in zip(*found, strict=True):
                same(a, b, 1e-5 if dtype == "float32" else 1e-6, 1e-6 if dtype == "float32" else 1e-9)
            assert not found[0][0].requires_grad


@pytest.mark.parametrize("case", CASES)
def test_densities_and_their_gradients(torch, case):
    (ours, our_leaves), (theirs, leaves) = make(torch, case), make(oracle, case)
    oracle.manual_seed(1)
    values = theirs.sample((4,))
    x, y = moved(torch, values), values
    for d, value in ((ours, x), (theirs, y)) if leaves else ():
        d.log_prob(value).sin().sum().backward()
    same(ours.log_prob(x), theirs.log_prob(y))
    for a, b in zip(our_leaves, leaves, strict=True):
        same(a.grad, b.grad, 1e-6, 1e-8)
    if case.split()[0] in COUNTS or case.startswith("one"):
        return
    chances = outcome(lambda: theirs.cdf(y))
    same(outcome(lambda: ours.cdf(x)), chances)
    if outcome(lambda: theirs.icdf(chances)) is not None:
        same(ours.icdf(moved(torch, chances)), theirs.icdf(chances), 1e-6)


# The path of beta and Dirichlet numbers goes through gamma ones here: other gradients of the same mean.
OTHER_PATH = {"beta", "dirichlet"}


@pytest.mark.parametrize("case", [c for c in CASES if c not in OTHER_PATH])
def test_gradients_of_draws(torch, case):
    (ours, our_leaves), (theirs, leaves) = make(torch, case), make(oracle, case)
    if not theirs.has_rsample:
        with pytest.raises(NotImplementedError, match="rsample"):
            ours.rsample()
        return
    for lib, d in ((torch, ours), (oracle, theirs)):
        lib.manual_seed(5)
        values = d.rsample((20,))
        assert values.requires_grad == bool(leaves)
        if leaves:
            values.sin().sum().backward()
    for a, b in zip(our_leaves, leaves, strict=True):
        # gradients for shapes of gamma numbers: PyTorch's are interpolated, right to three digits
        same(a.grad, b.grad, 2e-3 if {"gamma", "chi2", "t", "f"} & set(case.split()) else 1e-6, 1e-6)


@pytest.mark.parametrize("shape", [0.05, 0.4, 1.0, 3.0, 20.0, 1000.0])
def test_slopes_of_gamma_numbers(torch, shape):
    """d value / d shape at a fixed probability, beside the change of SciPy's quantiles."""
    special = pytest.importorskip("scipy.special")
    from cygrad.distributions.gamma import _slope

    chances = np.array([1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
    step = 1e-6 * shape
    values = special.gammaincinv(shape, chances)
    up, down = (special.gammaincinv(shape + s, chances) for s in (step, -step))
    wanted = (up - down) / (2 * step)
    found = _slope(torch.tensor(shape, dtype=torch.float64), torch.tensor(values.tolist(), dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-300)


@pytest.mark.parametrize("case", sorted(OTHER_PATH))
def test_gradients_of_beta_numbers_have_the_right_mean(torch, case):
    d, leaves = make(torch, case)
    torch.manual_seed(0)
    draws = d.rsample((20_000,))
    draws.mean(0).sin().sum().backward()
    found = [x.grad.clone() for x in leaves]
    for x in leaves:
        x.grad = None
    d.mean.sin().sum().backward()
    for a, x in zip(found, leaves, strict=True):
        same(a, x.grad, 0.05, 0.01)


@pytest.mark.parametrize("case", CASES)
def test_expanding(torch, case):
    (ours, _), (theirs, _) = make(torch, case), make(oracle, case)
    shape = (4, *theirs.batch_shape)
    wide, wanted = ours.expand(shape), theirs.expand(shape)
    assert wide.batch_shape == wanted.batch_shape and wide.event_shape == wanted.event_shape
    assert type(wide) is type(ours)
    values = wanted.sample((2,))
    same(wide.log_prob(moved(torch, values)), wanted.log_prob(values))
    same(outcome(lambda: wide.mean), outcome(lambda: wanted.mean))
    torch.manual_seed(0)
    assert tuple(wide.sample((3,)).shape) == tuple(wanted.sample((3,)).shape)


@pytest.mark.parametrize("case", CASES)
def test_pickles(torch, case):
    d, _ = make(torch, case)
    values = d.sample((3,))
    assert torch.equal(pickle.loads(pickle.dumps(d)).log_prob(values), d.log_prob(values))


def pairs():
    for a in CASES:
        for b in CASES:
            if "numbers" not in a and "numbers" not in b and " by " not in a and " by " not in b:
                yield a, b


def test_divergences(torch):
    """All pairs of which PyTorch knows a formula without differentiating or drawing."""
    from cygrad.distributions import kl_divergence

    seen = 0
    for a, b in pairs():
        (p, _), (q, _) = make(torch, a), make(torch, b)
        (theirs, _), (others, _) = make(oracle, a), make(oracle, b)
        try:
            wanted = outcome(lambda p=theirs, q=others: oracle.distributions.kl_divergence(p, q))
            if wanted is None:
                continue
            ours = kl_divergence(p, q)
        except RuntimeError as error:           # batches of different shapes, which PyTorch does not always look at
            assert "must match" in str(error) or "broadcast" in str(error), (a, b)
            continue
        assert ours.dtype is torch.float64
        wanted = np.broadcast_to(wanted.detach().numpy(), ours.shape)       # of infinities, PyTorch's has p's shape
        np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-6, atol=1e-9, err_msg=f"{a} {b}")
        seen += 1
    assert seen >= 30


@pytest.mark.parametrize("low", [-0.5, 0.0, 0.25])
@pytest.mark.parametrize("high", [0.75, 1.0, 2.0])
def test_divergences_of_what_lies_between(torch, low, high):
    """Infinite where the other distribution has not all of the values."""
    others = (("Beta", 0.7, 1.3), ("Exponential", 0.7), ("Gamma", 2.5, 0.7), ("Pareto", 0.2, 1.5), ("Gumbel", 0.3, 0.7))
    for name, *numbers in others:
        found = []
        for lib in (torch, oracle):
            p = lib.distributions.Uniform(lib.tensor(low, dtype=lib.float64), high)
            q = getattr(lib.distributions, name)(*(lib.tensor(x, dtype=lib.float64) for x in numbers))
            found.append(lib.distributions.kl_divergence(p, q).item())
        assert found[0] == pytest.approx(found[1], rel=1e-9), name


def test_divergences_that_must_exist(torch):
    from cygrad.distributions import kl_divergence

    for case in ("normal", "laplace", "cauchy", "uniform", "exponential", "gamma", "chi2", "beta", "dirichlet",
                 "gumbel", "half normal", "log normal", "pareto", "normal vectors", "bernoulli", "geometric",
                 "binomial", "poisson", "categorical", "one hot"):
        p, _ = make(torch, case)
        assert bool((kl_divergence(p, p).abs() < 1e-9).all()), case


def test_divergences_of_derived_types(torch):
    d = torch.distributions
    p, q = (d.Independent(d.Normal(torch.arange(3.0), s), 1) for s in (1.0, 2.0))
    assert torch.allclose(d.kl_divergence(p, q), d.kl_divergence(p.base_dist, q.base_dist).sum())

    class Mine(d.Normal):
        pass

    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)) == 0
    with pytest.raises(NotImplementedError, match="Poisson and q type Normal"):
        d.kl_divergence(d.Poisson(1.0), d.Normal(0.0, 1.0))
    with pytest.raises(TypeError, match="type_q"):
        d.register_kl(d.Normal, int)


# ---- made of others
def test_side_by_side_and_mixed(torch):
    results = []
    for lib in (torch, oracle):
        d = lib.distributions
        loc = lib.tensor([[0.0, 1.0, 5.0], [1.0, 2.0, 3.0]], dtype=lib.float64)
        mixed = d.MixtureSameFamily(
            d.Categorical(lib.tensor([[0.2, 0.3, 0.5], [0.5, 0.1, 0.4]], dtype=lib.float64)), d.Normal(loc, 0.5)
        )
        several = d.Independent(d.Normal(loc[..., None] + loc.new_ones(2), 1.0), 1)
        vectors = d.MixtureSameFamily(d.Categorical(loc), several)
        joint = d.Independent(d.Normal(loc, 1.0), 1)
        lib.manual_seed(0)
        found = []
        for each in (mixed, vectors, joint):
            x = each.sample((4,))
            found += [x, each.log_prob(x), each.mean, each.variance]
        found += [mixed.cdf(loc.sum(1)), joint.entropy(), mixed.expand((3, 2)).log_prob(loc[:, 0])]
        results.append([f.detach().numpy() for f in found])
        assert "Independent(Normal(loc: torch.Size([2, 3])" in repr(joint)
        with pytest.raises(ValueError, match="reinterpreted_batch_ndims"):
            d.Independent(d.Normal(loc, 1.0), 3)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)
    d = torch.distributions
    weights, loc = torch.tensor([0.0, 1.0, 0.0]), torch.arange(6.0).view(2, 3)
    broadcast = d.MixtureSameFamily(d.Categorical(weights), d.Normal(loc, 1e-6)).sample((4,))
    assert broadcast.round().tolist() == [[1.0, 4.0]] * 4       # one choice of weights for both batches


def squashed(lib):
    """What programs of reinforcement learning call a squashed normal distribution."""
    d = lib.distributions
    loc = lib.tensor([[0.3, -2.0], [5.0, 0.0]], dtype=lib.float64, requires_grad=True)
    scale = lib.tensor(2.0, dtype=lib.float64)
    transforms = [d.TanhTransform(cache_size=1), d.AffineTransform(0.5, scale, cache_size=1)]
    return d.Independent(d.TransformedDistribution(d.Normal(loc, 1.0), transforms), 1), loc


def test_a_squashed_normal(torch):
    results = []
    for lib in (torch, oracle):
        d, loc = squashed(lib)
        lib.manual_seed(2)
        x = d.rsample((5,))
        y = d.log_prob(x)
        (y + x.sum(-1)).sum().backward()
        results.append([x.detach().numpy(), y.detach().numpy(), loc.grad.numpy()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)
    d = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(20.0, 1.0), torch.distributions.TanhTransform(cache_size=1)
    )
    assert d.log_prob(d.sample()).isfinite()        # the value is 1, whose inverse is infinite but for the cache


TRANSFORMS = {
    "exp": (lambda d, t: d.ExpTransform(), ()),
    "power": (lambda d, t: d.PowerTransform(t([0.5, 2.0, 3.0])), ()),
    "sigmoid": (lambda d, t: d.SigmoidTransform(), ()),
    "softplus": (lambda d, t: d.SoftplusTransform(), ()),
    "tanh": (lambda d, t: d.TanhTransform(), ()),
    "affine": (lambda d, t: d.AffineTransform(t([1.0, 2.0, 3.0]), -0.5), ()),
    "affine of vectors": (lambda d, t: d.AffineTransform(1.0, t([1.0, -2.0, 3.0]), 1), ()),
    "stick": (lambda d, t: d.StickBreakingTransform(), ()),
    "composed": (lambda d, t: d.ComposeTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)]), ()),
    "composed of vectors": (
        lambda d, t: d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.StickBreakingTransform()]), ()),
    "inverse": (lambda d, t: d.AffineTransform(1.0, 2.0).inv, ()),
    "independent": (lambda d, t: d.IndependentTransform(d.TanhTransform(), 1), ()),
    "reshape": (lambda d, t: d.ReshapeTransform((3,), (3, 1)), ()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(torch, name):
    results = []
    for lib in (torch, oracle):
        def tensor(values, lib=lib):
            return lib.tensor(values, dtype=lib.float64)

        t = TRANSFORMS[name][0](lib.distributions, tensor)
        x = tensor([[0.3, 1.0, 0.2], [2.0, 0.5, 1.5]])
        y = t(x)
        found = [y, t.inv(y), t.log_abs_det_jacobian(x, y), t.inv.log_abs_det_jacobian(y, x)]
        results.append([f.numpy() for f in found])
        assert t.inv.inv == t and (lib is oracle or t == TRANSFORMS[name][0](lib.distributions, tensor))
        assert tuple(t.forward_shape((2, 3))) == tuple(y.shape) and tuple(t.inverse_shape(y.shape)) == (2, 3)
        results[-1] = [*results[-1], t.domain.event_dim, t.codomain.event_dim, t.bijective]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_from_all_numbers_to_a_region(torch, registry):
    d, theirs = torch.distributions, oracle.distributions
    x = [[0.3, 1.0, -0.2], [2.0, -0.5, 1.5], [0.1, 0.2, 0.3]]
    for make_region in (
        lambda c: c.real, lambda c: c.positive, lambda c: c.greater_than(2.0), lambda c: c.less_than(1.0),
        lambda c: c.unit_interval, lambda c: c.interval(-1.0, 3.0), lambda c: c.simplex, lambda c: c.lower_cholesky,
        lambda c: c.independent(c.positive, 1),
    ):
        if registry == "biject_to" and make_region(d.constraints) is d.constraints.lower_cholesky:
            continue
        found = []
        for lib, each in ((torch, d), (oracle, theirs)):
            region = make_region(each.constraints)
            y = getattr(each, registry)(region)(lib.tensor(x, dtype=lib.float64))
            assert bool(region.check(y).all())
            found.append(y.numpy())
        np.testing.assert_allclose(*found, rtol=1e-9)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        getattr(d, registry)(d.constraints.boolean)


# ---- bad input
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d, t: d.Normal(0.0, -1.0), "Expected parameter scale .*GreaterThan"),
        (lambda d, t: d.Normal(t.tensor([0.0, float("nan")]), 1.0), "Expected parameter loc"),
        (lambda d, t: d.Normal("a", 1.0), "Input arguments must all be instances of Number"),
        (lambda d, t: d.Uniform(1.0, 0.0), "Expected parameter low .*LessThan"),
        (lambda d, t: d.Bernoulli(t.tensor([1.5])), "Expected parameter probs"),
        (lambda d, t: d.Bernoulli(0.5, 0.5), "Either `probs` or `logits`"),
        (lambda d, t: d.Bernoulli(), "Either `probs` or `logits`"),
        (lambda d, t: d.Categorical(t.tensor(0.5)), "at least one-dimensional"),
        (lambda d, t: d.Categorical(t.tensor([-1.0, 2.0])), "Expected parameter probs"),
        (lambda d, t: d.Chi2(-1.0), "df"),
        (lambda d, t: d.HalfNormal(0.0), "scale"),
        (lambda d, t: d.Geometric(0.0), "probs"),
        (lambda d, t: d.MultivariateNormal(t.zeros(2)), "Exactly one of"),
        (lambda d, t: d.MultivariateNormal(t.zeros(2), -t.eye(2)), "covariance_matrix"),
        (lambda d, t: d.Normal(0.0, 1.0).log_prob(1.0), "must be a Tensor"),
        (lambda d, t: d.Bernoulli(0.5).log_prob(t.tensor(0.5)), "within the support"),
        (lambda d, t: d.Categorical(t.ones(3)).log_prob(t.tensor(3)), "within the support"),
        (lambda d, t: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)), "not broadcastable"),
        (lambda d, t: d.Dirichlet(t.ones(3)).log_prob(t.ones(2)), "right-most size"),
        (lambda d, t: d.Normal.set_default_validate_args(2), None),
        (lambda d, t: d.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
    ],
)
def test_bad_input(torch, call, words):
    for lib in (torch, oracle):
        with pytest.raises(ValueError, match=words):
            call(lib.distributions, lib)


def test_what_a_kind_lacks_is_refused_as_by_pytorch(torch):
    """Base classes, and kinds without a formula, raise PyTorch's type, in words that name the kind."""
    calls = (
        lambda d, t: d.transform_to(d.constraints.Constraint()),
        lambda d, t: d.constraints.Constraint().check(t(1.0)),
        *(lambda d, t, name=name: getattr(d.Distribution(validate_args=False), name)
          for name in ("support", "mean", "mode", "variance")),
        *(lambda d, t, name=name: getattr(d.Distribution(validate_args=False), name)()
          for name in ("rsample", "entropy", "enumerate_support")),
        *(lambda d, t, name=name: getattr(d.Distribution(validate_args=False), name)(t(1.0))
          for name in ("log_prob", "cdf", "icdf")),
        lambda d, t: d.Binomial(t([1, 2]), t([0.5, 0.5])).entropy(),
        lambda d, t: d.Binomial(t([1, 2]), t([0.5, 0.5])).enumerate_support(),
        lambda d, t: d.Multinomial(t([1, 2]), t([0.5, 0.5])),
        lambda d, t: d.Poisson(t(1.0)).rsample(),
        lambda d, t: d.Categorical(t([0.5, 0.5])).cdf(t(1.0)),
        lambda d, t: d.kl_divergence(d.Binomial(2, t(0.5)), d.Binomial(3, t(0.5))),
        lambda d, t: d.Transform()(t(1.0)), lambda d, t: d.Transform().inv(t(1.0)),
        lambda d, t: d.Transform().log_abs_det_jacobian(t(1.0), t(1.0)), lambda d, t: d.Transform().sign,
    )
    for call in calls:
        with pytest.raises(NotImplementedError):
            call(oracle.distributions, oracle.tensor)
        with pytest.raises(NotImplementedError, match=r"\w"):
            call(torch.distributions, torch.tensor)


def test_nothing_is_checked_where_that_is_said(torch):
    d = torch.distributions
    assert d.Normal(0.0, -1.0, validate_args=False).scale == -1
    assert d.Bernoulli(0.5, validate_args=False).log_prob(torch.tensor(0.5)).isfinite()
    d.Distribution.set_default_validate_args(False)
    try:
        assert d.Normal(0.0, -1.0).scale == -1
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(AttributeError, match=r"Wishart.* does not exist: .*subclass of Distribution"):
        d.Wishart  # noqa: B018


def test_names(torch):
    """Public names are PyTorch's; what is left out says so."""
    from cygrad._absent import ABSENT

    ours, theirs = torch.distributions, oracle.distributions
    missing = {name for name in theirs.__all__ if not hasattr(ours, name) and f"distributions.{name}" not in ABSENT}
    assert not missing and set(ours.__all__) - set(theirs.__all__) <= {"constraints", "kl", "transforms"}

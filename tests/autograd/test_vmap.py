"""vmap: what it takes and gives, randomness, writes in place, indices, Functions, gradients through and inside it."""

import collections
import gc
import warnings

import pytest


@pytest.fixture
def vmap(torch):
    return torch.vmap


@pytest.fixture
def x(torch):
    return torch.arange(12, dtype=torch.float64).reshape(3, 4) / 7 - 1


def loop(torch, function, *columns):
    """The function on each example, stacked."""
    return torch.stack([function(*row) for row in zip(*columns, strict=True)])


# ---- arguments and results


def test_an_example_has_no_batch_dimension(torch, vmap, x):
    seen = []

    def look(row):
        seen.append((row.shape, row.ndim, row.size(0), len(row), row.numel(), row.stride(), row.dtype))
        return row

    assert vmap(look)(x).shape == (3, 4)
    assert seen == [((4,), 1, 4, 4, 4, (1,), torch.float64)]


@pytest.mark.parametrize("dims", [0, 1, -1, -2, (0,), (-1,)])
def test_the_mapped_dimension(torch, vmap, x, dims):
    at = dims[0] if isinstance(dims, tuple) else dims
    assert torch.equal(vmap(lambda r: r * 2, in_dims=dims)(x), x.movedim(at, 0) * 2)


def test_arguments_that_are_shared(torch, vmap, x):
    w = torch.ones(4, dtype=x.dtype)
    assert torch.allclose(vmap(torch.dot, in_dims=(0, None))(x, w), x.sum(1))
    assert torch.equal(vmap(lambda r, k: r * k, in_dims=(0, None))(x, 2), x * 2)
    assert torch.equal(vmap(lambda r, *, k: r + k)(x, k=w), x + 1)


def test_nested_arguments_and_results(torch, vmap, x):
    Pair = collections.namedtuple("Pair", "a b")
    data = {"x": x, "more": [x.t(), 3]}

    def f(d, p):
        return {"sum": d["x"] + d["more"][0] * d["more"][1], "pair": Pair(p.a, p.b)}

    got = vmap(f, in_dims=({"x": 0, "more": [1, None]}, 0))(data, Pair(x, x[:, 0]))
    assert torch.equal(got["sum"], x * 4)
    assert torch.equal(got["pair"].a, x) and torch.equal(got["pair"].b, x[:, 0])


def test_dimensions_of_results(torch, vmap, x):
    assert torch.equal(vmap(lambda r: r, out_dims=1)(x), x.t())
    assert torch.equal(vmap(lambda r: r, out_dims=-1)(x), x.t())
    a, b = vmap(lambda r: (r, r.sum()), out_dims=(1, 0))(x)
    assert torch.equal(a, x.t()) and torch.equal(b, x.sum(1))
    assert torch.equal(vmap(lambda r: {"y": r}, out_dims={"y": 1})(x)["y"], x.t())
    assert torch.equal(vmap(lambda r: torch.ones(2))(x), torch.ones(3, 2))
    assert torch.equal(vmap(lambda r: torch.ones(2), out_dims=None)(x), torch.ones(2))
    assert vmap(lambda r: r * 2)(torch.zeros(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_chunks(torch, vmap, x, size):
    assert torch.equal(vmap(lambda r: r.cumsum(0), chunk_size=size)(x), x.cumsum(1))
    a, b = vmap(lambda r, w: (r * w, r.sum()), (1, None), (1, 0), chunk_size=size)(x.t(), x[0])
    assert torch.equal(a, (x * x[0]).t()) and torch.equal(b, x.sum(1))


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda v, x: v(lambda a: a)(3.0), ValueError, "in_dim"),
        (lambda v, x: v(lambda: 1)(), ValueError, "no inputs"),
        (lambda v, x: v(lambda a, b: a, in_dims=(0, 1))(x, x), ValueError, "same size"),
        (lambda v, x: v(lambda a, b: a, in_dims=(0, 1, 2))(x, x), ValueError, "structure"),
        (lambda v, x: v(lambda a, b: a, in_dims=(None, None))(x, x), ValueError, "at least one"),
        (lambda v, x: v(lambda a: a, in_dims=2)(x), ValueError, "in_dim=2"),
        (lambda v, x: v(lambda a: a, in_dims=-3)(x), ValueError, "in_dim=-3"),
        (lambda v, x: v(lambda a: a, in_dims="a")(x), ValueError, "in_dims"),
        (lambda v, x: v(lambda a: a, in_dims=({"a": 0},))(x), ValueError, "structure"),
        (lambda v, x: v(lambda a: 3)(x), ValueError, "only return Tensors"),
        (lambda v, x: v(lambda a: (a, None))(x), ValueError, "only return Tensors"),
        (lambda v, x: v(lambda a: a, out_dims=3)(x), IndexError, "range"),
        (lambda v, x: v(lambda a: a, out_dims="a")(x), ValueError, "out_dims"),
        (lambda v, x: v(lambda a: (a, a), out_dims=(0,))(x), ValueError, "structure"),
        (lambda v, x: v(lambda a: a, out_dims=None)(x), ValueError, "None"),
        (lambda v, x: v(lambda a: a, randomness="often")(x), RuntimeError, "randomness"),
        (lambda v, x: v(lambda a: a, chunk_size=0)(x), ValueError, "chunk_size"),
    ],
)
def test_what_does_not_fit_is_refused(vmap, x, call, error, part):
    with pytest.raises(error, match=part):
        call(vmap, x)


def test_an_error_inside_ends_the_level(torch, vmap, x):
    def fail(row):
        raise KeyError("mine")

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            vmap(fail)(x)
    assert torch.equal(vmap(lambda r: r + torch.rand(()), randomness="same")(x).shape and x, x)
    assert torch.rand(2).shape == (2,)  # no level is left, whose default would refuse this


# ---- values decide nothing


@pytest.mark.parametrize(
    "read",
    [
        lambda r: r if r.sum() > 0 else -r,
        lambda r: r * r.sum().item(),
        lambda r: r * float(r.sum()),
        lambda r: r * int(r.sum()),
        lambda r: r[r > 0],
        lambda r: r.nonzero(),
        lambda r: r.masked_select(r > 0),
        lambda r: r.tolist(),
        lambda r: r.numpy(),
        lambda r: r.data_ptr(),
        lambda r: r.unique(),
        lambda r: range(r.long()[0]),
        lambda r: 1 if r[0] in r else 2,
    ],
)
def test_control_flow_cannot_depend_on_values(vmap, x, read):
    with pytest.raises((RuntimeError, TypeError)):
        vmap(read)(x)


def test_printing_says_what_it_is(torch, vmap, x):
    seen = []
    vmap(vmap(lambda v: seen.append(repr(v)) or v))(x)
    assert seen[0].startswith("BatchedTensor(lvl=2, bdim=0, value=") and "lvl=1" in seen[0]


# ---- in place


def test_writes_go_to_each_example(torch, vmap, x):
    def f(row, w):
        y = row.clone()
        y += w
        y.mul_(2)[0] = 7
        y[1:3].sub_(row[1:3])
        z = torch.zeros_like(row)
        z.copy_(y)
        z[..., -1].fill_(5)
        return z + row.new_zeros(4).add_(row)

    def one(row, w):
        y = (row + w) * 2
        y[0] = 7
        y[1:3] -= row[1:3]
        y[-1] = 5
        return y + row

    w = torch.arange(3.0, dtype=x.dtype)
    assert torch.allclose(vmap(f)(x, w), loop(torch, one, x, w))
    assert torch.allclose(vmap(f, in_dims=(0, None))(x, w[1]), loop(torch, lambda r: one(r, w[1]), x))


def test_an_argument_is_written_through(torch, vmap, x):
    expected = x + 1
    vmap(lambda r: r.add_(1))(x)
    assert torch.equal(x, expected)


def test_values_of_examples_do_not_go_into_a_shared_tensor(torch, vmap, x):
    shared = torch.zeros(4, dtype=x.dtype)
    for write in (
        shared.add_,
        shared.copy_,
        lambda r: shared.index_add_(0, torch.arange(4), r),
        lambda r: shared.__setitem__(slice(0, 4), r),
        lambda r: shared.scatter_(0, torch.arange(4), r),
        lambda r: torch.add(r, r, out=shared),
    ):
        with pytest.raises(RuntimeError):
            vmap(write)(x)
    assert torch.equal(shared, torch.zeros(4, dtype=x.dtype))


# ---- randomness


def test_random_numbers_are_refused_by_default(torch, vmap, x):
    for draw in (
        lambda r: torch.rand(2),
        lambda r: torch.randn_like(r),
        lambda r: r.clone().normal_(),
        lambda r: torch.randperm(3),
        lambda r: torch.bernoulli(r.abs()),
        lambda r: torch.randint(3, (2,)),
    ):
        with pytest.raises(RuntimeError, match="random"):
            vmap(draw)(x)


@pytest.mark.parametrize(
    "draw",
    [
        lambda t, r: t.rand(50),
        lambda t, r: t.randn(50),
        lambda t, r: t.randint(1000, (50,)),
        lambda t, r: t.randperm(50),
        lambda t, r: t.rand_like(r.expand(50)),
        lambda t, r: t.normal(0.0, 1.0, (50,)),
        lambda t, r: r.new_empty(50).uniform_(),
        lambda t, r: r.expand(50).clone().normal_(),
    ],
)
def test_the_same_or_different_numbers(torch, vmap, draw):
    x = torch.zeros(3, 1)
    same = vmap(lambda r: draw(torch, r), randomness="same")(x)
    assert torch.equal(same[0], same[1]) and torch.equal(same[0], same[2])
    different = vmap(lambda r: draw(torch, r), randomness="different")(x)
    assert not torch.equal(different[0], different[1]) and not torch.equal(different[1], different[2])


def test_numbers_repeat_with_the_seed_and_chunks_share_them(torch, vmap):
    x = torch.zeros(6, 4)
    f = lambda r: r + torch.randn(4)  # noqa: E731
    torch.manual_seed(5)
    a = vmap(f, randomness="different")(x)
    torch.manual_seed(5)
    assert torch.equal(a, vmap(f, randomness="different")(x))
    shared = vmap(f, randomness="same", chunk_size=2)(x)
    assert torch.equal(shared, shared[:1].expand(6, 4))


def test_probabilities_of_examples_are_not_drawn_the_same(torch, vmap):
    p = torch.full((3, 100), 0.5)
    with pytest.raises(RuntimeError, match="same"):
        vmap(torch.bernoulli, randomness="same")(p)
    drawn = vmap(torch.bernoulli, randomness="different")(p)
    assert set(drawn.flatten().tolist()) == {0.0, 1.0} and not torch.equal(drawn[0], drawn[1])
    assert vmap(lambda r: torch.multinomial(r, 5), randomness="different")(p).shape == (3, 5)


def test_writing_different_numbers_into_a_shared_tensor(torch, vmap, x):
    with pytest.raises(RuntimeError):
        vmap(lambda r: torch.zeros(4).normal_(), randomness="different")(x)


# ---- indices


KEYS = [
    (lambda y, i: y[i], "one"),
    (lambda y, i: y[i, 1], "one"),
    (lambda y, i: y[:, i], "one"),
    (lambda y, i: y[1:, i], "one"),
    (lambda y, i: y[i, :, i], "many"),
    (lambda y, i: y[i, i], "many"),
    (lambda y, i: y[:, i, i], "many"),
    (lambda y, i: y[..., i], "many"),
    (lambda y, i: y[i[None], i[:, None]], "many"),
    (lambda y, i: y[None, i], "many"),
]


@pytest.mark.parametrize(("read", "kind"), KEYS)
def test_reading_with_indices_that_vary(torch, vmap, read, kind):
    y = torch.arange(2 * 3 * 3 * 4.0).reshape(2, 3, 3, 4)
    i = torch.tensor([2, 0]) if kind == "one" else torch.tensor([[0, 2], [1, -1]])
    both = vmap(read)(y, i)
    assert torch.equal(both, loop(torch, read, y, i))
    assert torch.equal(vmap(read, in_dims=(None, 0))(y[0], i), loop(torch, lambda k: read(y[0], k), i))
    assert torch.equal(vmap(read, in_dims=(0, None))(y, i[1]), loop(torch, lambda t: read(t, i[1]), y))
    weight = torch.randn(both.shape)
    ours, theirs = (y.clone().requires_grad_() for _ in range(2))
    (vmap(read)(ours, i) * weight).sum().backward()
    (loop(torch, read, theirs, i) * weight).sum().backward()
    assert torch.allclose(ours.grad, theirs.grad)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_writing_with_indices_that_vary(torch, vmap, at, backend):
    def write(y, i, v):
        y = y.clone()
        key = [(i,), (slice(None), i), (i, slice(None), i)][at]
        y[key] = v
        return y.index_put((i, i), v.sum(), accumulate=True)

    y = torch.arange(2 * 3 * 3 * 4.0).reshape(2, 3, 3, 4)
    i, v = torch.tensor([[0, 2], [1, 0]]), torch.tensor([5.0, -1.0])
    assert torch.equal(vmap(write)(y, i, v), loop(torch, write, y, i, v))
    if (backend, at) == ("torch", 2):
        return  # where dimensions lie between the indices, PyTorch writes elsewhere
    assert torch.equal(vmap(write, (0, None, 0))(y, i[1], v), loop(torch, lambda a, b: write(a, i[1], b), y, v))
    assert torch.equal(vmap(write, (0, 0, None))(y, i, v[0]), loop(torch, lambda a, b: write(a, b, v[0]), y, i))


def test_a_mask_that_varies_can_be_written_under(torch, vmap, x, beyond_pytorch):
    def f(row):
        y = row.clone()
        y[row > 0] = 9
        return y

    assert torch.equal(vmap(f)(x), loop(torch, f, x))


@pytest.mark.parametrize(
    "op",
    [
        lambda y, i, v: y.index_select(0, i),
        lambda y, i, v: y.gather(1, i[None].expand(3, 2)),
        lambda y, i, v: y.take(i),
        lambda y, i, v: y.index_add(0, i, v),
        lambda y, i, v: y.index_copy(0, i, v),
        lambda y, i, v: y.index_fill(1, i, 3.0),
        lambda y, i, v: y.index_fill(1, i, v[0, 0]),
        lambda y, i, v: y.scatter(0, i[None].expand(2, 2), v[:, :2]),
        lambda y, i, v: y.scatter_add(0, i[None].expand(2, 2), v[:, :2]),
        lambda y, i, v: y.scatter(0, i[:, None], 7.0),
        lambda y, i, v: y.index_reduce(0, i, v, "amax"),
        lambda y, i, v: y.clone().index_add_(0, i, v, alpha=2.0),
    ],
)
@pytest.mark.parametrize(
    "dims", [(0, 0, 0), (0, None, 0), (None, 0, 0), (None, 0, None), (0, None, None), (None, None, 0)]
)
def test_operations_that_take_indices(torch, vmap, op, dims, backend):
    if backend == "torch" and dims[0] is None and "index_fill" in op.__code__.co_names:
        pytest.skip("PyTorch fills in place what is shared")
    y, v = torch.randn(2, 3, 4), torch.randn(2, 2, 4)
    i = torch.tensor([[0, 2], [1, 0]])
    args = [a if d == 0 else a[0] for a, d in zip((y, i, v), dims, strict=True)]
    if dims[0] is None and "clone" in op.__code__.co_names:
        pytest.skip("writes in place into what is shared")
    each = [op(*[a[k] if d == 0 else a for a, d in zip(args, dims, strict=True)]) for k in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.allclose(vmap(op, in_dims=dims)(*args), torch.stack(each))


def test_a_mask_that_all_share(torch, vmap, x, beyond_pytorch):
    """masked_select has one shape then; PyTorch refuses it."""
    mask = torch.tensor([True, False, True, True])
    assert torch.equal(vmap(lambda r: r.masked_select(mask))(x), x[:, mask])
    assert torch.equal(vmap(lambda r: r[mask] * 2)(x), x[:, mask] * 2)
    d, m = x.clone().requires_grad_(), torch.tensor([[True, False, False, True], [False] * 4, [True] * 4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = vmap(lambda r, k, s: r.masked_scatter(k, s), (0, 0, 0))(x, m, d)
    (y * torch.arange(12.0, dtype=x.dtype).view(3, 4)).sum().backward()
    assert d.grad.tolist() == [[0.0, 3.0, 0.0, 0.0], [0.0] * 4, [8.0, 9.0, 10.0, 11.0]]


# ---- nesting, and gradients


def test_nested(torch, vmap):
    x, y = torch.randn(2, 3), torch.randn(4, 3)
    pairs = vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert torch.allclose(pairs, x @ y.t())
    three = vmap(vmap(vmap(lambda a, b, c: a * b - c, (None, None, 0)), (None, 0, None)), (0, None, None))(
        x[0], y[:, 0], x[1]
    )
    assert torch.allclose(three, x[0][:, None, None] * y[:, 0][None, :, None] - x[1])
    assert torch.allclose(vmap(lambda r: vmap(lambda s: s + r.sum())(r))(x), x + x.sum(1, keepdim=True))


def test_a_gradient_from_outside_is_the_sum_over_the_examples(torch, vmap, x):
    w = torch.randn(4, dtype=x.dtype, requires_grad=True)
    b = torch.randn((), dtype=x.dtype, requires_grad=True)
    data = x.clone().requires_grad_()

    def f(row, w, b):
        return (row * w).sin().sum() + b * w.sum()

    vmap(f, (0, None, None))(data, w, b).pow(2).sum().backward()
    got = w.grad, b.grad, data.grad
    w.grad = b.grad = data.grad = None
    loop(torch, lambda r: f(r, w, b), data).pow(2).sum().backward()
    for a, e in zip(got, (w.grad, b.grad, data.grad), strict=True):
        assert torch.allclose(a, e)


def test_second_derivatives_through_vmap(torch, vmap, x):
    w = torch.randn(4, dtype=x.dtype, requires_grad=True)
    results = []
    for f in (
        lambda w: vmap(lambda r: (r * w).exp().sum(), 0)(x),
        lambda w: loop(torch, lambda r: (r * w).exp().sum(), x),
    ):
        (g,) = torch.autograd.grad(f(w).pow(2).sum(), w, create_graph=True)
        (h,) = torch.autograd.grad(g.sin().sum(), w)
        results.append((g.detach(), h))
    assert torch.allclose(results[0][0], results[1][0]) and torch.allclose(results[0][1], results[1][1])


def test_rows_of_a_jacobian_at_once(torch, vmap, x):
    a = x[0].clone().requires_grad_()
    y = (a * a.sum()).sin()
    rows = vmap(lambda v: torch.autograd.grad(y, a, v, retain_graph=True)[0])(torch.eye(4, dtype=x.dtype))
    each = torch.stack([torch.autograd.grad(y, a, v, retain_graph=True)[0] for v in torch.eye(4, dtype=x.dtype)])
    assert torch.allclose(rows, each)
    (batched,) = torch.autograd.grad(y, a, torch.eye(4, dtype=x.dtype), is_grads_batched=True)
    assert torch.allclose(batched, each)


def test_batched_gradients_of_several(torch, x):
    a, b, c = (x[i].clone().requires_grad_() for i in range(3))
    y, z = a * b, a.exp().sum()
    weights = torch.randn(5, 4, dtype=x.dtype), torch.randn(5, dtype=x.dtype)
    got = torch.autograd.grad((y, z), (a, b, c), weights, is_grads_batched=True, allow_unused=True)
    assert torch.allclose(got[0], weights[0] * b + weights[1][:, None] * a.exp())
    assert torch.allclose(got[1], weights[0] * a) and got[2] is None


def test_rows_of_a_gradient_through_a_vmap_that_ended(torch, vmap, x):
    """The running level is inside of the ended one, whose examples its gradients enter again."""
    d, w = x.clone().requires_grad_(), x[1].clone().requires_grad_()
    outer = vmap(vmap(lambda a, b: (a * b).sin(), (0, 0)), (0, None))(d, w)
    weights = torch.randn(5, 3, 4, dtype=x.dtype)
    options = {"retain_graph": True}
    rows = vmap(lambda v: torch.autograd.grad(outer, (d, w), v, **options))(weights)
    each = [torch.autograd.grad(outer, (d, w), v, **options) for v in weights]
    for k in range(2):
        assert torch.allclose(rows[k], torch.stack([e[k] for e in each]))


def test_backward_inside_is_refused(torch, vmap, x):
    w = torch.ones(4, dtype=x.dtype, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward"):
        vmap(lambda r: (r * w).sum().backward())(x)
    assert w.grad is None


def test_writes_in_place_have_gradients(torch, vmap, x):
    def f(row, w):
        y = row * w
        y[1:3].mul_(w[0])
        y[0] = w[1] * row[0]
        y.unsqueeze(0)[:, -1] += row.sum()
        return y.exp_().sum()

    results = []
    for way in (lambda d, w: vmap(f, (0, None))(d, w), lambda d, w: loop(torch, lambda r: f(r, w), d)):
        d, w = x.clone().requires_grad_(), (x[1] / 3).clone().requires_grad_()
        (way(d, w) * torch.arange(1.0, 4.0, dtype=x.dtype)).sum().backward()
        results.append((d.grad, w.grad))
    assert torch.allclose(results[0][0], results[1][0]) and torch.allclose(results[0][1], results[1][1])


# ---- Functions


def test_a_function_with_a_generated_rule(torch, vmap, x):
    class Scaled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a, w):
            assert a.shape == (4,)
            return a * w, a.sum()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            a, w = ctx.saved_tensors
            return g * w + h, (g * a).sum()

    w = torch.tensor(3.0, dtype=x.dtype, requires_grad=True)
    d = x.clone().requires_grad_()
    y, z = vmap(Scaled.apply, in_dims=(0, None))(d, w)
    assert torch.equal(y, x * 3) and torch.allclose(z, x.sum(1))
    (y.sin().sum() + (z * z).sum()).backward()
    got = d.grad, w.grad
    d.grad = w.grad = None
    ((d * w).sin().sum() + (d.sum(1) ** 2).sum()).backward()
    assert torch.allclose(got[0], d.grad) and torch.allclose(got[1], w.grad)


def test_a_function_with_a_rule_of_its_own(torch, vmap, x):
    seen = []

    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(a):
            return a * a * a

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0] ** 2

        @staticmethod
        def vmap(info, in_dims, a):
            seen.append((info.batch_size, info.randomness, in_dims, tuple(a.shape)))
            return Cubed.apply(a.movedim(in_dims[0], 0)), 0

    d = x.clone().requires_grad_()
    y = vmap(Cubed.apply)(d)
    assert torch.allclose(y, x**3) and seen == [(3, "error", (0,), (3, 4))]
    y.sum().backward()
    assert torch.allclose(d.grad, 3 * x * x)


def test_a_function_without_a_rule_is_refused(torch, vmap, x):
    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        vmap(Plain.apply)(x)


# ---- what cygrad says of loops


def test_a_loop_warns_once_and_is_listed(torch, vmap, x, beyond_pytorch):
    from cygrad.autograd import _core
    from cygrad.func import looped_operations

    assert (
        "masked_scatter" in looped_operations()
        and "bincount" in looped_operations()
        and "add" not in looped_operations()
    )
    _core.WARNED_LOOPS.discard("masked_scatter")
    mask = torch.tensor([True, False, True, False])
    f = lambda r: r.masked_scatter(mask, r)  # noqa: E731
    with pytest.warns(UserWarning, match="masked_scatter"):
        assert torch.equal(vmap(f)(x), loop(torch, f, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(f)(x)


def test_nothing_is_kept(torch, vmap, x, beyond_pytorch):
    from cygrad.autograd import _core

    w = torch.ones(4, dtype=x.dtype, requires_grad=True)

    def step():
        vmap(lambda r: (r * w).exp().sum())(x).sum().backward()

    step()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < 20
    assert _core.innermost_level() is None


WRITES = {
    "add_": lambda torch, a: a.add_(1),
    "mul_": lambda torch, a: a.mul_(2.0),
    "x[0] = 1": lambda torch, a: a.__setitem__(0, 1.0) or a,
    "of a view": lambda torch, a: a[1:].add_(1),
    "copy_": lambda torch, a: a.copy_(torch.ones(2)),
    "index_add_": lambda torch, a: a.index_add_(0, torch.tensor([0]), torch.ones(1)),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("recorded", [True, False])
def test_examples_that_are_one_memory_are_not_written(torch, vmap, write, recorded):
    """An expanded tensor has one memory for all examples: written once for each they would be something else."""
    w = torch.ones(2)
    with torch.set_grad_enabled(recorded), pytest.raises(RuntimeError, match="single memory location"):
        vmap(lambda a: WRITES[write](torch, a))(w.expand(3, 2))
    assert w.tolist() == [1.0, 1.0]


def test_what_is_made_inside_is_written_once(torch, vmap, x):
    """A tensor that all examples share because nothing in it varies may be written with what does not vary either."""

    def f(row):
        shared = torch.zeros(4, dtype=row.dtype)
        shared[1:] = 2.0
        shared.add_(1)
        return row + shared

    assert torch.equal(vmap(f)(x), x + torch.tensor([1.0, 3, 3, 3], dtype=x.dtype))

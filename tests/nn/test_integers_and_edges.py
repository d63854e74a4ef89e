"""nn.functional of integers, of complex numbers and of nothing, beside PyTorch."""

import warnings

import numpy as np
import pytest

import cygrad
import cygrad.nn.functional as F

torch = pytest.importorskip("torch")


def both(call):
    """What a call gives in each library: numbers with dtype and shape, or the type of the error."""
    found = []
    for lib in (cygrad, torch):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = call(lib, lib.nn.functional)
            found.append((str(y.dtype), tuple(y.shape), y.tolist()))
        except Exception as error:
            found.append(type(error))
    return found


def whole(lib, *shape, dtype="int64", start=0):
    numbers = (np.arange(start, start + int(np.prod(shape))) * 7 % 11).reshape(shape)
    return lib.from_numpy(numbers.astype(dtype))


CONVOLUTIONS = {
    "1d": lambda lib, F, d: F.conv1d(whole(lib, 2, 4, 9, dtype=d), whole(lib, 6, 4, 3, dtype=d), stride=2, padding=1),
    "grouped": lambda lib, F, d: F.conv1d(
        whole(lib, 4, 9, dtype=d), whole(lib, 6, 2, 2, dtype=d), groups=2, dilation=3),
    "same": lambda lib, F, d: F.conv1d(whole(lib, 1, 4, 9, dtype=d), whole(lib, 2, 4, 4, dtype=d), padding="same"),
    "2d": lambda lib, F, d: F.conv2d(
        whole(lib, 2, 2, 6, 5, dtype=d), whole(lib, 4, 1, 3, 2, dtype=d), whole(lib, 4, dtype=d), (1, 2), (0, 1), 1, 2),
    "3d": lambda lib, F, d: F.conv3d(
        whole(lib, 1, 2, 4, 5, 4, dtype=d), whole(lib, 3, 2, 2, 3, 1, dtype=d), padding=1),
    "no items": lambda lib, F, d: F.conv2d(whole(lib, 0, 2, 4, 4, dtype=d), whole(lib, 3, 2, 2, 2, dtype=d)),
}
TRANSPOSED = {
    "1d": lambda lib, F: F.conv_transpose1d(whole(lib, 2, 4, 5), whole(lib, 4, 3, 3), None, 2, 1, 1),
    "grouped": lambda lib, F: F.conv_transpose1d(whole(lib, 4, 5), whole(lib, 4, 3, 2), None, 3, 2, 2, 2, 4),
    "2d": lambda lib, F: F.conv_transpose2d(
        whole(lib, 2, 2, 3, 4), whole(lib, 2, 2, 3, 2), whole(lib, 4), (2, 1), (1, 0), (1, 0), 2, (1, 2)),
    "3d": lambda lib, F: F.conv_transpose3d(whole(lib, 1, 2, 2, 3, 2), whole(lib, 2, 1, 2, 2, 2), stride=2),
    "more than a step": lambda lib, F: F.conv_transpose1d(
        whole(lib, 1, 1, 4), whole(lib, 1, 1, 3), None, 1, 1, 1, 1, 2),
}


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_integers(name, dtype):
    ours, theirs = both(lambda lib, F: CONVOLUTIONS[name](lib, F, dtype))
    if theirs is NotImplementedError:        # PyTorch dilates int64 only
        y = CONVOLUTIONS[name](torch, torch.nn.functional, "int64").to(getattr(torch, dtype))
        theirs = str(y.dtype), tuple(y.shape), y.tolist()
    assert ours == theirs and not isinstance(ours, type)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_of_integers(name):
    ours, theirs = both(TRANSPOSED[name])
    assert ours == theirs and not isinstance(ours, type)


def test_convolutions_of_integers_are_exact():
    big = 2**62 + 1
    assert F.conv1d(cygrad.tensor([[[big, 3]]]), cygrad.tensor([[[1, 1]]])).tolist() == [[[big + 3]]]
    apart = F.conv_transpose1d(cygrad.tensor([[[big]]]), cygrad.tensor([[[1, 2]]]))
    assert apart.tolist() == [[[big, 2 * big - 2**64]]]




@pytest.mark.parametrize("shapes", [
    ((0, 4, 5), (0, 4, 3)), ((1, 4, 5), (0, 4, 3)), ((1, 4, 0), (2, 4, 1)), ((0, 4, 5), (2, 4, 3)),
    ((1, 4, 5), (2, 4, 0)), ((4, 0), (2, 4, 1)), ((0, 4, 0), (2, 4, 3))])
@pytest.mark.parametrize("function", ["conv1d", "conv_transpose1d"])
def test_convolutions_of_nothing(function, shapes):
    for padding in (0, 2):
        ours, theirs = both(lambda lib, F, p=padding: getattr(F, function)(*map(lib.ones, shapes), padding=p))
        assert ours == theirs


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pools_of_nothing(kind, dims):
    for lead in ((0,), (2,), (0, 3), (2, 0), (2, 3)):
        for place in ((4,) * dims, (4,) * (dims - 1) + (0,)):
            ours, theirs = both(
                lambda lib, F, s=(*lead, *place): getattr(F, f"adaptive_{kind}_pool{dims}d")(lib.ones(s), 2))
            assert ours == theirs, (lead, place)
    if kind == "avg":
        assert getattr(F, f"adaptive_avg_pool{dims}d")(cygrad.ones(2, *(0,) * dims), 1).isnan().all()


def test_resizing_nothing():
    for shape in ((2, 3, 0), (0, 3, 4), (2, 0, 4), (2, 3, 1)):
        for more in ({"size": 0}, {"size": 2}, {"scale_factor": 0.6}):
            for mode in ("area", "nearest", "linear"):
                ours, theirs = both(lambda lib, F, s=shape, m=mode, k=more: F.interpolate(lib.ones(s), mode=m, **k))
                assert ours == theirs, (shape, more, mode)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_are_resized_as_by_pytorch(mode, align, antialias):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 9, 7)).astype("uint8")
    for more in ({"size": (3, 3)}, {"size": (20, 11)}, {"size": (9, 3)}, {"scale_factor": 1.7}, {"scale_factor": 0.6}):
        ours, theirs = both(lambda lib, F, k=more: F.interpolate(
            lib.from_numpy(pixels.copy()), mode=mode, align_corners=align, antialias=antialias, **k))
        assert ours == theirs, more


@pytest.mark.parametrize("dtype", ["bool", "complex64"])
def test_patches_of_other_numbers(dtype):
    numbers = np.arange(32).reshape(1, 2, 4, 4) % 3 * (1 - 2j if dtype == "complex64" else 1)
    for call in (lambda F, x: F.unfold(x, 2, padding=1), lambda F, x: F.fold(F.unfold(x, 2), (4, 4), 2)):
        ours, theirs = both(lambda lib, F, f=call: f(F, lib.from_numpy(numbers.astype(dtype))))
        assert ours == theirs and not isinstance(ours, type)


def test_losses_and_norms_of_complex_numbers():
    a, b = [[1 + 2j, -3j, 2.0]], [[0.5j, 1.0, 2 - 1j]]
    for call in (lambda lib, F: F.l1_loss(lib.tensor(a), lib.tensor(b)),
                 lambda lib, F: F.l1_loss(lib.tensor(a), lib.tensor(b), reduction="none"),
                 lambda lib, F: F.rms_norm(lib.tensor(a), (3,)).abs()):
        ours, theirs = both(call)
        assert ours[:2] == theirs[:2]
        assert np.allclose(ours[2], theirs[2])


def test_maxima_of_windows_in_the_padding():
    for dtype in ("int64", "int8", "float32"):
        ours, theirs = both(lambda lib, F, d=dtype: F.max_pool2d(whole(lib, 1, 4, 4).to(getattr(lib, d)), 2, 1, 1, 5))
        assert ours == theirs


def test_embeddings():
    for call in (
        lambda lib, F: F.embedding(lib.tensor([0]), lib.ones(0, 3)),
        lambda lib, F: F.embedding(lib.tensor([3]), lib.ones(3, 3)),
        lambda lib, F: F.embedding(lib.tensor([1]), lib.ones(3, 3), sparse=True),
        lambda lib, F: F.embedding_bag(lib.tensor([[-1]]), lib.ones(3, 3)),
        lambda lib, F: F.embedding_bag(
            lib.tensor([[0, 1, 2]]), lib.tensor([[1000.0], [0.3], [0.3]]).half(), mode="sum"),
        lambda lib, F: F.embedding_bag(
            lib.tensor([1, 2, 0, 1]), whole(lib, 3, 2, dtype="float32"), lib.tensor([0, 3]), mode="sum",
            per_sample_weights=lib.tensor([1.0, 2.0, 3.0, 4.0])),
        lambda lib, F: F.pdist(lib.ones(3, 0), float("inf")),
    ):
        ours, theirs = both(call)
        assert ours == theirs
    with pytest.raises(NotImplementedError, match="sparse gradients"):
        F.embedding(cygrad.tensor([1]), cygrad.ones(3, 3, requires_grad=True), sparse=True)


def test_local_response_norm_of_integers():
    ours, theirs = both(lambda lib, F: F.local_response_norm(whole(lib, 1, 6, 3), 2, 0.3, 0.5))
    assert ours[:2] == theirs[:2]
    assert np.allclose(ours[2], theirs[2])


@pytest.mark.parametrize("call", [
    lambda x: F.batch_norm(cygrad.ones(2, 3), x, None),
    lambda x: F.layer_norm(cygrad.ones(2, 3), (3,), None, x),
    lambda x: F.group_norm(cygrad.ones(2, 4, 2), 2, x),
    lambda x: F.instance_norm(cygrad.ones(2, 4, 2), weight=x),
    lambda x: F.rms_norm(cygrad.ones(2, 3), (3,), x),
    lambda x: F.normalize(x),
    lambda x: F.pad(x, (1, 1), "reflect"),
    lambda x: F.bilinear(cygrad.ones(2, 3), cygrad.ones(2, 3), cygrad.ones(1, 3, 3), x),
    lambda x: F.binary_cross_entropy(cygrad.ones(2), cygrad.ones(2), x),
    lambda x: F.margin_ranking_loss(cygrad.ones(2), cygrad.ones(2), x),
    lambda x: F.hinge_embedding_loss(x, cygrad.ones(2)),
    lambda x: F.multi_margin_loss(cygrad.ones(2, 3), x),
    lambda x: F.multilabel_margin_loss(cygrad.ones(2, 3), x),
    lambda x: F.cosine_embedding_loss(cygrad.ones(2), cygrad.ones(2), x),
    lambda x: F.triplet_margin_loss(cygrad.ones(2), x, cygrad.ones(2)),
    lambda x: F.embedding_bag(cygrad.tensor([[0]]), cygrad.ones(2, 2), mode="sum", per_sample_weights=x),
    lambda x: F.affine_grid(x, (1, 1, 2, 2)),
    lambda x: cygrad.nn.TransformerEncoder(x, 2**31),
])
def test_what_is_no_tensor_is_named(call):
    for wrong in (1, [1.0], "x", object()):
        with pytest.raises(TypeError):
            call(wrong)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_after_the_bias(dtype):
    x, w, b = (cygrad.tensor(v, dtype=getattr(cygrad, dtype)) for v in ([[[3.0, 5.0]]], [[[1.1, 0.7]]], [-6.75]))
    for function in (F.conv1d, F.conv_transpose1d):
        exact = function(x.double(), w.double(), b.double())
        assert function(x, w, b).tolist() == exact.to(x.dtype).tolist()


def test_grids_of_halves_are_sampled_as_of_float32():
    x = cygrad.arange(48.0).sin().view(1, 3, 4, 4).half()
    grid = cygrad.arange(18.0).cos().view(1, 3, 3, 2).half()
    for mode in ("bilinear", "nearest", "bicubic"):
        y = F.grid_sample(x, grid, mode, align_corners=False)
        assert y.dtype is cygrad.float16
        assert y.tolist() == F.grid_sample(x.float(), grid.float(), mode, align_corners=False).half().tolist()


def test_every_row_that_a_bag_names_is_scaled_down():
    weights = []
    for lib in (cygrad, torch):
        w = lib.arange(1.0, 9.0).view(4, 2)
        lib.nn.functional.embedding_bag(lib.tensor([0, 1, 3]), w, lib.tensor([0, 2]), max_norm=1.0, padding_idx=0)
        weights.append(w.tolist())
    assert np.allclose(*weights)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_attention_of_halves_is_rounded_once(dtype):
    q, k, v = (8 * (cygrad.arange(96.0) * s).sin().view(2, 6, 8).to(getattr(cygrad, dtype)) for s in (1, 2, 3))
    y = F.scaled_dot_product_attention(q, k, v)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert y.dtype is q.dtype
    assert ((y.double() - exact).abs() <= exact.abs() * cygrad.finfo(q.dtype).eps + 1e-4).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("need_weights", [True, False])
def test_heads_of_halves_are_rounded_once(dtype, need_weights):
    """Results and gradients are those of float64, rounded: scores from rounded projections were wrong by percents."""
    half = getattr(cygrad, dtype)
    sizes = [(5, 2, 4), (6, 2, 4), (6, 2, 4), (12, 4), (12,), (4, 4), (4,)]
    given = [(2 * (cygrad.arange(float(np.prod(s))) * (i + 1)).sin().view(s)).to(half) for i, s in enumerate(sizes)]
    results = []
    for widen in (lambda x: x, lambda x: x.double()):
        q, k, v, w, b, wo, bo = inputs = [widen(x).detach().requires_grad_() for x in given]
        y, weights = F.multi_head_attention_forward(
            q, k, v, 4, 2, w, b, None, None, False, 0.0, wo, bo, need_weights=need_weights
        )
        y.backward(cygrad.ones_like(y))
        results.append([y, *(x.grad for x in inputs), *([weights] if need_weights else [])])
    assert all(x.dtype is half for x in results[0])
    for x, exact in zip(*results, strict=True):
        assert ((x.double() - exact).abs() <= exact.abs() * cygrad.finfo(half).eps + 1e-4).all()


def test_bilinear_maps_of_halves_are_rounded_once():
    x, y, w = ((cygrad.arange(float(np.prod(s))) * 3).sin().view(s).half() for s in ((4, 30), (4, 40), (5, 30, 40)))
    exact = F.bilinear(x.double(), y.double(), w.double())
    assert ((F.bilinear(x, y, w).double() - exact).abs() <= exact.abs() * 2**-10 + 1e-6).all()
    with pytest.raises(RuntimeError):
        F.bilinear(x, y, w.float())


@pytest.mark.parametrize("name", ["binary_cross_entropy", "binary_cross_entropy_with_logits"])
def test_losses_of_halves_are_rounded_once(name):
    """Weights of both signs: what is left of the sum would drown in the rounding of its parts."""
    x, y = ((cygrad.arange(25.0) * s).sin().sigmoid().view(5, 5).bfloat16() for s in (1, 2))
    weight = cygrad.tensor([4.3125, -0.8671875, -0.4375, 5.125, -6.25]).bfloat16()
    loss = getattr(F, name)(x, y, weight, reduction="sum")
    exact = getattr(F, name)(x.double(), y.double(), weight.double(), reduction="sum")
    assert loss.dtype is cygrad.bfloat16
    assert abs(loss.double() - exact) <= abs(exact) * 2**-8


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("sizes", [(0, 0, 2), (0, 3, 2), (3, 0, 2), (2, 3, 0)])
def test_heads_without_queries_keys_or_batch(sizes, need_weights):
    length, sources, batch = sizes

    def call(lib, F):
        q, k = lib.ones(length, batch, 4), lib.ones(sources, batch, 4)
        return F.multi_head_attention_forward(
            q, k, k, 4, 2, lib.ones(12, 4), lib.ones(12), None, None, False, 0.0, lib.ones(4, 4), lib.ones(4),
            need_weights=need_weights,
        )[0]

    ours, theirs = both(call)
    assert ours[1:] == theirs[1:]


def test_nothing_cannot_be_repeated():
    with pytest.raises(RuntimeError, match=r"padding \(-4, 2\) leaves nothing of dimension 2"):
        F.pad(cygrad.ones(1, 1, 4), (-4, 2), "circular")


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ValueError, "num_groups=0", lambda nn: nn.GroupNorm(0, 1)),
        (RuntimeError, "memory", lambda nn: nn.GRU(2, 2, 2**40)),
        (TypeError, "_weight must be a Tensor, not list", lambda nn: nn.Embedding(0, 0, _weight=[1, 2])),
        (RuntimeError, "memory", lambda nn: nn.TransformerEncoder(nn.Linear(2, 2), 2**40)),
        (TypeError, "'root' must be Module, not list", lambda nn: cygrad.func.replace_all_batch_norm_modules_([1, 2])),
    ],
)
def test_modules_that_cannot_be(error, match, call):
    with pytest.raises(error, match=match):
        call(cygrad.nn)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (0, 0), (1, 1), (2, 1), 1])
@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d"])
def test_results_of_adaptive_pooling_without_places(name, sizes):
    ours, theirs = both(lambda lib, f: getattr(f, name)(whole(lib, 2, 3, 4, dtype="float32"), sizes))
    assert ours == theirs


@pytest.mark.parametrize("sizes", [0, 1, 2])
def test_results_of_adaptive_pooling_of_lines_without_places(sizes):
    ours, theirs = both(lambda lib, f: f.adaptive_avg_pool1d(whole(lib, 2, 3, 4, dtype="float32"), sizes))
    assert ours == theirs

"""What ``loss.grad_fn`` is called: as in PyTorch, where a loss or a layer is one operation."""

import pytest

oracle = pytest.importorskip("torch")


def leaf(lib, *shape):
    return lib.rand(*shape).requires_grad_()


def classes(lib, shape, n):
    return lib.randint(0, n, shape if isinstance(shape, tuple) else (shape,))


def loss(name, *others, **options):
    """A loss of a leaf of shape (4, 5) against `others`: shapes of tensors, or "classes" or "ones"."""

    def make(lib):
        made = [classes(lib, 4,
            5) if o == "classes" else lib.ones(*o[1:]) if o[0] == "ones" else lib.rand(*o) for o in others]
        return getattr(lib.nn.functional, name)(leaf(lib, 4, 5), *made, **options)

    return make


def module(name, *args, shape, train=True, **options):
    """What a module makes of a leaf."""

    def make(lib):
        made = getattr(lib.nn, name)(*args, **options).train(train)(leaf(lib, *shape))
        return made[0] if isinstance(made, tuple) else made

    return make


REDUCED = [
    ("cross_entropy", ("classes",)), ("nll_loss", ("classes",)), ("mse_loss", ((4, 5),)), ("l1_loss", ((4, 5),)),
    ("smooth_l1_loss", ((4, 5),)), ("huber_loss", ((4, 5),)), ("binary_cross_entropy", ((4, 5),)),
    ("binary_cross_entropy_with_logits", ((4, 5),)), ("kl_div", ((4, 5),)), ("soft_margin_loss", (("ones", 4, 5),)),
    ("multi_margin_loss", ("classes",)), ("poisson_nll_loss", ((4, 5),)), ("gaussian_nll_loss", ((4, 5), (4, 5))),
    ("hinge_embedding_loss", (("ones", 4, 5),)), ("cosine_embedding_loss", ((4, 5), ("ones", 4))),
    ("triplet_margin_loss", ((4, 5), (4, 5))), ("margin_ranking_loss", ((4, 5), ("ones", 4, 5))),
]  # fmt: skip
CASES = [
    *((f"{name}-{r}", loss(name, *others, reduction=r)) for name, others in REDUCED for r in ("mean", "sum", "none")),
    ("cross_entropy-weight", lambda lib: lib.nn.functional.cross_entropy(leaf(lib, 4, 5), classes(lib, 4, 5),
    lib.rand(5))),
    ("cross_entropy-image", lambda lib: lib.nn.functional.cross_entropy(leaf(lib, 2, 5, 3, 3),
    classes(lib, (2, 3, 3), 5))),
    ("nll_loss-ignored", loss("nll_loss", "classes", ignore_index=1)),
    ("bce-weight", loss("binary_cross_entropy", (4, 5), (4, 5))),
    ("bce-logits-pos", lambda lib: lib.nn.functional.binary_cross_entropy_with_logits(
        leaf(lib, 4, 5), lib.rand(4, 5), pos_weight=lib.rand(5))),
    ("ctc", lambda lib: lib.nn.functional.ctc_loss(leaf(lib, 9, 2, 5).log_softmax(-1), classes(lib, (2, 3), 4) + 1,
                                                   lib.tensor([9, 8]), lib.tensor([3, 2]), reduction="none")),
    ("multilabel_margin", lambda lib: lib.nn.functional.multilabel_margin_loss(leaf(lib, 4, 5),
    classes(lib, (4, 5), 5))),
    ("linear", module("Linear", 3, 2, shape=(4, 3))), ("linear3", module("Linear", 3, 2, shape=(5, 4, 3))),
    ("linear1-no-bias", module("Linear", 3, 2, bias=False, shape=(3,))),
    ("soft-targets", loss("cross_entropy", (4, 5))),
    *((f"soft-{r}", loss("multilabel_soft_margin_loss", (4, 5), reduction=r)) for r in ("mean", "sum", "none")),
    ("linear-no-bias", module("Linear", 3, 2, bias=False, shape=(5, 4, 3))),
    ("linear1", module("Linear", 3, 2, shape=(3,))),
    *((f"conv{d}", module(f"Conv{d}d", 2, 3, 2, shape=(1, 2, *(4,) * d))) for d in (1, 2, 3)),
    *((f"conv-transpose{d}", module(f"ConvTranspose{d}d", 2, 3, 2, shape=(1, 2, *(4,) * d))) for d in (1, 2, 3)),
    ("conv-same", module("Conv2d", 2, 3, 3, padding="same", bias=False, shape=(1, 2, 4, 4))),
    ("conv-no-batch", module("Conv2d", 2, 3, 3, shape=(2, 4, 4))),
    *((f"{kind}{d}", module(f"{kind}{d}d", 2, shape=(2, 2, *(4,) * d)))
      for kind in ("MaxPool", "AvgPool", "AdaptiveAvgPool", "AdaptiveMaxPool") for d in (1, 2, 3)),
    ("global-mean", module("AdaptiveAvgPool2d", 1, shape=(2, 2, 4, 4))),
    ("fractional", module("FractionalMaxPool2d", 2, 2, shape=(2, 2, 4, 4))),
    *((f"BatchNorm{d}-{t}", module(f"BatchNorm{d}d", 2, train=t, shape=(3, 2, *(4,) * d))) for d in (1,
        2) for t in (True, False)),
    ("InstanceNorm", module("InstanceNorm2d", 2, affine=True, shape=(3, 2, 4, 4))),
    ("LayerNorm", module("LayerNorm", 4, shape=(3, 4))), ("LayerNorm-plain",
    module("LayerNorm", 4, elementwise_affine=False, shape=(3, 4))),
    ("GroupNorm", module("GroupNorm", 2, 4, shape=(3, 4, 2))),
    ("GroupNorm-plain", module("GroupNorm", 2, 4, affine=False, shape=(3, 4, 2))),
    ("Embedding", lambda lib: lib.nn.Embedding(5, 3)(classes(lib, (2, 3), 5))),
    ("Embedding-padding", lambda lib: lib.nn.Embedding(5, 3, padding_idx=1)(classes(lib, (2, 3), 5))),
    *((f"EmbeddingBag-{m}", lambda lib, m=m: lib.nn.EmbeddingBag(5, 3,
        mode=m)(classes(lib, (2, 3), 5))) for m in ("sum", "mean", "max")),
    ("GLU", module("GLU", shape=(3, 4))), ("PReLU", module("PReLU", shape=(3, 4))),
    ("CELU", module("CELU", shape=(3, 4))),
    ("RReLU", module("RReLU", shape=(3, 4))), ("GELU", module("GELU", shape=(3, 4))),
    ("Softmax", module("Softmax", 1, shape=(3, 4))),
    ("PixelShuffle", module("PixelShuffle", 2, shape=(1, 4, 2, 2))),
    ("PixelUnshuffle", module("PixelUnshuffle", 2, shape=(1, 1, 2, 2))),
    ("ChannelShuffle", module("ChannelShuffle", 2, shape=(1, 4, 2, 2))),
    ("Unfold", module("Unfold", 2, shape=(1, 1, 3, 3))),
    ("Fold", module("Fold", (3, 3), 2, shape=(1, 4, 4))),
    *((f"{kind}{d}", module(f"{kind}{d}d", 1, shape=(1, 1, *(3,) * d))) for kind in ("ReflectionPad",
        "ReplicationPad") for d in (1, 2, 3)),
    *((f"Upsample-{m}", module("Upsample", scale_factor=2, mode=m, shape=(1, 1, *(3,) * d)))
      for m, d in (("nearest", 1), ("nearest", 2), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2),
          ("bicubic", 2), ("trilinear", 3))),
    ("grid_sample", lambda lib: lib.nn.functional.grid_sample(leaf(lib, 1, 1, 3, 3), lib.rand(1, 2, 2, 2) - 0.5,
    align_corners=False)),
    ("affine_grid", lambda lib: lib.nn.functional.affine_grid(leaf(lib, 1, 2, 3), (1, 1, 3, 3), align_corners=False)),
    ("pdist", lambda lib: lib.nn.functional.pdist(leaf(lib, 4, 3))),
    ("pairwise_distance", lambda lib: lib.nn.functional.pairwise_distance(leaf(lib, 4, 3), lib.rand(4, 3))),
    ("attention", lambda lib: lib.nn.functional.scaled_dot_product_attention(*(leaf(lib, 1, 2, 4,
    8) for _ in range(3)))),
    ("RNN", module("RNN", 3, 2, shape=(4, 1, 3))), ("RNN-both",
    module("RNN", 3, 2, bidirectional=True, shape=(4, 1, 3))), ("GRU", module("GRU", 3, 2, shape=(4, 1, 3))),
    ("GRUCell", module("GRUCell", 3, 2, shape=(4, 3))),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda i: CASES[i][0])
def test_names(torch, case):
    nodes = [CASES[case][1](lib).grad_fn for lib in (torch, oracle)]
    assert nodes[0].name() == nodes[1].name()


def test_a_loss_prints_its_name(torch):
    text = repr(torch.nn.functional.mse_loss(torch.ones(2, requires_grad=True), torch.zeros(2)))
    assert text == "tensor(1., grad_fn=<MseLossBackward0>)"
    assert torch.nn.functional.mse_loss(torch.ones(2), torch.zeros(2)).grad_fn is None

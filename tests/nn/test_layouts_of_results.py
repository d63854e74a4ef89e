"""In which order in memory results of nn.functional lie: PyTorch's, for each layout of the input."""

import warnings

import pytest

import cygrad

torch = pytest.importorskip("torch")

IMAGES = {
    "layer_norm": lambda F, x: F.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda F, x: F.rms_norm(x, x.shape[-1:], x[0, 0, 0]),
    "group_norm": lambda F, x: F.group_norm(x, 2),
    "instance_norm": lambda F, x: F.instance_norm(x),
    "batch_norm": lambda F, x: F.batch_norm(x, None, None, training=True),
    "avg_pool2d": lambda F, x: F.avg_pool2d(x, 2),
    "max_pool2d": lambda F, x: F.max_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda F, x: F.adaptive_avg_pool2d(x, 2),
    "adaptive_max_pool2d": lambda F, x: F.adaptive_max_pool2d(x, 2),
    "lp_pool2d": lambda F, x: F.lp_pool2d(x, 2, 2),
    "area": lambda F, x: F.interpolate(x, size=2, mode="area"),
    "pad": lambda F, x: F.pad(x, (1, 1)),
    "cut": lambda F, x: F.pad(x, (-1, 1)),
    "reflect": lambda F, x: F.pad(x, (1, 1, 1, 1), "reflect"),
    "replicate": lambda F, x: F.pad(x, (1, 1, 1, 1), "replicate"),
    "circular": lambda F, x: F.pad(x, (1, 1, 1, 1), "circular"),
    "pixel_unshuffle": lambda F, x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda F, x: F.channel_shuffle(x, 2),
    "binary_cross_entropy": lambda F, x: F.binary_cross_entropy(x.sigmoid(), x.sigmoid(), reduction="none"),
    "binary_cross_entropy_with_logits": lambda F, x: F.binary_cross_entropy_with_logits(
        x.contiguous(), x.sigmoid(), reduction="none"),
    "binary_cross_entropy_with_logits and weights": lambda F, x: F.binary_cross_entropy_with_logits(
        x, x.contiguous().sigmoid(), x[:1], reduction="none"),
    "hinge_embedding_loss": lambda F, x: F.hinge_embedding_loss(x, x.sign(), reduction="none"),
    "logsigmoid": lambda F, x: F.logsigmoid(x),
    "conv2d": lambda F, x: F.conv2d(x, x.new_ones(2, 4, 2, 2)),
}
VOLUMES = {
    "max_pool3d": lambda F, x: F.max_pool3d(x, 2),
    "avg_pool3d": lambda F, x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool3d": lambda F, x: F.adaptive_avg_pool3d(x, 2),
    "pad": lambda F, x: F.pad(x, (1, 1)),
    "replicate": lambda F, x: F.pad(x, (1,) * 6, "replicate"),
    "channel_shuffle": lambda F, x: F.channel_shuffle(x, 2),
    "conv3d": lambda F, x: F.conv3d(x, x.new_ones(2, 4, 2, 2, 2)),
    "interpolate": lambda F, x: F.interpolate(x, scale_factor=2),
    "instance_norm": lambda F, x: F.instance_norm(x),
}


def turned(x):
    return x.permute(tuple(range(x.dim()))[::-1])


LAYOUTS = {
    "row-major": lambda lib, x: x,
    "transposed": lambda lib, x: turned(turned(x).contiguous()),
    "channels last": lambda lib, x: x.contiguous(
        memory_format=lib.channels_last if x.dim() == 4 else lib.channels_last_3d),
    "steps": lambda lib, x: lib.cat([x, x], -1)[..., ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [*IMAGES, *(f"{name} of volumes" for name in VOLUMES)])
def test_strides_are_those_of_pytorch(name, layout):
    volumes = name.endswith(" of volumes")
    function = VOLUMES[name.removesuffix(" of volumes")] if volumes else IMAGES[name]
    found = []
    for lib in (cygrad, torch):
        x = lib.arange(2.0 * 4**4 if volumes else 2.0 * 4**3).sin().view(2, *(4,) * (4 if volumes else 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(function(lib.nn.functional, LAYOUTS[layout](lib, x)))
    ours, theirs = found
    assert ours.stride() == theirs.stride()
    assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist(), rel=1e-5, abs=1e-5)


def test_a_copy_with_channels_last_is_a_tensor_of_its_own(torch):
    x = torch.ones(2, 3, 4, 5, requires_grad=True)
    y = x.contiguous(memory_format=torch.channels_last)
    assert y._base is None and y.stride() == (60, 1, 15, 3)
    y.sum().backward()
    assert x.grad.shape == x.shape


def test_padding_of_images_whose_single_rows_leave_it_open(torch):
    """Strides say channels last although there is one row and one column: the result has them, as PyTorch's."""
    x = torch.ones(1, 2).unfold(0, 1, 1).unfold(0, 1, 1)
    assert x.stride() == (2, 1, 2, 2) and x.is_contiguous()
    y = torch.nn.functional.pad(x, (1, 0))
    assert y.stride() == (4, 1, 4, 2) and y._base is None
    assert torch.nn.functional.pad(torch.ones(2, 3, 1, 1), (1, 1)).stride() == (9, 3, 3, 1)

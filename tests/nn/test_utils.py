"""Tools for modules: fusion with batch norms, memory formats, modules without starting values."""

import copy

import numpy as np
import pytest


@pytest.mark.parametrize("name, args, norm", [
    ("Conv1d", (3, 4, 2), "BatchNorm1d"), ("Conv2d", (4, 6, 3, 1, 0, 1, 2), "BatchNorm2d"),
    ("Conv3d", (2, 3, 2), "BatchNorm3d"), ("ConvTranspose2d", (3, 4, 2), "BatchNorm2d"),
    ("Linear", (3, 4), "BatchNorm1d"),
])  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_fusion(torch, nn, name, args, norm, bias, affine):
    torch.manual_seed(0)
    layer = getattr(nn, name)(*args, bias=bias, dtype=torch.float64)
    bn = getattr(nn, norm)(args[1], affine=affine, dtype=torch.float64)
    dims = {"1d": 1, "2d": 2, "3d": 3}.get(name[-2:], 0)
    x = torch.randn(5, args[0], *(4,) * dims, dtype=torch.float64)
    bn(layer(x))
    if affine:
        with torch.no_grad():
            bn.weight.uniform_(0.5, 2)
            bn.bias.uniform_(-1, 1)
    fuse = nn.utils.fuse_linear_bn_eval if name == "Linear" else nn.utils.fuse_conv_bn_eval
    with pytest.raises(AssertionError, match="eval"):
        fuse(layer, bn)
    if name == "Linear" and not affine:
        return  # PyTorch's needs a scale
    layer.eval()
    bn.eval()
    fused = fuse(layer, bn, True) if "Transpose" in name else fuse(layer, bn)
    assert fused is not layer and isinstance(fused.weight, nn.Parameter) and fused.weight.requires_grad
    np.testing.assert_allclose(fused(x).detach().numpy(), bn(layer(x)).detach().numpy(), rtol=1e-9, atol=1e-12)


def test_fusion_that_cannot_be(nn):
    conv, linear = nn.Conv2d(3, 4, 2).eval(), nn.Linear(3, 4).eval()
    with pytest.raises(AssertionError):
        nn.utils.fuse_conv_bn_eval(conv, nn.BatchNorm2d(4, track_running_stats=False).eval())
    with pytest.raises(AssertionError):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(3).eval())


def test_memory_formats(torch, nn):
    net = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Sequential(nn.ConvTranspose2d(4, 3, 2)), nn.Conv3d(3, 2, 2),
        nn.Linear(2, 2))
    weight = net[0].weight
    assert nn.utils.convert_conv2d_weight_memory_format(net, torch.channels_last) is net
    assert net[0].weight is weight and weight.stride() == (12, 1, 6, 3)
    assert net[1][0].weight.stride() == (12, 1, 6, 3) and net[2].weight.is_contiguous()
    nn.utils.convert_conv3d_weight_memory_format(net, torch.channels_last_3d)
    assert net[2].weight.is_contiguous(memory_format=torch.channels_last_3d)


def test_modules_without_starting_values(torch, nn):
    torch.manual_seed(0)
    want = torch.rand(3)
    torch.manual_seed(0)
    layer = nn.utils.skip_init(nn.Linear, 3, 2, bias=False, dtype=torch.float64)
    norm = nn.utils.skip_init(nn.BatchNorm1d, 2)
    assert (torch.rand(3) == want).all()  # no number was used up
    assert layer.weight.shape == (2, 3) and layer.weight.dtype == torch.float64 and layer.bias is None
    assert norm.running_mean.shape == (2,)
    layer.load_state_dict({"weight": torch.ones(2, 3)})
    assert layer(torch.ones(3, dtype=torch.float64)).tolist() == [3, 3]
    assert copy.deepcopy(layer).weight.tolist() == [[1] * 3] * 2
    assert nn.Linear(2, 2).weight.abs().sum() > 0
    for wrong in (nn.ReLU, dict, "text"):
        with pytest.raises((RuntimeError, TypeError)):
            nn.utils.skip_init(wrong)


def test_a_module_that_fails_leaves_others_their_values(torch, nn):
    class Broken(nn.Linear):
        def __init__(self, device=None):
            super().__init__(2, 2)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        nn.utils.skip_init(Broken)
    torch.manual_seed(0)
    first = nn.Linear(2, 2).weight.tolist()
    torch.manual_seed(0)
    assert nn.Linear(2, 2).weight.tolist() == first


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(torch, nn, dims):
    torch.manual_seed(0)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    x = torch.randn(2, 4, *(5,) * dims, dtype=torch.float64, requires_grad=True)
    w = torch.randn(6, 2, *(3,) * dims, dtype=torch.float64, requires_grad=True)
    y = getattr(nn.functional, f"conv{dims}d")(x, w, **options)
    g = torch.randn_like(y)
    want = torch.autograd.grad(y, (x, w), g)
    found = (getattr(nn.grad, f"conv{dims}d_input")(x.shape, w, g, **options),
             getattr(nn.grad, f"conv{dims}d_weight")(x, w.shape, g, **options))  # fmt: skip
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    with pytest.raises(RuntimeError):
        getattr(nn.grad, f"conv{dims}d_input")(x.shape, w, g[:1], **options)


def test_gradients_of_convolutions_that_do_not_fit(torch, nn, beyond_pytorch):
    x, w, g = torch.ones(2, 1, 4, 4), torch.ones(1, 1, 2, 2), torch.ones(2, 1, 3, 3)
    for args, options in (((x, w.shape, g[:1]), {}), ((x, w.shape, g), {"stride": 2}), ((x, (1, 2, 2, 2), g), {}),
                          ((x, w.shape, g), {"groups": 0}), ((x[0], w.shape, g), {}),
                          ((x, w.shape, g), {"dilation": 0})):  # fmt: skip
        with pytest.raises(RuntimeError):
            nn.grad.conv2d_weight(*args, **options)


def test_ways_of_computing_attention(torch, nn):
    SDPBackend, sdpa_kernel = nn.attention.SDPBackend, nn.attention.sdpa_kernel
    x = torch.randn(1, 2, 3, 4)
    want = nn.functional.scaled_dot_product_attention(x, x, x)
    for backends in (SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]):
        with sdpa_kernel(backends):
            found = nn.functional.scaled_dot_product_attention(x, x, x)
        assert torch.allclose(found, want, atol=1e-6)
    with pytest.raises(AssertionError), sdpa_kernel(3):
        pass
    assert repr(SDPBackend.MATH) == "<SDPBackend.MATH: 0>" and SDPBackend.MATH != SDPBackend.FLASH_ATTENTION


def test_no_way_of_computing_attention(torch, nn, beyond_pytorch):
    with pytest.raises(RuntimeError, match="CUDNN"), nn.attention.sdpa_kernel(nn.attention.SDPBackend.CUDNN_ATTENTION):
        pass


def test_a_vector_that_is_too_short_changes_nothing(torch, nn, beyond_pytorch):
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
    with pytest.raises(RuntimeError, match="too short"):
        nn.utils.vector_to_parameters(torch.ones(3), parameters)
    assert all(p.tolist() == [0, 0] for p in parameters)


def test_what_is_no_tensor_and_no_module(torch, nn, beyond_pytorch):
    utils, p = nn.utils, nn.Parameter(torch.ones(2))
    for call in (
        lambda: utils.clip_grad_norm_(3, 1.0), lambda: utils.clip_grad_norm_([p, 3],
            1.0), lambda: utils.get_total_norm([None]),
        lambda: utils.clip_grads_with_norm_([p], 1.0, 2.0), lambda: utils.parameters_to_vector([p, "a"]),
        lambda: utils.spectral_norm("a"), lambda: utils.remove_weight_norm(3), lambda: utils.fuse_conv_bn_eval(p, p),
        lambda: utils.fuse_conv_bn_weights(p, None, p, None, 1.0, None, None), lambda: utils.rnn.pad_packed_sequence(p),
        lambda: utils.rnn.pack_padded_sequence([1], [1]), lambda: utils.parametrize.register_parametrization(p, "a", p),
        lambda: utils.rnn.pad_sequence([1, 2]), lambda: utils.convert_conv2d_weight_memory_format(p,
            torch.channels_last),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()

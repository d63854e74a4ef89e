"""Older ways of PyTorch's programs to say where tensors are."""

import pytest

import cygrad

pytestmark = pytest.mark.usefixtures("any_devices")


@pytest.mark.usefixtures("two_devices")
def test_types_with_a_place():
    kind = cygrad.cuda.FloatTensor
    for x in (kind([1, 2]), kind(2), cygrad.ones(2).type(kind), cygrad.ones(2).double().type("torch.cuda.FloatTensor")):
        assert x.is_cuda and x.dtype is cygrad.float32 and x.type() == "torch.cuda.FloatTensor"
        assert isinstance(x, kind) and not isinstance(x, cygrad.FloatTensor)
        for back in (x.type(cygrad.FloatTensor), x.type("torch.FloatTensor")):
            assert back.is_cpu and isinstance(back, cygrad.FloatTensor) and not isinstance(back, kind)
    far = cygrad.ones(2, device="cuda:1")
    assert far.type("torch.cuda.LongTensor").device == far.device and far.type(cygrad.float64).device == far.device
    y = cygrad.ones(2).double().type_as(far)
    assert y.device == far.device and y.dtype is cygrad.float32 and far.type_as(cygrad.ones(1)).is_cpu
    assert far.type_as(far) is far and str(cygrad.cuda.ByteTensor) == "<class 'torch.cuda.ByteTensor'>"
    with pytest.raises(RuntimeError, match="makes tensors on cuda"):
        kind(2, device="cpu")
    with pytest.raises(TypeError, match=r"wants torch\.float32 on cuda"):
        kind(cygrad.ones(2))
    with pytest.raises(AttributeError, match="NopeTensor"):
        cygrad.cuda.NopeTensor  # noqa: B018


def test_gradients_go_back_through_type_as():
    x = cygrad.ones(3, requires_grad=True)
    (x.type_as(cygrad.ones(1, device="cuda").double()) * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and x.grad.is_cpu


@pytest.mark.usefixtures("two_devices")
def test_deprecated_functions_and_streams_of_others():
    for call in (cygrad.cuda.memory_cached, cygrad.cuda.max_memory_cached, cygrad.cuda.reset_max_memory_allocated,
                 cygrad.cuda.reset_max_memory_cached):  # fmt: skip
        with pytest.warns(FutureWarning, match="deprecated"):
            call()
    s = cygrad.cuda.Stream(1)
    other = cygrad.cuda.ExternalStream(s.cuda_stream, "cuda:1")
    assert other == s and other.device_index == 1 and not cygrad.cuda.is_current_stream_capturing()
    with cygrad.cuda.stream(other):
        assert cygrad.cuda.current_stream() == s

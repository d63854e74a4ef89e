"""Every launch that fails is an error, and takes nothing with it. A stream that is none makes them fail."""

import pytest

import cygrad
from cygrad.nn import functional as F
from cygrad.storage import cuda

pytestmark = pytest.mark.usefixtures("two_devices", "imitated_devices")


def operands():
    """A vector, its numbers as indices, an image, a weight, and a tensor of many dimensions."""
    x = cygrad.arange(3.0, device="cuda")
    image, weight = cygrad.ones(2, 3, 4, 4, device="cuda"), cygrad.ones(3, 3, 2, 2, device="cuda")
    return x, x.long(), image, weight, cygrad.ones(*[1] * 9, 2, 2, device="cuda")


CALLS = {
    "pointwise": lambda x, i, image, weight, big: x + 1,
    "where": lambda x, i, image, weight, big: cygrad.where(x > 0, x, x),
    "sum": lambda x, i, image, weight, big: big.sum(0),
    "norm": lambda x, i, image, weight, big: big.norm(dim=1),
    "var": lambda x, i, image, weight, big: x.var(),
    "modulus": lambda x, i, image, weight, big: big.to(cygrad.complex64).abs(),
    "softmax": lambda x, i, image, weight, big: big.softmax(0),
    "layer norm": lambda x, i, image, weight, big: F.layer_norm(big, (2,)),
    "batch norm": lambda x, i, image, weight, big: F.batch_norm(image, None, None, training=True),
    "sort": lambda x, i, image, weight, big: big.sort(9),
    "topk": lambda x, i, image, weight, big: x.topk(2),
    "kthvalue": lambda x, i, image, weight, big: big.kthvalue(1, 9),
    "searchsorted": lambda x, i, image, weight, big: cygrad.searchsorted(x, x),
    "cumsum": lambda x, i, image, weight, big: big.cumsum(9),
    "gather": lambda x, i, image, weight, big: big.gather(0, big.long()),
    "take": lambda x, i, image, weight, big: x.take(i),
    "index": lambda x, i, image, weight, big: x[i],
    "mask": lambda x, i, image, weight, big: x[x > 0],
    "nonzero": lambda x, i, image, weight, big: x.nonzero(),
    "index_add": lambda x, i, image, weight, big: x.index_add_(0, i, image.flatten()[:3]),
    "convolution": lambda x, i, image, weight, big: F.conv2d(image, weight, x),
    "pooling": lambda x, i, image, weight, big: F.max_pool2d(image, 2),
    "product": lambda x, i, image, weight, big: image @ image,
    "attention": lambda x, i, image, weight, big: F.scaled_dot_product_attention(image, image, image),
    "copy": lambda x, i, image, weight, big: big.transpose(9, 10).contiguous(),
    "cat": lambda x, i, image, weight, big: cygrad.cat([big, big]),
    "fill": lambda x, i, image, weight, big: x.fill_(3),
    "full": lambda x, i, image, weight, big: cygrad.full((2,) * 9, 2.0, device="cuda"),
    "arange": lambda x, i, image, weight, big: cygrad.arange(4, device="cuda"),
    "random": lambda x, i, image, weight, big: cygrad.rand(3, device="cuda"),
    "to the CPU": lambda x, i, image, weight, big: x.cpu(),
    "to another device": lambda x, i, image, weight, big: x.to("cuda:1"),
    "item": lambda x, i, image, weight, big: x[0].item(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_failed_launch_is_raised(name):
    devices, given = cuda.extension(), operands()
    cygrad.cuda.synchronize()
    before = cygrad.cuda.memory_allocated()
    devices.choose_stream(none := devices.Stream(0, 0, 0x12345670))
    try:
        with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
            CALLS[name](*given)
    finally:
        devices.choose_stream(cygrad.cuda.default_stream())
    assert cygrad.cuda.memory_allocated() == before and none.device_index == 0
    assert given[0].tolist() == [0, 1, 2]


def test_a_step_that_fails_on_one_device_counts_as_written_on_the_others():
    devices = cuda.extension()
    p = [cygrad.ones(3, device=f"cuda:{k}", requires_grad=True) for k in range(2)]
    for t in p:
        t.grad = cygrad.ones_like(t)
    versions = [t._version for t in p]
    devices.choose_stream(none := devices.Stream(1, 0, 0x12345670))
    try:
        with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
            cygrad.optim.SGD(p, lr=1.0).step()
    finally:
        devices.choose_stream(cygrad.cuda.default_stream("cuda:1"))
    assert p[0].tolist() == [0, 0, 0] and p[0]._version > versions[0] and none.device_index == 1


def test_a_copy_that_fails_leaves_page_locked_memory_usable():
    devices, x = cuda.extension(), cygrad.arange(3.0).pin_memory()
    devices.choose_stream(none := devices.Stream(0, 0, 0x12345670))
    try:
        with pytest.raises(RuntimeError, match="CUDA error: invalid resource handle"):
            x.to("cuda", non_blocking=True)
    finally:
        devices.choose_stream(cygrad.cuda.default_stream())
    assert x.to("cuda", non_blocking=True).tolist() == [0, 1, 2] and none.device_index == 0

"""Batch normalisation on a device: the numbers of the CPU, for empty batches too."""

import numpy as np
import pytest

import cygrad
from cygrad import nn
from cygrad.nn import functional as F


@pytest.mark.usefixtures("any_devices")
@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 4), (2, 3, 0), (0, 3, 5), (6, 3), (2, 3, 4, 4)], ids=str)
@pytest.mark.parametrize("kind", ("module", "functional"))
def test_as_on_the_cpu_with_nothing_too(shape, kind, last_device):
    def normalised(device):
        cygrad.manual_seed(0)
        net = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(3).to(device)
        x = cygrad.rand(*shape, device="cpu").to(device).requires_grad_()
        try:
            if kind == "module":
                y = net(x)
            else:
                y = F.batch_norm(x, net.running_mean, net.running_var, net.weight, net.bias, training=True)
            y.sum().backward()
        except (RuntimeError, ValueError) as error:
            return type(error), str(error)
        given = [y, x.grad, net.weight.grad, net.bias.grad, net.running_mean, net.running_var]
        assert all(t.device == x.device for t in given)
        return [t.detach().cpu().numpy() for t in given]

    near, far = normalised("cpu"), normalised(last_device)
    if isinstance(near, tuple):
        assert far == near
        return
    for a, b in zip(near, far, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)

"""Where frequencies lie: fftshift, ifftshift, fftfreq, rfftfreq."""
import numpy as np
import pytest

import cygrad as torch

CASES = [((5,), None), ((6,), 0), ((4, 5), None), ((4, 5), 1), ((4, 5), (0, -1)), ((2, 3, 4), (2, 0)),
         ((0, 3), None)]


@pytest.mark.parametrize("shape, dim", CASES)
def test_shifts(shape, dim):
    """As NumPy's; one undoes the other; the gradient is shifted back."""
    a = np.arange(float(np.prod(shape))).reshape(shape)
    x = torch.tensor(a, requires_grad=True)
    y = torch.fft.fftshift(x, dim)
    forth, back = (np.fft.fftshift(a, dim), np.fft.ifftshift(a, dim)) if a.ndim else (a, a)    # NumPy refuses 0-d
    assert (y.detach().numpy() == forth).all()
    assert (torch.fft.ifftshift(x, dim).detach().numpy() == back).all()
    assert (torch.fft.ifftshift(y, dim) == x).all()
    y.backward(torch.tensor(a))
    assert (x.grad.numpy() == back).all()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n):
    """As NumPy's, in the dtype that is asked for."""
    for name in ("fftfreq", "rfftfreq"):
        ours = getattr(torch.fft, name)(n, d=0.25, dtype=torch.float64)
        assert ours.numpy() == pytest.approx(getattr(np.fft, name)(n, d=0.25), abs=0)
        assert getattr(torch.fft, name)(n).dtype is torch.float32


def test_no_dimensions():
    """There is nothing to shift."""
    assert torch.fft.fftshift(torch.tensor(3.0)).item() == 3 == torch.fft.ifftshift(torch.tensor(3.0)).item()


def test_refusals():
    """Dimensions that are not there, no samples, integers."""
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.fft.fftshift(torch.ones(3), 1)
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.fft.fftshift([1, 2])
    with pytest.raises(RuntimeError, match="dtype"):
        torch.fft.fftfreq(3, dtype=torch.int64)
    with pytest.raises(TypeError, match="'n'"):
        torch.fft.fftfreq(2.0)

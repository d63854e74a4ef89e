"""Fourier transforms on devices, as products with small matrices of roots of unity.

A length that is a product is split as Cooley and Tukey do ("An algorithm for the machine calculation of complex Fourier
series", 1965), into factors of up to `DIRECT`; one with a larger prime factor becomes a convolution of a length that is
a power of two (L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", 1970).
"""

from math import pi, prod, sqrt

from cygrad.storage.core import dtypes

from .. import _core

DIRECT = 128          # up to here a transform is one product with a matrix


def complex_to_complex(x, dims, forward, scale):
    """The transform of a complex tensor along `dims`, divided by `scale`."""
    for d in dims:
        x = along_last(x.movedim(d, -1), -1 if forward else 1).movedim(-1, d)
    return (x / scale if scale != 1 else x).contiguous()


def real_to_complex(x, dims, scale, dtype):
    """The same of a real one, forward: of the last of `dims` the half that says all."""
    half = x.shape[dims[-1]] // 2 + 1
    y = along_last(x.to(dtype).movedim(dims[-1], -1), -1)[..., :half].movedim(-1, dims[-1])
    return complex_to_complex(y, dims[:-1], True, scale)


def complex_to_real(x, dims, scale, n):
    """The inverse transform to `n` real numbers along the last of `dims`, of which half the spectrum is given."""
    half = complex_to_complex(x, dims[:-1], False, 1).movedim(dims[-1], -1)
    ends = half[..., :1].real.to(half.dtype), half[..., n // 2 : n // 2 + 1].real.to(half.dtype)
    inner = half[..., 1 : (n + 1) // 2]
    parts = [ends[0], inner, *([ends[1]] if n % 2 == 0 else []), inner.flip(-1).conj()]
    y = along_last(_core.cat(parts, -1), 1).real.movedim(-1, dims[-1])
    return (y / scale).contiguous()


def divisor(sizes, scale):
    """By what a result of these sizes is divided for the number of a scale: 1, the root of the number of points, it."""
    points = prod(sizes)
    return (1, sqrt(points), points)[scale]


def roots(places, n, sign, like):
    """``exp(sign 2 pi i places / n)`` of int64 places."""
    angle = (places % n).to(dtypes["float64"]) * (sign * 2 * pi / n)
    return _core.view_as_complex(_core.stack([angle.cos(), angle.sin()], -1)).to(like.dtype)


def along_last(x, sign):
    """The sums ``sum_j x[..., j] exp(sign 2 pi i j k / n)``."""
    n = x.shape[-1]
    if n == 1:
        return x
    if n <= DIRECT:
        k = _core.arange(n, device=x.device)
        return x @ roots(k.unsqueeze(1) * k, n, sign, x)
    a = next((d for d in range(DIRECT, 1, -1) if n % d == 0), 1)
    if largest_prime(n) > DIRECT:
        return chirped(x, n, sign)
    b = n // a
    first, second = _core.arange(a, device=x.device), _core.arange(b, device=x.device)
    rows = x.reshape(*x.shape[:-1], a, b).transpose(-1, -2)                  # j = b i + l, by l and i
    rows = along_last(rows, sign) * roots(second.unsqueeze(1) * first, n, sign, x)
    return along_last(rows.transpose(-1, -2), sign).transpose(-1, -2).reshape(x.shape)


def largest_prime(n):
    """The largest prime factor of a number from 2 on."""
    p, largest = 2, 1
    while p * p <= n:
        while n % p == 0:
            n, largest = n // p, p
        p += 1
    return max(n, largest)


def chirped(x, n, sign):
    """`along_last` as a convolution with a chirp: j k is half of j^2 + k^2 - (k - j)^2."""
    m = 1 << (2 * n - 2).bit_length()
    k = _core.arange(n, device=x.device)
    chirp = roots(k * k, 2 * n, sign, x)
    gap = chirp.new_zeros(m - 2 * n + 1)
    kernel = _core.cat([chirp, gap, chirp[1:].flip(0)]).conj()
    padded = _core.cat([x * chirp, x.new_zeros((*x.shape[:-1], m - n))], -1)
    product = along_last(padded, -1) * along_last(kernel, -1)
    return along_last(product, 1)[..., :n] / m * chirp

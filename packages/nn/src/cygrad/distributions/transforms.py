"""Differentiable maps with an inverse and a known change of volume."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.distributions import constraints
from cygrad.distributions.constraints import Constraint
from cygrad.distributions.distribution import summed
from cygrad.nn.functional import logsigmoid, softplus

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "ComposeTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]


class Transform:
    """A map ``y = t(x)`` with ``x = t.inv(y)``.

    Subclasses have `_call`, `_inverse` and `log_abs_det_jacobian`.

    Parameters
    ----------
    cache_size : {0, 1}
        1: the last pair is kept, so that the inverse of a value that was just made is the very same tensor.

    Attributes
    ----------
    domain, codomain : Constraint
        Regions of x and of y.
    bijective : bool
    sign : int
        1 if it rises, -1 if it falls.
    """

    bijective = False
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._pair: tuple[Any, Any] = (None, None)

    @property
    def event_dim(self) -> int:
        """So many dimensions at the end are mapped together."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def sign(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is not monotonic")

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        return _Inverse(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy that keeps the last pair, or does not."""
        new = copy.copy(self)
        Transform.__init__(new, cache_size)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._pair[0]:
            self._pair = x, self._call(x)
        return self._pair[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._pair[1]:
            self._pair = self._inverse(y), y
        return self._pair[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Logarithm of how much the map stretches volumes at x, where its value is y."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        """Shape of y for a shape of x."""
        return cygrad.Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        """Shape of x for a shape of y."""
        return cygrad.Size(shape)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._same(other))

    def _same(self, other: Any) -> bool:
        return False

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """Another map, backwards."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._inv = transform
        self.domain, self.codomain = transform.codomain, transform.domain
        self.bijective = transform.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return self._inv.forward_shape(shape)

    def _same(self, other: Any) -> bool:
        return bool(self._inv == other._inv)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


class ComposeTransform(Transform):
    """Several maps, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @constraints.dependent_property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self._end(list(reversed(self.parts)), lambda t: (t.codomain, t.domain))

    @constraints.dependent_property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self._end(self.parts, lambda t: (t.domain, t.codomain))

    @staticmethod
    def _end(parts: Sequence[Transform], ends: Callable[[Transform], tuple[Constraint, Constraint]]) -> Constraint:
        """The region at the far end: with as many dimensions together as the widest map on the way has."""
        if not parts:
            return constraints.real
        dims = ends(parts[0])[0].event_dim
        for part in parts:
            near, far = ends(part)
            dims = max(dims, near.event_dim) + far.event_dim - near.event_dim
        last = ends(parts[-1])[1]
        return constraints.independent(last, dims - last.event_dim) if dims > last.event_dim else last

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    @property
    def inv(self) -> Transform:
        return ComposeTransform([part.inv for part in reversed(self.parts)])

    def with_cache(self, cache_size: int = 1) -> Transform:
        return ComposeTransform(self.parts, cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return cygrad.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Any = 0
        dims = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:], strict=False):
            change = part.log_abs_det_jacobian(before, after)
            total = total + summed(change, dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return cygrad.Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return cygrad.Size(shape)

    def _same(self, other: Any) -> bool:
        return bool(self.parts == other.parts)

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another map, of which `reinterpreted_batch_ndims` more dimensions count as mapped together."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)
        self.bijective = base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return self.base_transform.inverse_shape(shape)

    def _same(self, other: Any) -> bool:
        dims = self.reinterpreted_batch_ndims
        return bool(self.base_transform == other.base_transform and dims == other.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Another shape, `out_shape`, for the last dimensions, of `in_shape`."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = cygrad.Size(in_shape), cygrad.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return cygrad.zeros(x.shape[: x.dim() - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return _replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return _replaced(shape, self.out_shape, self.in_shape)

    def _same(self, other: Any) -> bool:
        return (self.in_shape, self.out_shape) == (other.in_shape, other.out_shape)


def _replaced(shape: Sequence[int], end: cygrad.Size, by: cygrad.Size) -> cygrad.Size:
    cut = len(shape) - len(end)
    if cut < 0 or cygrad.Size(shape[cut:]) != end:
        raise ValueError(f"Shape mismatch: expected {end} at the end of {tuple(shape)}")
    return cygrad.Size(shape[:cut]) + by


class _Elementwise(Transform):
    """A rising map of numbers."""

    bijective = True
    sign = 1

    def _same(self, other: Any) -> bool:
        return True


class ExpTransform(_Elementwise):
    """``exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(_Elementwise):
    """``x ** exponent`` of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else cygrad.tensor(exponent)

    @property
    def sign(self) -> Any:  # type: ignore[override]
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return cygrad.broadcast_shapes(tuple(shape), self.exponent.shape)

    inverse_shape = forward_shape

    def _same(self, other: Any) -> bool:
        return bool((self.exponent == other.exponent).all())


class SigmoidTransform(_Elementwise):
    """``1 / (1 + exp(-x))``."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = cygrad.finfo(x.dtype)
        return x.sigmoid().clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = cygrad.finfo(y.dtype)
        inside = y.clamp(info.tiny, 1 - info.eps)
        return inside.log() - (-inside).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(_Elementwise):
    """``log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(_Elementwise):
    """``tanh(x)``. With ``cache_size=1``, values that rounding takes to -1 or 1 still have their inverse."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2 * (math.log(2) - x - softplus(-2 * x))  # log(1 - tanh(x)**2), which would be -inf soon


class AbsTransform(Transform):
    """``abs(x)``, whose inverse is the positive one."""

    codomain = constraints.positive

    def _same(self, other: Any) -> bool:
        return True

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``loc + scale * x``; the last `event_dim` dimensions count as mapped together."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        numbers = constraints.real
        self.domain = self.codomain = constraints.independent(numbers, event_dim) if event_dim else numbers

    @property
    def sign(self) -> Any:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale if isinstance(self.scale, Tensor) else cygrad.full_like(x, self.scale)
        change = scale.abs().log().expand(cygrad.broadcast_shapes(scale.shape, x.shape))
        return summed(change, self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        sizes = (getattr(value, "shape", ()) for value in (self.loc, self.scale))
        return cygrad.broadcast_shapes(tuple(shape), *sizes)

    inverse_shape = forward_shape

    def _same(self, other: Any) -> bool:
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool(cygrad.as_tensor(operator.eq(a, b)).all()) for a, b in pairs)


class SoftmaxTransform(Transform):
    """``softmax(x)`` over the last dimension, of which the logarithm is one inverse."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _same(self, other: Any) -> bool:
        return True

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """From K - 1 numbers to K probabilities: each takes its share of what the earlier ones have left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _same(self, other: Any) -> bool:
        return True

    def _call(self, x: Tensor) -> Tensor:
        count = x.shape[-1]
        offset = cygrad.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()
        info = cygrad.finfo(x.dtype)
        share = (x - offset).sigmoid().clamp(info.tiny, 1 - info.eps)
        left = (1 - share).cumprod(-1)
        pad = cygrad.nn.functional.pad
        return pad(share, (0, 1), value=1) * pad(left, (1, 0), value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=cygrad.finfo(y.dtype).tiny)
        offset = cygrad.arange(head.shape[-1], 0, -1, dtype=y.dtype, device=y.device).log()
        return head.log() - left.log() + offset

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - cygrad.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return cygrad.Size([*shape[:-1], shape[-1] + 1])

    def inverse_shape(self, shape: Sequence[int]) -> cygrad.Size:
        return cygrad.Size([*shape[:-1], shape[-1] - 1])


class LowerCholeskyTransform(Transform):
    """From any matrix to a lower one with a positive diagonal, which is made by exp."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _same(self, other: Any) -> bool:
        return True

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()

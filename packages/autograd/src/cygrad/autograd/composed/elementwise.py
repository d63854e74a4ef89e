"""Elementwise operations that take arguments of their own, give several results or are made of others."""

import math

from cygrad.storage.core import dtypes

from .. import _core
from .._core import Tensor, row_call
from ..function import Function
from . import composed
from ._args import Number

LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}


def tensor_arg(x, name, arg="input"):
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor, not {type(x).__name__}")
    return x


def whole_arg(n, name, arg):
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{name}(): argument '{arg}' must be int, not {type(n).__name__}")
    return n.__index__()


def dtype_name(x):
    return str(x.dtype).rpartition(".")[2]


@composed("function method")
def positive(input: Tensor) -> Tensor:
    """``+input``: the tensor itself.

    Raises
    ------
    RuntimeError
        The tensor is of bool.
    """
    return +tensor_arg(input, "positive")


@composed("function out_same")
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugate, as numbers in memory; a tensor of real numbers itself."""
    return input.conj() if dtype_name(tensor_arg(input, "conj_physical")).startswith("complex") else input


@composed("method", name="conj_physical")
def conj_physical_method(self: Tensor) -> Tensor:
    """See `conj_physical`."""
    return conj_physical(self)


@composed("method", name="conj_physical_")
def conj_physical_in_place(self: Tensor) -> Tensor:
    """`conj_physical`, in place."""
    return self.copy_(self.conj()) if dtype_name(self).startswith("complex") else self


@composed("method")
def __rdiv__(self, other) -> Tensor:
    """``other / self``, by the name that Python 2 had for it."""
    return _core.mul(self.reciprocal(), other)


@composed("function method")
def isreal(input: Tensor) -> Tensor:
    """Where elements have no imaginary part: everywhere in tensors of real dtypes."""
    if dtype_name(tensor_arg(input, "isreal")).startswith("complex"):
        return _core.eq(input.imag, 0)
    return _core.ones_like(input, dtype=dtypes["bool"])


def rounding(x, decimals, target, name):
    tensor_arg(x, name)
    decimals = whole_arg(decimals, name, "decimals")
    if decimals:
        return row_call("round_decimals", (x,), (decimals,), target)
    return row_call("round_even", (x,), (), target)


@composed("function out_same")
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """The nearest integer, or number of `decimals` places (before the point where negative); halves to the even one.

    Parameters
    ----------
    input : Tensor
    decimals : int
        Only for floating dtypes.
    """
    return rounding(input, decimals, None, "round")


@composed("special out_same", name="round")
def special_round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """`cygrad.round` of floating dtypes."""
    if not tensor_arg(input, "round").is_floating_point():
        raise NotImplementedError(f"special.round: not implemented for {input.dtype}")
    return round(input, decimals=decimals)


@composed("method", name="round")
def round_method(self: Tensor, *, decimals: int = 0) -> Tensor:
    """See `round`."""
    return rounding(self, decimals, None, "round")


@composed("method", name="round_")
def round_in_place(self: Tensor, *, decimals: int = 0) -> Tensor:
    """`round`, in place."""
    return rounding(self, decimals, self, "round_")


def without_nonfinite(x, nan, posinf, neginf, target, name):
    largest = LARGEST.get(dtype_name(tensor_arg(x, name)), 0.0)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    if not largest:  # integers have nothing to replace
        high = low = nan = 0
    return row_call("nonfinite_to_num", (x, high, low), (0.0 if nan is None else nan,), target)


@composed("function out_same")
def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """NaN replaced by `nan`, infinities by `posinf` and `neginf`: by default the dtype's largest and least number."""
    return without_nonfinite(input, nan, posinf, neginf, None, "nan_to_num")


@composed("method", name="nan_to_num")
def nan_to_num_method(
    self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """See `nan_to_num`."""
    return without_nonfinite(self, nan, posinf, neginf, None, "nan_to_num")


@composed("method", name="nan_to_num_")
def nan_to_num_in_place(
    self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """`nan_to_num`, in place."""
    return without_nonfinite(self, nan, posinf, neginf, self, "nan_to_num_")


def log_odds(x, eps, target, name):
    tensor_arg(x, name)
    if eps is None or eps < 0:
        return row_call("logit_plain", (x,), (), target)
    return row_call("logit_clamped", (x,), (eps,), target)


@composed("function special out")
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """``log(input / (1 - input))``, of elements clamped to ``[eps, 1 - eps]`` where `eps` is given."""
    return log_odds(input, eps, None, "logit")


@composed("method", name="logit")
def logit_method(self: Tensor, eps: float | None = None) -> Tensor:
    """See `logit`."""
    return log_odds(self, eps, None, "logit")


@composed("method", name="logit_")
def logit_in_place(self: Tensor, eps: float | None = None) -> Tensor:
    """`logit`, in place."""
    return log_odds(self, eps, self, "logit_")


@composed("function method out", returns="mantissa exponent")
def frexp(input: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of ``mantissa * 2 ** exponent``, with 1/2 <= |mantissa| < 1, the exponents as int32.

    Raises
    ------
    RuntimeError
        The dtype is not a floating one.
    """
    if not tensor_arg(input, "frexp").is_floating_point():
        raise RuntimeError(f"frexp() only supports floating-point dtypes, got {input.dtype}")
    exponent = row_call("frexp_exponent", (input.detach(),))
    return row_call("frexp_mantissa", (input,)), exponent.to(dtypes["int32"])


def gamma_derivative(n, x, target, name):
    n = whole_arg(n, name, "n")
    if n < 0:
        raise RuntimeError(f"{name}(n, x) does not support negative n, got {n}")
    return row_call("polygamma_order", (tensor_arg(x, name),), (n,), target)


@composed("function special out")
def polygamma(n: int, input: Tensor) -> Tensor:
    """The `n`-th derivative of `digamma`, element by element."""
    return gamma_derivative(n, input, None, "polygamma")


@composed("method", name="polygamma")
def polygamma_method(self: Tensor, n: int) -> Tensor:
    """See `polygamma`."""
    return gamma_derivative(n, self, None, "polygamma")


@composed("method", name="polygamma_")
def polygamma_in_place(self: Tensor, n: int) -> Tensor:
    """`polygamma`, in place."""
    return gamma_derivative(n, self, self, "polygamma_")


@composed("special out", name="multigammaln")
@composed("function out")
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension `p`, element by element."""
    p = whole_arg(p, "mvlgamma", "p")
    if p < 1:
        raise RuntimeError(f"mvlgamma(): p has to be greater than or equal to 1, got {p}")
    result = _core.lgamma(tensor_arg(input, "mvlgamma"))
    if p == 1:
        return result
    parts = _core.lgamma(input.unsqueeze(-1) - _core.arange(p, dtype=result.dtype, device=result.device) / 2)
    return _core.sum(parts, -1) + p * (p - 1) / 4 * math.log(math.pi)


@composed("method", name="mvlgamma")
def mvlgamma_method(self: Tensor, p: int) -> Tensor:
    """See `mvlgamma`."""
    return mvlgamma(self, p)


@composed("method", name="mvlgamma_")
def mvlgamma_in_place(self: Tensor, p: int) -> Tensor:
    """`mvlgamma`, in place."""
    return written(self, mvlgamma(self.clone(), p), "mvlgamma_")


def written(x, result, name):
    """x after an in-place operation that is made of others."""
    if not x.is_floating_point() and result.is_floating_point():
        raise RuntimeError(f"{name}: result type {result.dtype} can't be cast to the desired output type {x.dtype}")
    return x.copy_(result)


def doubled(x):
    """A tensor in double precision, a number as it is."""
    if not isinstance(x, Tensor):
        return x
    return x.to(dtypes["complex128"]) if dtype_name(x).startswith("complex") else x.double()


@composed("function out")
def float_power(input: Tensor, exponent: Tensor) -> Tensor:
    """`input` raised to `exponent` in double precision; either may be a number."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError(f"float_power(): one of its operands must be Tensor, got {type(input).__name__} and "
                        f"{type(exponent).__name__}")
    return _core.pow(doubled(input), doubled(exponent))


@composed("method", name="float_power")
def float_power_method(self: Tensor, exponent: Tensor) -> Tensor:
    """See `float_power`."""
    return float_power(self, exponent)


@composed("method", name="float_power_")
def float_power_in_place(self: Tensor, exponent: Tensor) -> Tensor:
    """`float_power`, in place: the tensor must be of double precision."""
    if self.dtype != (wanted := doubled(self).dtype):
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype} but the operation's result requires "
                           f"dtype {wanted}")
    return self.pow_(doubled(exponent))


@composed("function method out")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """``input * 2 ** other``."""
    return _core.mul(tensor_arg(input, "ldexp"), power_of_two(input, tensor_arg(other, "ldexp", "other")))


def power_of_two(beside, exponent):
    """In the exponent's layout beside double precision and for complex exponents, else row-major, as PyTorch's."""
    if exponent.is_complex():
        return _core.pow(exponent.new_tensor(2.0), exponent)
    return _core.exp2(exponent.double()) if beside.dtype == dtypes["float64"] else _core.pow(2.0, exponent)


@composed("method", name="ldexp_")
def ldexp_in_place(self: Tensor, other: Tensor) -> Tensor:
    """`ldexp`, in place."""
    return self.mul_(power_of_two(self, tensor_arg(other, "ldexp_", "other")))


@composed("function method out")
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """``log(exp(input) + exp(other))`` without overflow."""
    tensor_arg(input, "logaddexp")
    tensor_arg(other, "logaddexp", "other")
    if not (input.dtype.is_complex or other.dtype.is_complex):
        return row_call("logaddexp_real", (input, other))
    a, b = (x.detach().real if x.dtype.is_complex else x.detach() for x in (input, other))
    larger, smaller = _core.where(a >= b, input, other), _core.where(a >= b, other, input)
    result = larger + _core.log1p(_core.exp(smaller - larger))
    twins = (a == b) & a.isinf()  # their difference is no number
    if not _core.anywhere(twins):
        return result
    sums = _core.where(a < 0, smaller, _core.log(_core.exp(input) + _core.exp(other)))
    return _core.where(twins, sums, result)


# (digits, exponent of the least normal number, largest number) of the dtypes that compute in float32
HALVES = {dtypes["float16"]: (11, -14, 65504.0), dtypes["bfloat16"]: (8, -126, LARGEST["bfloat16"])}


class HalfNeighbour(Function):
    generate_vmap_rule = True

    """`nextafter` of halves, by float32 arithmetic that is exact."""

    _transposed = True

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a != b)
        digits, least, largest = HALVES[a.dtype]
        x, y = a.float(), b.float()
        mantissa, exponent = frexp(x)
        inward = (y > x) != (x > 0)
        place = _core.where(x == 0, least, exponent - 1 - (inward & (mantissa.abs() == 0.5)).to(exponent.dtype))
        step = _core.pow(2.0, place.clamp(min=least) - (digits - 1))
        moved = _core.where(y > x, x + step, x - step)
        moved = _core.where(moved == 0, _core.copysign(moved, x), moved)
        moved = _core.where(x.isinf(), _core.copysign(_core.full_like(x, largest), x), moved)
        return _core.where(x.isnan() | y.isnan(), x + y, _core.where(x == y, y, moved)).to(a.dtype)

    @staticmethod
    def backward(ctx, grad):
        (differ,) = ctx.saved_tensors
        return _core.where(differ, grad, 0), None


@composed("function method out")
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """The next number after `input`, in its dtype, towards `other`."""
    kind = _core.result_type(tensor_arg(input, "nextafter"), tensor_arg(other, "nextafter", "other"))
    if kind in HALVES:
        return HalfNeighbour.apply(input.to(kind), other.to(kind))
    return row_call("nextafter_real", (input, other))


@composed("method", name="nextafter_")
def nextafter_in_place(self: Tensor, other: Tensor) -> Tensor:
    """`nextafter`, in place."""
    if self.dtype in HALVES:
        return self.copy_(nextafter(self.clone(), other))
    return row_call("nextafter_real", (self, tensor_arg(other, "nextafter_", "other")), (), self)


@composed("function")
def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """``other - alpha * input``."""
    tensor_arg(input, "rsub")
    if isinstance(other, Tensor) or not (type(alpha) is int and alpha == 1):
        return _core.sub(other, input, alpha=alpha)
    return input.__rsub__(other)


composed("function", name="clip")(_core.clamp)
composed("special", name="logsumexp")(_core.logsumexp)
composed("method", name="clip")(Tensor.__dict__["clamp"])
composed("method", name="clip_")(Tensor.__dict__["clamp_"])

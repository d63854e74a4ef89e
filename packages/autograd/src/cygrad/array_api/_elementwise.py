"""Functions of each element."""

import cygrad
from cygrad.autograd._core import Tensor

from ._array import add_operators, pair, standard

__all__ = []


def publish(name, function, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    globals()[name] = standard(function)
    __all__.append(name)


def unary(name, theirs=None, same_for=()):
    """`name` of each element, by the function that PyTorch calls `theirs`; dtypes in `same_for` are left alone."""

    def call(x, /):
        return x.clone() if x.dtype.name in same_for else getattr(cygrad, theirs or name)(x)

    publish(name, call, f"`cygrad.{theirs or name}` of each element.")


def binary(name, theirs=None):
    """`name` of each pair of elements."""

    def call(x1, x2, /):
        return getattr(cygrad, theirs or name)(*pair(x1, x2))

    publish(name, call, f"`cygrad.{theirs or name}` of each pair of elements, of one dtype after promotion.")


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

for _name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "isfinite", "isinf",
              "isnan", "log", "log1p", "log2", "log10", "logical_not", "reciprocal", "signbit", "sin", "sinh", "sqrt",
              "square", "tan", "tanh"):
    unary(_name)
unary("abs", same_for=("uint8", "uint16", "uint32", "uint64"))
unary("bitwise_invert", "bitwise_not")
unary("negative", "neg")
for _name in ("ceil", "floor", "trunc"):
    unary(_name, same_for=INTEGERS)
for _name in ("atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "hypot", "logaddexp", "logical_and",
              "logical_or", "logical_xor", "maximum", "minimum", "nextafter", "pow"):
    binary(_name)
for _name, _theirs in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "div"), ("equal", "eq"),
                       ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"), ("greater", "gt"),
                       ("greater_equal", "ge"), ("bitwise_left_shift", "bitwise_left_shift"),
                       ("bitwise_right_shift", "bitwise_right_shift")):
    binary(_name, _theirs)


def clip(x, /, min=None, max=None):
    """`x` limited to ``[min, max]``."""
    if min is None and max is None:
        return x.clone()
    low, high = (None if v is None else bound(v, x) for v in (min, max))
    if low is not None:
        x = cygrad.maximum(x, low)
    return x if high is None else cygrad.minimum(x, high)


def bound(v, x):
    """A limit of `x` in its dtype."""
    return v.to(x.dtype) if isinstance(v, Tensor) else x.new_tensor(v)


def conj(x, /):
    """Complex conjugates."""
    return cygrad.conj(x) if x.dtype.is_complex else x


def floor_divide(x1, x2, /):
    """Quotients rounded down; of infinities, infinite ones."""
    x1, x2 = pair(x1, x2)
    y = cygrad.floor_divide(x1, x2)
    if not y.dtype.is_floating_point:
        return y
    return cygrad.where(cygrad.isfinite(x1) & cygrad.isfinite(x2), y, cygrad.floor(cygrad.div(x1, x2)))


def imag(x, /):
    """Imaginary parts."""
    return cygrad.imag(x) if x.dtype.is_complex else cygrad.zeros_like(x)


def positive(x, /):
    """The elements unchanged."""
    return x.clone()


def real(x, /):
    """Real parts."""
    return cygrad.real(x) if x.dtype.is_complex else x


def remainder(x1, x2, /):
    """What division, rounded down, leaves; of the sign of `x2` even where that is 0."""
    x1, x2 = pair(x1, x2)
    y = cygrad.remainder(x1, x2)
    return cygrad.where(y == 0, cygrad.copysign(y, x2), y) if y.dtype.is_floating_point else y


def sign(x, /):
    """-1, 0 or 1, or NaN; of complex numbers, those of absolute value 1 (or 0) in the same direction."""
    y = cygrad.sgn(x)
    return cygrad.where(cygrad.isnan(x), x, y) if x.dtype.is_floating_point else y


def round(x, /):
    """To the nearest integer, halves to the even one; complex numbers part by part."""
    if x.dtype.is_complex:
        return cygrad.complex(cygrad.round(cygrad.real(x)), cygrad.round(cygrad.imag(x)))
    return x.clone() if x.dtype.name in INTEGERS else cygrad.round(x)


for _function in (clip, conj, floor_divide, imag, positive, real, remainder, round, sign):
    publish(_function.__name__, _function, _function.__doc__)

add_operators({
    "add": globals()["add"], "sub": globals()["subtract"], "mul": globals()["multiply"],
    "truediv": globals()["divide"], "floordiv": globals()["floor_divide"], "mod": globals()["remainder"],
    "pow": globals()["pow"], "and": globals()["bitwise_and"], "or": globals()["bitwise_or"],
    "xor": globals()["bitwise_xor"], "lshift": globals()["bitwise_left_shift"],
    "rshift": globals()["bitwise_right_shift"], "eq": globals()["equal"], "ne": globals()["not_equal"],
    "lt": globals()["less"], "le": globals()["less_equal"], "gt": globals()["greater"],
    "ge": globals()["greater_equal"], "matmul": standard(lambda x1, x2: cygrad.matmul(*pair(x1, x2)))})

"""Element types: kinds, promotion, limits."""

from dataclasses import dataclass

import cygrad
from cygrad.autograd._core import Tensor
from cygrad.storage.core import dtype as DType

NUMBERS = (bool, int, float, complex)
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
NAMES = ["bool", *SIGNED, *UNSIGNED, *REAL, *COMPLEX]
KINDS = {"bool": ["bool"], "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": SIGNED + UNSIGNED,
         "real floating": REAL, "complex floating": COMPLEX, "numeric": SIGNED + UNSIGNED + REAL + COMPLEX}


def named(names):
    """Those of the types that this build has, by name."""
    return {n: getattr(cygrad, n) for n in names if isinstance(getattr(cygrad, n, None), DType)}


def is_kind(dtype, kind):
    return dtype.name in KINDS[kind]


def integers(a, b):
    """The smallest integer type that holds both (int64 where none does)."""
    if a.is_signed == b.is_signed:
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return getattr(cygrad, f"int{min(64, 8 * max(signed.itemsize, 2 * unsigned.itemsize))}")


def promoted(a, b):
    """The standard's type promotion of two types, or of a type and Python's bool, int, float or complex."""
    if isinstance(b, type):
        rank = 0 if a is cygrad.bool else 1 if is_kind(a, "integral") else 3 if a.is_complex else 2
        if NUMBERS.index(b) <= rank:
            return a
        if b is complex and rank == 2:
            return cygrad.complex128 if a.itemsize == 8 else cygrad.complex64
        return default_dtype(b)
    if a is b:
        return a
    if is_kind(a, "integral") and is_kind(b, "integral"):
        return integers(a, b)
    return cygrad.promote_types(a, b)


def default_dtype(kind):
    """The default type of Python's bool, int, float or complex."""
    if kind is bool:
        return cygrad.bool
    if kind is int:
        return cygrad.int64
    real = cygrad.get_default_dtype()
    if kind is float:
        return real
    return cygrad.complex128 if real is cygrad.float64 else cygrad.complex64


def of(x):
    return x.dtype if isinstance(x, Tensor) else x


def result_type(*arrays_and_dtypes):
    """The dtype of an operation on these arrays, dtypes and Python numbers; numbers decide only about the kind."""
    kinds = [of(x) for x in arrays_and_dtypes if isinstance(x, (Tensor, DType))]
    numbers = [x for x in arrays_and_dtypes if not isinstance(x, (Tensor, DType))]
    if not kinds:
        raise ValueError(f"result_type(): at least one array or dtype is wanted, got {arrays_and_dtypes!r}")
    found = kinds[0]
    for kind in kinds[1:]:
        found = promoted(found, kind)
    for number in numbers:
        if not isinstance(number, NUMBERS):
            raise TypeError(f"result_type(): arrays, dtypes and Python numbers are wanted, got {number!r}")
        found = promoted(found, type(number))
    return found


def isdtype(dtype, kind):
    """Whether `dtype` is `kind`: a dtype, the name of a kind, or a tuple of these."""
    if not isinstance(dtype, DType):
        raise TypeError(f"isdtype(): a dtype is wanted, got {dtype!r}")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"isdtype(): the kinds are {', '.join(KINDS)}; got {kind!r}")
        return is_kind(dtype, kind)
    if not isinstance(kind, DType):
        raise TypeError(f"isdtype(): a dtype or the name of a kind is wanted, got {kind!r}")
    return dtype is kind


def can_cast(from_, to, /):
    """Whether type promotion leads from one type to the other."""
    from_ = of(from_)
    for x in (from_, to):
        if not isinstance(x, DType):
            raise TypeError(f"can_cast(): a dtype is wanted, got {x!r}")
    if from_ is to:
        return True
    try:
        return promoted(from_, to) is to
    except RuntimeError:
        return False


@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` gives: as `cygrad.finfo`, but with a dtype where that has its name."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntLimits:
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type, /):
    """Limits of a floating type, or of the parts of a complex one."""
    x = cygrad.finfo(of(type))
    return FloatLimits(x.bits, x.eps, x.max, x.min, x.smallest_normal, getattr(cygrad, x.dtype))


def iinfo(type, /):
    """Limits of an integer type."""
    x = cygrad.iinfo(of(type))
    return IntLimits(x.bits, x.max, x.min, of(type))

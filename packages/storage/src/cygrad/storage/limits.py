"""The limits of number types: finfo of floating ones, iinfo of integers."""

from .core import dtype, get_default_dtype

# Significand bits, smallest and largest exponent of normal numbers, decimal digits that are always kept.
_FLOATING = {
    "float16": (11, -14, 15, 3),
    "bfloat16": (8, -126, 127, 2),
    "float32": (24, -126, 127, 6),
    "float64": (53, -1022, 1023, 15),
}


class _Limits:
    """What both have: read-only fields that print in order and compare by dtype."""

    __slots__ = ("_type",)
    __module__ = "cygrad"
    _shown: tuple[str, ...] = ()
    _type: dtype

    @property
    def bits(self) -> int:
        """Size of a number in bits; of its real part where it is complex."""
        return self._type.to_real().itemsize * 8

    @property
    def dtype(self) -> str:
        """Name of the type; of its real part's where it is complex."""
        return self._type.to_real().name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((type(self), self.dtype))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{type(self).__name__}({shown}, dtype={self.dtype})"


def _checked(given: object, name: str) -> dtype:
    if not isinstance(given, dtype):
        raise TypeError(f"{name}(): argument 'type' must be torch.dtype, not {type(given).__name__}")
    return given


class finfo(_Limits):
    """Limits of a floating or complex dtype.

    Parameters
    ----------
    type : dtype, optional
        Default: the default dtype.

    Attributes
    ----------
    bits : int
    eps, max, min, tiny, smallest_normal, resolution : float
        Distance of 1 to the next number; largest and most negative number; smallest positive one with all digits,
        under two names; a decimal step that every decade resolves.
    dtype : str

    Raises
    ------
    TypeError
        If `type` is not a floating or complex dtype.
    """

    __slots__ = ()
    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: "dtype | None" = None) -> None:
        found = get_default_dtype() if type is None else _checked(type, "finfo")
        if not (found.is_floating_point or found.is_complex):
            raise TypeError(f"torch.finfo() wants a floating or complex dtype, got {found!r}: see torch.iinfo()")
        self._type = found

    @property
    def eps(self) -> float:
        """Distance of 1 to the next larger number."""
        return 2.0 ** (1 - _FLOATING[self.dtype][0])

    @property
    def max(self) -> float:
        """The largest number."""
        return (2 - self.eps) * 2.0 ** _FLOATING[self.dtype][2]

    @property
    def min(self) -> float:
        """The most negative number."""
        return -self.max

    @property
    def tiny(self) -> float:
        """The smallest positive number that has all digits."""
        return 2.0 ** _FLOATING[self.dtype][1]

    smallest_normal = tiny

    @property
    def resolution(self) -> float:
        """A decimal step that every decade resolves."""
        return float(f"1e-{_FLOATING[self.dtype][3]}")


class iinfo(_Limits):
    """Limits of an integer dtype.

    Parameters
    ----------
    type : dtype

    Attributes
    ----------
    bits, max, min : int
    dtype : str

    Raises
    ------
    TypeError
        If `type` is not an integer dtype.
    """

    __slots__ = ()
    _shown = ("min", "max")

    def __init__(self, type: "dtype") -> None:
        found = _checked(type, "iinfo")
        if found.is_floating_point or found.is_complex or found.name == "bool":
            raise TypeError(f"torch.iinfo() wants an integer dtype, got {found!r}: see torch.finfo()")
        self._type = found

    @property
    def max(self) -> int:
        """The largest number."""
        return 2 ** (self.bits - self._type.is_signed) - 1

    @property
    def min(self) -> int:
        """The smallest number."""
        return -self.max - 1 if self._type.is_signed else 0

"""The array object: a Tensor whose operators promote as the standard says."""

import functools
import inspect
import operator

from cygrad.autograd._core import Tensor
from cygrad.storage.core import dtype as DType

from ._dtypes import NUMBERS, promoted


class Count(int):
    """`Array.size`: a number for the standard, a method for PyTorch's programs."""

    def __new__(cls, array):
        return int.__new__(cls, array.numel())

    def __init__(self, array):
        self._array = array

    def __call__(self, dim=None):
        return Tensor.size(self._array, dim)


class Array(Tensor):
    """What the functions of `cygrad.array_api` make.

    It is a Tensor in every respect but three, where the standard and PyTorch differ: an array without dimensions counts
    in type promotion like any other, slices may run backwards, and ``size`` is a number (that can be called).
    """

    @property
    def size(self):
        """The number of elements; called, PyTorch's ``Tensor.size``."""
        return Count(self)

    def __getitem__(self, key):
        if isinstance(key, Tensor) and key.dtype.name == "bool" and 0 in key.shape and fits(key.shape, self.shape):
            key = self.new_zeros(self.shape[:key.ndim], dtype=key.dtype)       # a mask without elements fits all sizes
        return flipped_index(self, key).as_subclass(Array)

    def __setitem__(self, key, value):
        if isinstance(value, Tensor) and value.dtype is not self.dtype:
            value = value.to(self.dtype)
        forward, dims = unreversed(self, key)
        if not dims:
            Tensor.__setitem__(self, key, value)
            return
        part = Tensor.__getitem__(self, forward)
        value = value if isinstance(value, Tensor) else part.new_tensor(value)
        part.copy_(value.expand(part.shape).flip(dims))

    __hash__ = Tensor.__hash__


def fits(mask, shape):
    """Whether a mask of that shape, with sizes of 0, selects nothing from an array of this shape."""
    return len(mask) <= len(shape) and all(m in (0, s) for m, s in zip(mask, shape, strict=False))


def unreversed(x, key):
    """`key` with its backward slices turned round, and the dimensions of the result that are to be reversed."""
    keys = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(k, slice) and k.step is not None and operator.index(k.step) < 0 for k in keys):
        return key, []
    used = sum(k.ndim if isinstance(k, Tensor) else 1 for k in keys if k is not None and k is not Ellipsis)
    found, dims, source, place = [], [], 0, 0
    for k in keys:
        if k is None:
            place += 1
        elif k is Ellipsis:
            source += x.ndim - used
            place += x.ndim - used
        elif isinstance(k, slice):
            if k.step is not None and k.step < 0:
                places = range(*k.indices(x.shape[source]))[::-1]
                k = slice(places.start, places.stop, places.step) if len(places) else slice(0, 0)
                dims.append(place)
            source += 1
            place += 1
        else:
            source += 1
        found.append(k)
    return tuple(found), dims


def flipped_index(x, key):
    forward, dims = unreversed(x, key)
    y = Tensor.__getitem__(x, forward)
    return y.flip(dims) if dims else y


def arrays_in(values):
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, (list, tuple)):
            yield from arrays_in(v)


def as_arrays(result):
    if isinstance(result, Tensor):
        return result if isinstance(result, Array) else result.as_subclass(Array)
    if isinstance(result, tuple):
        parts = [as_arrays(r) for r in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return [as_arrays(r) for r in result] if isinstance(result, list) else result


def standard(function):
    """A function of the standard: gives Arrays, but Tensors to who passes nothing but Tensors."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            result = function(*args, **kwargs)
        except (AttributeError, RuntimeError, TypeError):
            check(function, args, kwargs)
            raise
        given = list(arrays_in(args)) or list(arrays_in(kwargs.values()))
        if given and not any(isinstance(v, Array) for v in given):
            return result
        return as_arrays(result)

    return call


def check(function, args, kwargs):
    """Raise a TypeError that names the first argument that is no array, or no dtype, where one is wanted."""
    known = inspect.signature(function)
    name = function.__name__
    try:
        given = known.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise TypeError(f"{name}(): {error}") from None
    for word, value in given.items():
        if word in ("x", "x1", "x2") and not isinstance(value, Tensor if word == "x" else (Tensor, *NUMBERS)):
            raise TypeError(f"{name}(): argument '{word}' must be an array, not {type(value).__name__}")
        if word == "arrays":
            for i, x in enumerate(value if isinstance(value, list | tuple) else ()):
                if not isinstance(x, Tensor):
                    raise TypeError(f"{name}(): item {i} of the arrays must be an array, not {type(x).__name__}")
        if word == "dtype" and not isinstance(value, DType | None):
            raise TypeError(f"{name}(): argument 'dtype' must be a dtype, not {value!r}")
    if given and not any(arrays_in(given.values())) and {"x1", "x2"} <= given.keys():
        raise TypeError(f"{name}(): one of its operands must be an array, got {given['x1']!r} and {given['x2']!r}")


def pair(x1, x2):
    """Both as tensors of the dtype that the standard gives their combination."""
    if not isinstance(x1, Tensor):
        x1 = as_operand(x1, x2)
    elif not isinstance(x2, Tensor):
        x2 = as_operand(x2, x1)
    if x1.dtype is not x2.dtype:
        kind = promoted(x1.dtype, x2.dtype)
        x1, x2 = x1.to(kind), x2.to(kind)
    return x1, x2


def as_operand(number, x):
    """A Python number beside an array has the array's dtype, or the one of its own kind that goes with it."""
    if not isinstance(number, NUMBERS):
        raise TypeError(f"an array or a Python number is wanted, got {number!r} of type {type(number).__name__}")
    return x.new_tensor(number, dtype=promoted(x.dtype, type(number)))


def add_operators(functions):
    """Gives Array the operators, forward and reflected, that these functions of two arrays define."""

    def make(function, reflected):
        def operate(self, other):
            if not isinstance(other, (Tensor, *NUMBERS)):
                return NotImplemented
            return function(other, self) if reflected else function(self, other)

        return operate

    for name, function in functions.items():
        setattr(Array, f"__{name}__", make(function, False))
        if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
            setattr(Array, f"__r{name}__", make(function, True))
        if name in ("floordiv", "mod"):            # the other in-place operators are Tensor's
            setattr(Array, f"__i{name}__", lambda self, other, function=function: self.copy_(function(self, other)))


def add_wrapped(names):
    """Gives Array those attributes and unary operators of Tensor, as Arrays."""
    for name in names:
        own = getattr(Tensor, name)
        if callable(own):
            def operate(self, own=own):
                return own(self).as_subclass(Array)
            setattr(Array, name, operate)
        else:
            setattr(Array, name, property(lambda self, own=own: own.__get__(self).as_subclass(Array)))


add_wrapped(["__abs__", "__invert__", "__neg__", "__pos__", "T", "mT"])

"""`assert_close`: everything is paired first, so that a difference in structure is told before one in values."""

from __future__ import annotations

import cmath
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cygrad
from cygrad import Tensor

# dtype -> relative and absolute tolerance; others are compared exactly
_TOLERANCES = {
    cygrad.float16: (1e-3, 1e-5),
    cygrad.bfloat16: (1.6e-2, 1e-5),
    cygrad.float32: (1.3e-6, 1e-5),
    cygrad.float64: (1e-7, 1e-7),
    cygrad.complex64: (1.3e-6, 1e-5),
    cygrad.complex128: (1e-7, 1e-7),
}
_NUMBERS = {int: cygrad.int64, float: cygrad.float64, complex: cygrad.complex128}
_WIDE_UNSIGNED = (cygrad.uint16, cygrad.uint32, cygrad.uint64)


@dataclass
class _Options:
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool

    def tolerances(self, *dtypes):
        """Those asked for, or the loosest of the dtypes."""
        if self.rtol is not None:
            return self.rtol, self.atol
        return tuple(map(max, zip(*(_TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes), strict=True)))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise an error unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere, and all else agrees.

    Parameters
    ----------
    actual, expected
        Tensors, numbers, arrays or whatever `cygrad.as_tensor` takes; or sequences and mappings of such, which may be
        nested. Types of sequences and mappings may differ; those of single items have to be related: a tensor is
        never close to an array or a number.
    allow_subclasses
        Whether a tensor may be compared with one of a subclass, such as a parameter.
    rtol, atol
        Both or none. The default is the looser of the tolerances of the two dtypes:

        ========== ======= =====
        dtype      rtol    atol
        ========== ======= =====
        float16    1e-3    1e-5
        bfloat16   1.6e-2  1e-5
        float32    1.3e-6  1e-5
        float64    1e-7    1e-7
        complex64  1.3e-6  1e-5
        complex128 1e-7    1e-7
        others     0       0
        ========== ======= =====

        Python's floats are compared as float64, its complex numbers as complex128.
    equal_nan
        Whether NaN is close to NaN. Infinities are close to themselves.
    check_device, check_dtype, check_layout, check_stride
        Whether a difference in these is an error. If not, values are compared in the common dtype.
    msg
        What the error says in place of the generated message, or a function that gets that message and returns
        another. Differences in structure are told in our own words always.

    Raises
    ------
    AssertionError
        If shapes, values, structure or what else is checked differ. The message tells how many elements do, and
        which by most.
    TypeError
        If two items cannot be compared.
    ValueError
        If only one of `rtol` and `atol` is given.

    Examples
    --------
    >>> import cygrad
    >>> cygrad.testing.assert_close(cygrad.tensor([1.0, 2.0]), cygrad.tensor([1.0, 2.5]))
    Traceback (most recent call last):
      ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)
    """
    __tracebackhide__ = True        # pytest shows the line that called
    options = _Options(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    for compare, path in list(_pairs(actual, expected, options, ())):
        said = compare()
        if said is None:
            continue
        if not isinstance(msg, str):
            said = _located(said, path)
        raise AssertionError(said if msg is None else msg(said) if callable(msg) else msg)


def _located(message, path):
    return message + "\n\nThe failure occurred for item " + "".join(f"[{p!r}]" for p in path) if path else message


def _pairs(actual, expected, options, path) -> Iterator[tuple[Callable[[], str | None], tuple]]:
    """For each pair of items a function that says how they differ, and where the items are."""
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (actual, expected)):
        if len(actual) != len(expected):
            message = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise AssertionError(_located(message, path))
        for i in range(len(actual)):
            yield from _pairs(actual[i], expected[i], options, (*path, i))
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        for key in _common_keys(actual, expected, path):
            yield from _pairs(actual[key], expected[key], options, (*path, key))
    else:
        yield _items(actual, expected, options, path), path


def _common_keys(actual, expected, path):
    if actual.keys() != expected.keys():
        missing, more = ([k for k in a if k not in b] for a, b in ((expected, actual), (actual, expected)))
        raise AssertionError(_located(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {_in_order(missing)}\n"
            f"Additional keys in the actual mapping: {_in_order(more)}", path))
    return _in_order(actual)


def _in_order(keys):
    try:
        return sorted(keys)
    except TypeError:       # keys of several types
        return list(keys)


def _items(actual, expected, options, path):
    """The comparison of two items that are not made of others."""
    if actual is None or expected is None:
        return lambda: None if actual is expected else f"None mismatch: {actual} is not {expected}"
    a, b = (_python_number(x) for x in (actual, expected))
    if isinstance(a, bool) and isinstance(b, bool):
        return lambda: None if a is b else f"Booleans mismatch: {a} is not {b}"
    numbers = isinstance(a, tuple(_NUMBERS)) and isinstance(b, tuple(_NUMBERS))
    if not numbers:
        a, b = _as_tensors(actual, expected, options, path)
    if (options.rtol is None) != (options.atol is None):
        lacking = "rtol" if options.rtol is None else "atol"
        raise ValueError(_located(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {lacking}.", path))
    return lambda: (_numbers if numbers else _tensors)(a, b, options)


def _python_number(x):
    numpy = sys.modules.get("numpy")        # whoever has a number of NumPy's has imported it
    if numpy is None or not isinstance(x, numpy.bool_ | numpy.number):
        return x
    x = x.item()
    if isinstance(x, numpy.number):         # long double
        x = complex(x) if isinstance(x, numpy.complexfloating) else float(x)
    return x


def _as_tensors(actual, expected, options, path):
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if related and (options.allow_subclasses or type(actual) is type(expected)):
        try:
            return tuple(x if isinstance(x, Tensor) else cygrad.as_tensor(x) for x in (actual, expected))
        except Exception:
            pass
    raise TypeError(_located(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.", path)) from None


def _numbers(a, b, options):
    if options.check_dtype and type(a) is not type(b):
        return f"The (d)types do not match: {type(a)} != {type(b)}."
    if a == b or (options.equal_nan and a != a and b != b):
        return None
    rtol, atol = options.tolerances(*(_NUMBERS.get(type(x)) for x in (a, b)))
    difference = abs(a - b)
    try:
        if cmath.isfinite(difference) and difference <= atol + rtol * abs(b):
            return None
    except OverflowError:       # whole numbers beyond every float
        pass
    return _mismatched_numbers(a, b, rtol, atol)


def _mismatched_numbers(a, b, rtol, atol):
    difference = abs(a - b)
    try:
        relative = difference / abs(b) if b != 0 else float("inf")
    except OverflowError:
        relative = float("inf")
    return _report("Scalars", f"Expected {b} but got {a}.", (rtol, atol), (difference, None), (relative, None))


def _report(what, first, tolerances, absolute, relative):
    """The message. absolute, relative: the largest difference, and where it is."""
    exact = tolerances == (0, 0)
    lines = [f"{what} are not {'equal' if exact else 'close'}!", "", first]
    rtol, atol = tolerances
    for kind, (difference, place), limit in (("absolute", absolute, atol), ("relative", relative, rtol)):
        line = f"{kind.title()} difference: {difference}"
        if place is not None:
            line = f"Greatest {kind} difference: {difference} at index {place}"
        lines.append(line if exact else f"{line} (up to {limit} allowed)")
    return "\n".join(lines)


def _tensors(a, b, options):
    checked = {"shape": True, "layout": options.check_layout, "stride()": options.check_stride,
               "device": options.check_device, "dtype": options.check_dtype}
    for name, wanted in checked.items():
        x, y = (t.stride() if name == "stride()" else getattr(t, name) for t in (a, b))
        if wanted and x != y:
            return f"The values for attribute '{name}' do not match: {x} != {y}."
    rtol, atol = options.tolerances(a.dtype, b.dtype)
    with cygrad.no_grad():
        if a.dtype != b.dtype:
            # wide unsigned integers have no common dtype with others
            types = [cygrad.int64 if t.dtype in _WIDE_UNSIGNED else t.dtype for t in (a, b)]
            a, b = (t.to(cygrad.promote_types(*types)) for t in (a, b))
        close = cygrad.isclose(a, b, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
        if close.all():
            return None
        if not a.dim():
            return _mismatched_numbers(a.item(), b.item(), rtol, atol)
        return _mismatched_tensors(a, b, close, rtol, atol)


def _mismatched_tensors(a, b, close, rtol, atol):
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        a, b = a.to(cygrad.int64), b.to(cygrad.int64)           # small integers would wrap around
    absolute = (a - b).abs().masked_fill(close, 0)
    relative = (absolute / b.abs()).masked_fill(close, 0)
    count = close.numel() - int(close.sum())
    return _report("Tensor-likes", f"Mismatched elements: {count} / {close.numel()} ({count / close.numel():.1%})",
                   (rtol, atol), _largest(absolute), _largest(relative))


def _largest(difference):
    value, place = difference.flatten().max(0)
    index, place = [], int(place)
    for size in difference.shape[::-1]:
        place, i = divmod(place, size)
        index.insert(0, i)
    return value.item(), tuple(index)

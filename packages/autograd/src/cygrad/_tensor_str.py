"""Printing of tensors: what ``repr(tensor)`` says, and the options that shape it.

The text is laid out in three steps. The elements that will be shown are read once into nested lists, in which ``...``
stands for what a summary leaves out; one number format is chosen from all of them, so that columns line up; and the
lists are folded into lines. Nothing here records operations: only a detached alias is read.
"""

import math
from collections import namedtuple
from contextlib import contextmanager

import cygrad

__all__ = ["PrintOptions", "get_printoptions", "printoptions", "set_printoptions", "tensor_str"]


_FIELDS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


class PrintOptions(namedtuple("PrintOptions", _FIELDS, defaults=_FIELDS.values())):
    """How tensors are printed; see :func:`set_printoptions` for the meaning of each field."""

    __slots__ = ()


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()

# The complex dtype that a complex literal gets under each default dtype.
_COMPLEX_OF = {
    "torch.float16": "torch.complex32",
    "torch.bfloat16": "torch.complex64",
    "torch.float32": "torch.complex64",
    "torch.float64": "torch.complex128",
}


def get_printoptions():
    """Return the options in force.

    Returns
    -------
    PrintOptions
        An immutable record; change it with :func:`set_printoptions`.
    """
    return _options


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Set how tensors are printed from now on.

    Parameters
    ----------
    precision : int, optional
        Digits after the decimal point (4).
    threshold : int, optional
        A tensor with more elements than this is summarised (1000); ``math.inf`` never summarises.
    edgeitems : int, optional
        Elements shown at either end of each dimension of a summary (3).
    linewidth : int, optional
        Characters in a line before it is folded (80).
    profile : {"default", "short", "full"}, optional
        A set of values that the other arguments then override.
    sci_mode : bool, optional
        True or False forces scientific notation on or off; None, which every call that leaves it out restores,
        decides from the values.

    Raises
    ------
    ValueError
        If `profile` is none of the three names, or a number is negative.
    TypeError
        If an argument is of another type.
    """
    global _options
    options = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile is one of 'default', 'short', 'full', not {profile!r}")
        options = _PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        _check_count(name, value)
    if not (sci_mode is None or isinstance(sci_mode, bool)):
        raise TypeError(f"set_printoptions: sci_mode is True, False or None, not {type(sci_mode).__name__}")
    _options = options._replace(sci_mode=sci_mode, **{k: v for k, v in given.items() if v is not None})


def _check_count(name, value):
    """A number of characters or elements; elements and characters may be without limit."""
    boundless = name in ("threshold", "linewidth") and isinstance(value, float)
    if value is None or (boundless and value >= 0):
        return
    if isinstance(value, bool) or not (boundless or hasattr(value, "__index__")):
        raise TypeError(f"set_printoptions: {name} is an int, not {type(value).__name__}")
    if not value >= 0:
        raise ValueError(f"set_printoptions: {name} must not be negative, got {value}")


@contextmanager
def printoptions(**kwargs):
    """Set the print options inside a ``with`` block; takes what :func:`set_printoptions` takes."""
    global _options
    before = _options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options = before


def _batched(t):
    """A tensor of vmap: all examples of the innermost level."""
    from textwrap import indent

    from cygrad.autograd._core import batch_out, levels_of

    level = levels_of(t)[-1]
    whole = tensor_str(batch_out(t.detach(), level, 0))
    return f"BatchedTensor(lvl={level.depth}, bdim=0, value=\n{indent(whole, '    ')}\n)"


def tensor_str(t):
    """Return the text that ``repr`` shows for a tensor.

    Parameters
    ----------
    t : Tensor
        Any dtype, layout and number of dimensions; it may require gradients.

    Returns
    -------
    str
        The values, then what cannot be seen from them: the size of an empty tensor, a dtype that is not what the
        literal alone would give, and whether the tensor records.
    """
    if cygrad.autograd._core.is_batched(t):
        return _batched(t)
    kind = type(t)
    is_param = getattr(kind, "_is_param", False)
    # Parameter and Buffer, which set their mark themselves, print as tensors; what is derived from them does not.
    own_name = kind is not cygrad.Tensor and not vars(kind).keys() & {"_is_param", "_is_buffer"}
    prefix = f"{kind.__name__}(" if own_name else "tensor("
    text = _with_suffixes(prefix + _contents(t.detach(), len(prefix)), _suffixes(t), len(prefix))
    if not is_param:
        return text
    return "Parameter containing:\n" + (f"Parameter({text})" if own_name else text)


def _suffixes(t):
    """List what follows the values, in PyTorch's order."""
    found = [f"device='{t.device}'"] if t.is_cuda else []
    sized_by_brackets = t.dim() == 1 if t.numel() == 0 else _options.edgeitems > 0
    if not sized_by_brackets:
        found.append(f"size={tuple(t.shape)}")
    default = str(cygrad.get_default_dtype())
    shown_by_values = {default} if t.numel() == 0 else {default, _COMPLEX_OF[default], "torch.int64", "torch.bool"}
    if str(t.dtype) not in shown_by_values:
        found.append(f"dtype={t.dtype}")
    try:
        node = t.grad_fn
    except RuntimeError:  # a view whose base was changed where views may not be
        found.append("grad_fn=<Invalid>")
        return found
    if node is not None:
        found.append(f"grad_fn=<{node.name()}>")
    elif t.requires_grad:
        found.append("requires_grad=True")
    tangent = cygrad.autograd._core.innermost_tangent(t)
    if tangent is not None:
        found.append(f"tangent={tangent}")
    return found


def _with_suffixes(text, suffixes, indent):
    """Close the parenthesis after `suffixes`, each on the last line if it still fits there."""
    column = len(text) - text.rfind("\n") + 1
    parts = [text]
    for suffix in suffixes:
        if column + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(parts) + ")"


def _contents(t, indent):
    """Format the values of `t`, whose text starts at column `indent`."""
    if t.numel() == 0:
        return "[]"
    data = _read(t, t.numel() > _options.threshold)
    values = list(_leaves(data))
    to_str, width = _number_format(values)
    if t.dim() == 0:
        return to_str(data)
    return _fold(data, t.dim(), indent, to_str, width)


def _read(t, summarize):
    """Read `t` into nested lists; in a summary, ``...`` stands for the middle of each long dimension."""
    edge = _options.edgeitems
    if not summarize or t.dim() == 0:
        return t.tolist()
    n = t.shape[0]
    if n <= 2 * edge:
        return [_read(t[i], True) for i in range(n)]
    head = [_read(t[i], True) for i in range(edge)]
    return [*head, ..., *(_read(t[i], True) for i in range(n - edge, n))]


def _leaves(data):
    """Yield the numbers in nested lists, without the gaps."""
    if not isinstance(data, list):
        yield data
        return
    for item in data:
        if item is not ...:
            yield from _leaves(item)


def _number_format(values):
    """Choose one format for all of `values`: return a function from number to text, and the width of a column."""
    kind = type(values[0]) if values else int
    if kind is complex:
        real, real_width = _float_format([v.real for v in values])
        imag, imag_width = _float_format([v.imag for v in values])

        def complex_str(v):
            tail = imag(v.imag).lstrip() + "j"
            return real(v.real) + (tail if tail[0] in "+-" else "+" + tail)

        return complex_str, real_width + imag_width + 1
    if kind is float:
        return _float_format(values)
    width = max((len(str(v)) for v in values), default=1)
    return (lambda v: str(v).rjust(width)), width


def _float_format(values):
    """Choose among whole ("3."), fixed ("3.1416") and scientific ("3.1416e+08") from the finite, non-zero values.

    Zeros, infinities and nans say nothing about how many digits are needed; they only take part in the padding.
    """
    precision = _options.precision
    finite = [v for v in values if v != 0 and math.isfinite(v)]
    if not finite:
        return (lambda v: _whole(v).rjust(1)), 1
    smallest, largest = min(map(abs, finite)), max(map(abs, finite))
    whole = all(v.is_integer() for v in finite)
    scientific = _options.sci_mode
    if scientific is None:
        scientific = largest / smallest > 1000 or largest > 1e8 or (not whole and smallest < 1e-4)
    if scientific:
        form = f"{{:.{precision}e}}".format
    elif whole:
        form = _whole
    else:
        form = f"{{:.{precision}f}}".format
    width = max(len(form(v)) for v in finite)
    return (lambda v: form(v).rjust(width)), width


def _whole(v):
    """Format a float without a fraction; the point tells it from an integer."""
    return f"{v:.0f}." if math.isfinite(v) else str(v)


def _fold(data, dim, indent, to_str, width):
    """Lay nested lists of depth `dim` out in brackets, each level one column further in."""
    if dim == 1:
        return _fold_row(data, indent, to_str, width)
    rows = ["..." if row is ... else _fold(row, dim - 1, indent + 1, to_str, width) for row in data]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(rows) + "]"


def _fold_row(data, indent, to_str, width):
    """Lay one row of numbers out, folded at the line width."""
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    gap = "..." if _options.edgeitems == 0 else " ..."
    texts = [gap if v is ... else to_str(v) for v in data]
    lines = (", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line))
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

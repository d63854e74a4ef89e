"""rearrange: axes of a tensor in another order, split and joined, as a pattern of their names says."""

import math
import re

from ..autograd import _core
from ..autograd._core import Tensor

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|[A-Za-z_]\w*|\d+)")
_REST = "..."


def rearrange(tensor, pattern, **axes_lengths):
    """Reorder, split and join the axes of a tensor: "b (h w) c -> b c h w".

    Named after `einops.rearrange`, whose patterns it takes.

    Parameters
    ----------
    tensor : Tensor, or list or tuple of Tensor
        Several tensors of one shape are stacked along a new first axis.
    pattern : str
        The axes before and after ``->``, each name once on either side. Axes in parentheses are one axis of the
        tensor, in row-major order; ``1`` is an axis of size 1, ``...`` all axes that are not named.
    **axes_lengths : int
        Sizes of axes that do not follow from the tensor's shape.

    Returns
    -------
    Tensor
        A view where that is possible.

    Raises
    ------
    TypeError
        `tensor` or `pattern` is of another type.
    ValueError
        The pattern is malformed, or does not fit the tensor.

    Examples
    --------
    >>> import cygrad as torch
    >>> torch.func.rearrange(torch.arange(6), "(a b) -> b a", a=2)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if isinstance(tensor, (list, tuple)) and tensor:
        tensor = _core.stack(list(tensor))
    if not isinstance(tensor, Tensor):
        raise TypeError(f"rearrange(): tensor must be a Tensor or a sequence of them, got {type(tensor).__name__}")
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange(): pattern must be a str, got {type(pattern).__name__}")
    left, right = _sides(pattern)
    for name, size in axes_lengths.items():
        if type(size) is not int or size < 0:
            raise ValueError(f"rearrange({pattern!r}): the size of axis {name} is an int of 0 or more, got {size!r}")
        if not any(name in group for group in left):
            raise ValueError(f"rearrange({pattern!r}): axis {name} has a size, but is not in the pattern")
    rest = _names_of_rest(left, tensor, pattern)
    left, right = _spelt_out(left, rest), _spelt_out(right, rest)
    sizes = _sizes(left, tensor, axes_lengths, pattern)
    order = [name for group in left for name in group]
    target = [name for group in right for name in group]
    split = tensor.reshape([sizes[name] for name in order])
    return split.permute([order.index(name) for name in target]).reshape(
        [math.prod(sizes[name] for name in group) for group in right]
    )


def _sides(pattern):
    """Both sides as lists of groups of names; a size of 1 is an empty group."""
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange({pattern!r}): a pattern has one '->' between the axes before and after")
    left, right = (_groups(side, pattern) for side in sides)
    if [_REST] not in left and any(_REST in group for group in left):
        raise ValueError(f"rearrange({pattern!r}): ... in parentheses is for the side after '->'")
    before, after = ({name for group in side for name in group} for side in (left, right))
    if before != after:
        raise ValueError(
            f"rearrange({pattern!r}): axes only on one side of the pattern: {', '.join(sorted(before ^ after))}"
        )
    return left, right


def _groups(side, pattern):
    groups, seen, inside, at = [], set(), None, 0
    side = side.rstrip()
    while at < len(side):
        match = _TOKEN.match(side, at)
        if match is None:
            raise ValueError(f"rearrange({pattern!r}): {side[at:].strip()[0]!r} has no meaning in a pattern")
        at, token = match.end(), match.group(1)
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(inside)
            inside = None
        elif token in "()":
            raise ValueError(f"rearrange({pattern!r}): parentheses do not match, or are nested")
        elif token.isdigit():
            if token != "1":
                raise ValueError(f"rearrange({pattern!r}): an axis is a name or 1, got {token}")
            if inside is None:
                groups.append([])
        elif token in seen:
            raise ValueError(f"rearrange({pattern!r}): axis {token} is there twice")
        else:
            seen.add(token)
            if inside is None:
                groups.append([token])
            else:
                inside.append(token)
    if inside is not None:
        raise ValueError(f"rearrange({pattern!r}): parentheses do not match, or are nested")
    return groups


def _names_of_rest(left, tensor, pattern):
    """Names for the axes that ``...`` stands for."""
    named = sum(group != [_REST] for group in left)
    if named > tensor.ndim or ([_REST] not in left and named != tensor.ndim):
        raise ValueError(
            f"rearrange({pattern!r}): the pattern has {named} axes, the tensor {tensor.ndim}, its shape is "
            f"{tuple(tensor.shape)}"
        )
    return [f"{_REST}{k}" for k in range(tensor.ndim - named)]


def _spelt_out(groups, rest):
    """The groups with the names of all axes."""
    found = []
    for group in groups:
        if group == [_REST]:
            found += [[name] for name in rest]
        else:
            found.append([name for part in group for name in (rest if part == _REST else [part])])
    return found


def _sizes(left, tensor, given, pattern):
    """The size of each axis by name."""
    sizes = dict(given)
    for size, group in zip(tensor.shape, left, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1:
            raise ValueError(f"rearrange({pattern!r}): give the sizes of all but one of the axes {', '.join(group)}")
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            what = " ".join(f"{name}={sizes[name]}" if name in sizes else name for name in group) or "1"
            raise ValueError(f"rearrange({pattern!r}): an axis of size {size} cannot be ({what})")
    return sizes

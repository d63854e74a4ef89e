"""Forward mode: derivatives along a direction, computed beside the values as these are computed."""

import threading
from collections import namedtuple

from . import _core
from ._core import Tensor
from .grad_mode import _Mode

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_UNLIMITED = 0x7FFFFFFF


class _Thread(threading.local):
    """The open levels of a thread, outermost first, and the one that ``enter_dual_level`` opened."""

    def __init__(self):
        self.levels = []
        self.entered = None


_thread = _Thread()


def open_level():
    """Opens a level inside those that are open on this thread; `close_level` ends it."""
    levels = _thread.levels
    level = _core.ForwardLevel(levels[-1].depth + 1 if levels else 1)
    levels.append(level)
    return level


def close_level(level):
    """Takes the tangents of a level, which must be the innermost, off all tensors."""
    if not _thread.levels or _thread.levels[-1] is not level:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _thread.levels.pop()
    level.close()


class UnpackedDualTensor(namedtuple("UnpackedDualTensor", ("primal", "tangent"))):
    """What `unpack_dual` returns: a value and its tangent, None where it has none."""

    __slots__ = ()
    primal: Tensor
    tangent: Tensor | None


def enter_dual_level():
    """Opens the level in which tangents live, and returns its number, 0: `dual_level` closes what it opens by itself.

    Raises
    ------
    RuntimeError
        The level is open already. Transforms of ``cygrad.func`` can be nested.
    """
    if _thread.entered is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _thread.entered = open_level()
    return 0


def exit_dual_level(*, level=None):
    """Closes the level: tensors lose their tangents."""
    if _thread.entered is None:
        raise RuntimeError("Dual level must be a positive number: exit_dual_level() without enter_dual_level()")
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not "
            f"supported. The open level is 0, got {level!r}."
        )
    close_level(_thread.entered)
    _thread.entered = None


class dual_level(_Mode):
    """Tangents live inside, for ``with dual_level():`` or as a decorator.

    Examples
    --------
    >>> import cygrad as torch
    >>> import cygrad.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor(9.), tangent=tensor(6.))
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exc):
        exit_dual_level()


def _check_floating(t, name):
    if not isinstance(t, Tensor):
        raise TypeError(f"make_dual(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if not (t.is_floating_point() or t.is_complex()):
        raise ValueError(f"Expected {name} to be floating point or complex, but got: {t.dtype}")


def make_dual(tensor, tangent, *, level=None):
    """A view of `tensor` that carries `tangent` through operations.

    Parameters
    ----------
    tensor, tangent : Tensor
        Value and direction, of one shape, floating-point or complex.
    level : int, optional
        Number of the level; there is only the current one, 0.

    Returns
    -------
    Tensor
        It has the gradients of `tensor` in backward mode.

    Raises
    ------
    RuntimeError
        No level is open, the shapes differ, or one of the two has a tangent already.
    ValueError
        One of the two has integers or bool.
    """
    if _thread.entered is None or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to make_dual: {level!r}; the open level is 0")
    _check_floating(tensor, "primal")
    _check_floating(tangent, "tangent")
    return _core.make_dual_tensor(tensor, tangent, _thread.entered)


def unpack_dual(tensor, *, level=None):
    """Value and tangent of a tensor.

    Returns
    -------
    UnpackedDualTensor
        ``primal``, a view without tangent, and ``tangent``: None where `tensor` has none, or no level is open.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    entered = _thread.entered
    if entered is None or level not in (None, 0):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(_core.primal_of(tensor, entered), _core.tangent_of(tensor, entered))


class _set_fwd_grad_enabled(_Mode):
    """Operations inside see no tangents where `mode` is False; switches at once, as set_grad_enabled does."""

    def __init__(self, mode):
        super().__init__()
        self._mode = mode
        self._outer = _core._set_forward_limit(_UNLIMITED if mode else 0)

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        _core._set_forward_limit(self._outer)

    def __call__(self, function):
        _core._set_forward_limit(self._outer)
        return super().__call__(function)

    def _fresh(self):
        return type(self)(self._mode)


def _is_fwd_grad_enabled():
    """Whether operations of this thread see tangents now."""
    limit = _core._set_forward_limit(0)
    _core._set_forward_limit(limit)
    return limit > 0

"""Anomaly mode: a backward pass that fails, or makes NaN, says where the forward pass made the node."""

import warnings

from ._core import _set_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]


def _flag(value, function, name):
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")
    return value


class set_detect_anomaly:
    """Switches anomaly mode at once, for the whole process; as a context manager puts back what was on exit.

    In anomaly mode each recorded operation notes the call that made it (``grad_fn.metadata["traceback_"]``). Where its
    backward raises, that call is shown in a warning.

    Parameters
    ----------
    mode : bool
        On or off.
    check_nan : bool
        Raise RuntimeError where a backward gives NaN.
    """

    def __init__(self, mode, check_nan=True):
        self._mode = (_flag(mode, "set_detect_anomaly", "mode"), _flag(check_nan, "set_detect_anomaly", "check_nan"))
        self._before = _set_anomaly(*self._mode)

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        _set_anomaly(*self._before)


class detect_anomaly:
    """Anomaly mode inside ``with detect_anomaly():``; see `set_detect_anomaly`.

    Examples
    --------
    >>> import cygrad as torch
    >>> x = torch.zeros(2, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():                     # doctest: +SKIP
    ...     (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan=True):
        self._check_nan = _flag(check_nan, "detect_anomaly", "check_nan")
        self._before = []
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self):
        self._before.append(_set_anomaly(True, self._check_nan))

    def __exit__(self, *exc):
        _set_anomaly(*self._before.pop())

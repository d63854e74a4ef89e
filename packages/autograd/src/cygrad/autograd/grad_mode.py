"""What is recorded: context managers that are decorators too."""

import contextlib
import functools

from ._core import _set_grad_enabled, _set_inference_mode, is_grad_enabled, is_inference_mode_enabled

__all__ = ["enable_grad", "inference_mode", "is_inference_mode_enabled", "no_grad", "set_grad_enabled",
           "set_multithreading_enabled"]


def _makes_generators(function):
    """As inspect.isgeneratorfunction, whose module would take a fifth of the time that importing cygrad takes."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return bool(getattr(code, "co_flags", 0) & 0x20)            # CO_GENERATOR


class _Mode:
    """Sets recording on entry and puts back what was before on exit; decorates functions and generators."""

    _on = True

    def __init__(self):
        self._before = []

    def __enter__(self):
        self._before.append(is_grad_enabled())
        _set_grad_enabled(self._on)

    def __exit__(self, *exc):
        _set_grad_enabled(self._before.pop())

    def _fresh(self):
        return type(self)()

    def __call__(self, function):
        if isinstance(function, type):
            raise TypeError(f"{type(self).__name__} decorates functions, not the class {function.__name__}: decorate "
                            "its methods")
        if _makes_generators(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self._fresh():
                return function(*args, **kwargs)

        return wrapper

    def _wrap_generator(self, function):
        """The mode holds while the generator's own code runs, and not between its yields."""

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            generator = function(*args, **kwargs)
            with self._fresh():
                try:
                    step = generator.send(None)
                except StopIteration as end:
                    return end.value
            while True:
                try:
                    sent = yield step
                except GeneratorExit:
                    with self._fresh():
                        generator.close()
                    raise
                except BaseException as error:
                    with self._fresh():
                        try:
                            step = generator.throw(error)
                        except StopIteration as end:
                            return end.value
                else:
                    with self._fresh():
                        try:
                            step = generator.send(sent)
                        except StopIteration as end:
                            return end.value

        return wrapper


class no_grad(_Mode):
    """Nothing is recorded inside: ``with no_grad():`` or ``@no_grad()``."""

    _on = False

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        if function is None:
            return mode
        mode.__init__()
        return mode(function)            # used as a bare decorator


class enable_grad(no_grad):
    """Recording is on inside, also within no_grad."""

    _on = True


class set_grad_enabled(_Mode):
    """Switches recording at once; as a context manager puts back what was before on exit."""

    def __init__(self, mode):
        super().__init__()
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")
        self._on = mode
        self._outer = is_grad_enabled()
        _set_grad_enabled(mode)

    def __enter__(self):
        self._before.append(self._outer)
        _set_grad_enabled(self._on)

    def __call__(self, function):
        _set_grad_enabled(self._outer)   # a decorator leaves the mode around it alone
        return super().__call__(function)

    def _fresh(self):
        mode = _Mode()
        mode._on = self._on
        return mode


class inference_mode(_Mode):
    """Nothing is recorded or counted inside: ``with inference_mode():``, ``@inference_mode()`` or ``@inference_mode``.

    Tensors made inside are inference tensors. Outside they can be read, but neither changed in place nor saved for a
    gradient: clone() them first.

    Parameters
    ----------
    mode : bool
        False switches inference mode off inside.
    """

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)               # used as a bare decorator

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode

    def __enter__(self):
        self._before.append(_set_inference_mode(self.mode, not self.mode))

    def __exit__(self, *exc):
        _set_inference_mode(*self._before.pop())

    def _fresh(self):
        return inference_mode(self.mode)


class set_multithreading_enabled(contextlib.AbstractContextManager):
    """Accepted and without effect: a backward pass runs in the thread that asked for it, its loops in several."""

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError(f"set_multithreading_enabled(): argument 'mode' must be bool, not {type(mode).__name__}")

    def __exit__(self, *exc):
        return None

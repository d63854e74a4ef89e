"""Profiler: time and memory by operation and by module, forward and backward.

    with profile() as prof:
        loss = model(x).sum()
        loss.backward()
    print(prof.key_averages().table())

Operations, the backward of each node of the graph, calls of modules and steps of optimizers are timed where they begin
and end. When nothing is profiled, an operation pays for one test of a flag. What is not timed one by one: views, which
compute nothing, and Python itself, which shows as the difference of a region's total and its parts.
"""

import threading
from contextlib import ContextDecorator

from cygrad.autograd import _core
from cygrad.storage import get_num_threads, memory_stats, reset_peak

from ._profile_tree import build

__all__ = ["ProfilerActivity", "machine_limits", "profile", "record_function"]

_PROFILE = 0x800  # MODE_PROFILE of mode.pxi
_active = []  # the profiles that are open, innermost last
_module_paths = {}  # id of a module -> its path below the module that was called first


class ProfilerActivity:
    """What can be profiled, by PyTorch's names: the CPU."""

    CPU = "CPU"


class profile:
    """Times everything that cygrad computes inside a ``with``, in the thread that enters it.

    Parameters
    ----------
    activities : iterable, optional
        PyTorch's argument: only ``ProfilerActivity.CPU`` is there.
    record_shapes : bool
        Keep the shapes of the operands, for ``key_averages(group_by_input_shape=True)``. They are always kept; the
        argument is there for PyTorch's programs.
    profile_memory : bool
        Keep how many bytes of tensors are in use after each operation, for the trace and `peak_bytes`.

    Attributes
    ----------
    events : list of Event
        All that ran, in the order in which it began, after the ``with``.
    seconds : float
        How long the ``with`` took.
    peak_bytes : int
        The most bytes that tensors had in use inside it.

    Raises
    ------
    RuntimeError
        The profile is entered twice, or its results are read before its end.

    Examples
    --------
    >>> import cygrad as torch
    >>> from cygrad.profiler import profile
    >>> x = torch.ones(3, requires_grad=True)
    >>> with profile() as prof:
    ...     (x * 2).sum().backward()
    >>> [row.name for row in prof.key_averages()]
    ['sum', 'mul', 'SumBackward0', 'MulBackward0']
    """

    def __init__(self, activities=None, record_shapes=False, profile_memory=False):
        for activity in activities or ():
            if activity != ProfilerActivity.CPU:
                raise RuntimeError(f"profile(): activities: only ProfilerActivity.CPU is there, got {activity!r}")
        self.profile_memory = bool(profile_memory)
        self.peak_bytes = None
        self._found = None
        self._raw = None

    def __enter__(self):
        if self._raw is not None:
            raise RuntimeError("profile(): a profile is used once; make another one for the next")
        self._raw = []
        self._thread = threading.get_ident()
        self._handles = _watch_calls()
        reset_peak()
        self._live = _live_bytes() if self.profile_memory else None
        self._outer = _core._profile_into(self._raw, _live_bytes if self.profile_memory else None)
        self._mode = _core._mode_bits(_PROFILE, _PROFILE)
        _active.append(self)
        self._began = _core._profile_clock()
        return self

    def __exit__(self, *exc):
        self._ended = _core._profile_clock()
        _active.remove(self)
        _core._mode_bits(_PROFILE, self._mode)
        _core._profile_into(*self._outer)
        self.peak_bytes = memory_stats()["peak_bytes"]
        for handle in self._handles:
            handle.remove()
        if self._outer[0] is not None:  # what ran inside is also the outer profile's
            self._outer[0].extend(self._raw)

    @property
    def seconds(self):
        """How long the ``with`` took, in seconds."""
        self._check_ended("seconds")
        return (self._ended - self._began) / 1e9

    @property
    def events(self):
        """All that ran, as a list of `Event` in the order in which it began."""
        self._check_ended("events")
        if self._found is None:
            self._found = build(self._raw, self._began, self._live)
        return self._found

    def _check_ended(self, what):
        if self._raw is None or self in _active:
            raise RuntimeError(f"profile.{what}: there is nothing yet, the profile has not ended")

    def key_averages(self, group_by_input_shape=False):
        """Operations and nodes with their sums, see `Averages`; operations of equal shapes apart if that is asked."""
        from ._profile_table import Averages

        return Averages(self, "operation", lambda e: (e.name, e.shapes if group_by_input_shape else None),
                        ("op", "node", "region"))

    def by_module(self, fold=False):
        """The same by module: what ran in each one's forward, and in the backward of what it computed.

        Calls are those of the module, and a total counts the modules inside it.

        Parameters
        ----------
        fold : bool
            Sum numbered neighbours that have the same modules inside, as the blocks of a transformer:
            ``GPT.blocks.*.mlp`` is all of their `mlp`.
        """
        from ._profile_table import ByModule

        return ByModule(self, fold)

    def export_chrome_trace(self, path):
        """Write a file that chrome://tracing and ui.perfetto.dev open: one row for each thread, and the memory."""
        from ._profile_trace import write_trace

        write_trace(self, path)

    def export_flame_graph(self, path):
        """Write a page of its own that shows what ran in what, as wide as it took time; a click goes into a part."""
        from ._profile_trace import write_flame_graph

        write_flame_graph(self, path)

    def __str__(self):
        return self.key_averages().table()


class record_function(ContextDecorator):
    """A region with a name of the user's, in a ``with`` or around a function; it costs nothing where nobody profiles.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"record_function(): argument 'name' must be str, not {type(name).__name__}")
        self.name = name
        self._began = []

    def _recreate_cm(self):
        return type(self)(self.name)

    def __enter__(self):
        self._began.append(_core._profile_clock() if _active else 0)
        return self

    def __exit__(self, *exc):
        _end_region("user", self.name, self._began.pop())


def _end_region(kind, name, began):
    if _active and began and threading.get_ident() == _active[-1]._thread:
        ended, thread = _core._profile_clock(), threading.get_ident()
        live = _live_bytes() if _active[-1].profile_memory else None
        _active[-1]._raw.append((2, (kind, name), began, ended, thread, 0, 0, None, live))


def _live_bytes():
    return memory_stats()["live_bytes"]


def _watch_calls():
    """Hooks on all modules and optimizers, if there are any; only the outermost profile needs them."""
    import sys

    if _active:
        return []
    _module_paths.clear()
    handles = []
    modules = sys.modules.get("cygrad.nn")
    if modules is not None:
        stack = []
        handles.append(modules.modules.module.register_module_forward_pre_hook(lambda m, args: _enter_module(stack, m)))
        handles.append(modules.modules.module.register_module_forward_hook(
            lambda m, args, result: _leave_module(stack, m), always_call=True))
    optimizers = sys.modules.get("cygrad.optim")
    if optimizers is not None:
        began = []
        where = sys.modules["cygrad.optim.optimizer"]
        handles.append(where.register_optimizer_step_pre_hook(
            lambda o, args, kwargs: began.append(_core._profile_clock())))
        handles.append(where.register_optimizer_step_post_hook(
            lambda o, args, kwargs: _end_region("optimizer", f"{type(o).__name__}.step", began.pop())))
    return handles


def _enter_module(stack, module):
    if not stack:
        for path, part in module.named_modules():
            _module_paths[id(part)] = f"{type(module).__name__}.{path}" if path else type(module).__name__
    stack.append(_core._profile_clock())


def _leave_module(stack, module):
    name = _module_paths.get(id(module), type(module).__name__)
    _end_region("module", name, stack.pop() if stack else 0)


def machine_limits():
    """What this machine reaches: measured once for each number of threads, in about a third of a second.

    Returns
    -------
    dict
        ``"GB/s"`` of a copy of 64 MB, read and written bytes counted, and ``"GFLOP/s"`` of a product of float32
        matrices of 1024 x 1024; the best of five each.
    """
    threads = get_num_threads()
    if threads not in _limits:
        with _unprofiled():
            x = _core.ones((1 << 24,))
            y = _core.empty((1 << 24,))
            a = _core.ones((1024, 1024))
            copied = min(_timed(lambda: y.copy_(x)) for _ in range(5))
            product = min(_timed(lambda: _core.mm(a, a)) for _ in range(5))
        _limits[threads] = {"GB/s": 2 * x.nbytes / copied, "GFLOP/s": 2 * 1024**3 / product}
    return dict(_limits[threads])


_limits = {}


class _unprofiled:
    def __enter__(self):
        self.before = _core._mode_bits(_PROFILE, 0)

    def __exit__(self, *exc):
        _core._mode_bits(_PROFILE, self.before)


def _timed(call):
    """Nanoseconds."""
    began = _core._profile_clock()
    call()
    return _core._profile_clock() - began

"""The backward graph, for those who look at it: nodes, edges, hooks on what is saved and on several gradients."""

import contextlib
import weakref
from collections import namedtuple

from cygrad.storage import cuda

from . import _core
from ._core import Node, RemovableHandle, increment_version

__all__ = ["GradientEdge", "Node", "RemovableHandle", "SavedTensors", "allow_mutation_on_saved_tensors",
           "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version", "register_multi_grad_hook",
           "save_on_cpu", "saved_tensors", "saved_tensors_hooks"]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from .saved_report import SavedTensors, saved_tensors


def __getattr__(name):
    if name in ("SavedTensors", "saved_tensors"):
        from . import saved_report

        return getattr(saved_report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class GradientEdge(namedtuple("GradientEdge", ("node", "output_nr", "ownership_token"), defaults=(None,))):
    """Where the gradient of a tensor arrives; stands for the tensor in ``autograd.grad`` and ``autograd.backward``.

    Unlike the tensor it keeps no values alive. ``node`` made the tensor as its output number ``output_nr``.
    """

    __slots__ = ()
    node: Node
    output_nr: int
    ownership_token: object


def get_gradient_edge(tensor):
    """The `GradientEdge` of a tensor that requires a gradient.

    Raises
    ------
    RuntimeError
        The tensor requires none.
    """
    return GradientEdge(*_core.edge_of(tensor))


class saved_tensors_hooks:
    """Hands what is saved for backward inside ``with saved_tensors_hooks(pack_hook, unpack_hook):`` to a pair of hooks.

    ``pack_hook(tensor)`` is called when an operation saves a tensor, and may return anything; ``unpack_hook(that)`` is
    called whenever the tensor is needed again, and returns a tensor of the same values. Hooks belong to a thread; the
    innermost pair is the one in force. With hooks, changes of the saved tensor in place are not detected.

    Raises
    ------
    RuntimeError
        The pack hook changed its argument in place; or hooks are disabled.
    TypeError
        The unpack hook returned something else than a tensor.
    """

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self):
        _core.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc):
        _core.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved in the memory of the CPU, until the backward pass needs it.

    Parameters
    ----------
    pin_memory : bool
        Whether that memory is page-locked, so that devices copy to it and from it on their own.

    Raises
    ------
    RuntimeError
        `pin_memory` asks for memory that an accelerator can read directly, without one.
    """

    def __init__(self, pin_memory=False, device_type="cuda"):
        if pin_memory and cuda.why_not() is not None:
            raise RuntimeError(f"save_on_cpu(pin_memory=True) needs an accelerator ({device_type!r}); there is none")

        def pack(tensor):
            if not pin_memory:
                return tensor.device, tensor.cpu()
            kept = _core.empty_like(tensor, device="cpu", pin_memory=True)
            kept.copy_(tensor)
            return tensor.device, kept

        super().__init__(pack, lambda packed: packed[1].to(packed[0], non_blocking=pin_memory))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message):
    """Inside, `saved_tensors_hooks` raises RuntimeError with this message; so does this, where hooks are in force."""
    before = _core.set_saved_hooks_disabled(error_message)
    try:
        yield
    finally:
        _core.set_saved_hooks_disabled(before)


def _when_all_arrived(tensors, function):
    nodes = [_core.edge_of(t)[0] for t in tensors]
    arrived = {}                         # number of the backward pass -> [gradients, how many are still to come]

    def hook_of(i):
        def hook(grad):                  # None where the pass gets to the tensor without a gradient
            number = _core.current_pass()
            if number not in arrived:
                arrived[number] = [[None] * len(tensors), sum(map(_core.will_run, nodes))]
            state = arrived[number]
            state[0][i] = grad
            state[1] -= 1
            if state[1] == 0:
                del arrived[number]
                function(state[0])

        hook.sees_none = True
        return hook

    return [t.register_hook(hook_of(i)) for i, t in enumerate(tensors)]


def _when_any_arrived(tensors, function):
    seen = {}                            # backward passes, the newest last

    def hook(grad):
        number = _core.current_pass()
        if number in seen:
            return
        seen[number] = True
        if len(seen) > 64:               # so many passes are hardly under way together
            del seen[next(iter(seen))]
        function(grad)

    return [t.register_hook(hook) for t in tensors if t.requires_grad]


class _Handle:
    """What allow_mutation_on_saved_tensors keeps in place of a saved tensor; changes to it are seen by the graph."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor


class _Mutations:
    """Copies of saved tensors, made when their memory is about to be written."""

    def __init__(self):
        self._handles = {}               # id of a storage -> handles of the saved tensors in it; these keep it alive

    def clear(self):
        """Forgets what was saved: graphs recorded so far cannot be differentiated any more."""
        for handles in self._handles.values():
            for handle in list(handles):
                handle.tensor = None
        self._handles.clear()

    def _pack(self, tensor):
        handle = _Handle(tensor)
        self._handles.setdefault(id(tensor.untyped_storage()), weakref.WeakSet()).add(handle)
        return handle

    def _unpack(self, handle):
        if handle.tensor is None:
            raise RuntimeError("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which "
                               "the graph was originally recorded.")
        return handle.tensor

    def _before_write(self, tensor):
        copies = {}
        for handle in self._handles.pop(id(tensor.untyped_storage()), ()):
            saved = handle.tensor
            key = (saved.data_ptr(), tuple(saved.shape), saved.stride(), saved.dtype)
            if key not in copies:
                copies[key] = saved.detach().clone()
            handle.tensor = copies[key]


_mutations_allowed = [False]


@contextlib.contextmanager
def allow_mutation_on_saved_tensors():
    """Inside, tensors saved for backward may be changed in place: they are copied before the write.

    The backward pass must run inside too. Yields an object whose ``clear()`` drops what was kept.

    Examples
    --------
    >>> import cygrad as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.exp()
    ...     z = y * y
    ...     _ = y.mul_(0)
    ...     z.sum().backward()
    >>> x.grad
    tensor([ 14.7781, 109.1963])
    """
    if _mutations_allowed[0]:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    mutations = _Mutations()
    _mutations_allowed[0] = True
    try:
        with saved_tensors_hooks(mutations._pack, mutations._unpack):
            _core.watch_writes(mutations._before_write)
            try:
                yield mutations
            finally:
                _core.watch_writes(None)
                mutations.clear()
    finally:
        _mutations_allowed[0] = False


class _ManyHandles:
    """Takes several hooks off together."""

    def __init__(self, handles):
        self._handles = handles

    def remove(self):
        """Removes all of them."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls a hook when the gradients of several tensors are there.

    Parameters
    ----------
    tensors : sequence of Tensor
        Each requires a gradient.
    fn : callable
        With ``mode="all"`` it receives the list of all gradients, when the last of them is there: None for a tensor
        that the backward pass does not reach. With ``mode="any"`` it receives the first gradient that is there.
    mode : {"all", "any"}

    Returns
    -------
    handle
        With ``remove()``.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    register = _when_all_arrived if mode == "all" else _when_any_arrived
    return _ManyHandles(register(tensors, fn))

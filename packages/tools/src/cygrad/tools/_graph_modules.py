"""Which module's forward made which node: noted while a model runs, by hooks and sequence numbers.

Nodes are numbered as they are made, so what a call of a module recorded are the numbers between its start and its end.
Calls nest, and so do these intervals; nothing is stored at the nodes, and the engine knows nothing of modules.
"""

from bisect import bisect_right

import cygrad
from cygrad.autograd._core import _keep_lines

__all__ = ["ModuleCalls"]


class ModuleCalls:
    """Notes, as a context manager, what each module of a model records, and the lines of the user's program.

    Parameters
    ----------
    model : Module

    Attributes
    ----------
    types : dict
        Class names by path. A path is a tuple of names, from the outermost module that was called inwards, without the
        model itself; a second call of the same module is ``name#2``.

    Raises
    ------
    TypeError
        If `model` is no module.

    Examples
    --------
    >>> import cygrad.nn as nn
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> with ModuleCalls(model) as calls:
    ...     y = model(cygrad.ones(2, 3)).sum()
    >>> calls.path_of(y.grad_fn), calls.path_of(y.grad_fn.next_functions[0][0]), calls.types
    ((), ('1',), {('0',): 'Linear', ('1',): 'ReLU'})
    """

    def __init__(self, model):
        if not hasattr(model, "named_modules") or not hasattr(model, "register_forward_pre_hook"):
            raise TypeError(f"ModuleCalls: the calls of a module's parts are noted, got a {type(model).__name__}")
        self.model = model
        self.types = {}
        self._handles = []
        self._open = []  # (path, dotted name, number at the start)
        self._counts = {}
        self._by_name = {}  # dotted name -> path of the first call
        self._owners = None  # id of a parameter -> dotted name of its module
        self._starts = []  # numbers, ascending, at which the path changes
        self._paths = []

    def __enter__(self):
        _keep_lines(1)
        for name, module in self.model.named_modules():
            before, after = self._hooks(name)
            self._handles += [
                module.register_forward_pre_hook(before, prepend=True),
                module.register_forward_hook(after, always_call=True),
            ]
        return self

    def __exit__(self, *exc):
        _keep_lines(-1)
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._open.clear()

    def path_of(self, node):
        """Return the path of the module whose call made a node; () outside of all."""
        place = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._paths[place] if place >= 0 else ()

    def path_of_parameter(self, tensor):
        """Return the path of the module that a parameter or buffer belongs to, or of the nearest around it.

        One of a module that was called several times belongs to none of the calls, but to what is around them.
        """
        if self._owners is None:
            named = [*self.model.named_parameters(), *self.model.named_buffers()]
            self._owners = {id(t): name.rpartition(".")[0] for name, t in named}
        name = self._owners.get(id(tensor), "")
        while name and name not in self._by_name:
            name = name.rpartition(".")[0]
        path = self._by_name.get(name, ())
        for depth in range(len(path)):
            if self._counts[path[:depth], path[depth]] > 1:
                return path[:depth]
        return path

    def _hooks(self, name):
        def before(module, args):
            path, parent = self._open[-1] if self._open else ((), "")
            if name:
                short = name.removeprefix(parent + ".") if parent else name
                count = self._counts[path, short] = self._counts.get((path, short), 0) + 1
                path = (*path, short if count == 1 else f"{short}#{count}")
                self.types[path] = type(module).__name__
                self._by_name.setdefault(name, path)
            self._open.append((path, name))
            self._change(path)

        def after(module, args, output):
            if self._open:  # a call that began before this was entered has no end here
                self._open.pop()
            self._change(self._open[-1][0] if self._open else ())

        return before, after

    def _change(self, path):
        self._starts.append(_next_number())
        self._paths.append(path)


def _next_number():
    """A number above those of all nodes so far, and below those to come."""
    with cygrad.enable_grad():
        return (cygrad.zeros((), requires_grad=True) * 1).grad_fn._sequence_nr()

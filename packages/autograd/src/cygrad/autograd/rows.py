"""Public forms of the op table's rare rows, and further names of operations, made at import.

Printed as compiled functions they would take their share of every build; a Python frame costs a call 0.1 us.
"""

from . import _core
from ._core import Tensor, add_methods, rare_call, rare_write

ALIASES = {}  # module of cygrad -> further name there -> function


def named(function, name, doc):
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def unary_forms(op, name, numbers):
    def function(input, *, out=None):
        return rare_call(op, name, numbers, input, None, out)

    def method(self):
        return rare_call(op, name, numbers, self)

    def in_place(self):
        return rare_write(op, name + "_", numbers, self)

    return function, method, in_place


def binary_forms(op, name, numbers):
    def function(input, other, *, out=None):
        return rare_call(op, name, numbers, input, other, out)

    def method(self, other):
        return rare_call(op, name, numbers, self, other)

    def in_place(self, other):
        return rare_write(op, name + "_", numbers, self, other)

    return function, method, in_place


def add_forms():
    """Functions into _core, beside the printed ones; methods into Tensor."""
    methods = {}
    for op, name, numbers, places, doc in _core.GENERATED_RARE:
        made = (unary_forms if len(numbers) == 1 else binary_forms)(op, name, numbers)
        function, method, in_place = (named(f, name + end, doc) for f, end in zip(made, ("", "", "_"), strict=True))
        setattr(_core, name, function)
        if "function" in places:
            _core.__all__.append(name)
        if "method" in places:
            methods[name] = method
        if "inplace" in places:
            methods[name + "_"] = in_place
    add_methods(methods)


def add_aliases():
    """Each in all forms that the operation has."""
    methods = {}
    for alias, name in _core.GENERATED_ALIASES:
        place, _, public = alias.rpartition(".")
        if place:
            ALIASES.setdefault(place, {})[public] = getattr(_core, name)
            continue
        if name in _core.__all__:
            setattr(_core, alias, getattr(_core, name))
            _core.__all__.append(alias)
        for end in ("", "_"):
            if name + end in Tensor.__dict__:
                methods[alias + end] = Tensor.__dict__[name + end]
    add_methods(methods)


add_forms()
add_aliases()

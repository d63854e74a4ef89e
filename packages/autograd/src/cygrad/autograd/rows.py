"""Gradients and public forms of the op table's rows, and further names of operations: given to the engine at import."""

from . import _core, _forms, _gradients_others, _gradients_pointwise
from ._core import Tensor, add_methods

ALIASES = {}  # module of cygrad -> further name there -> function


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


for module in (_gradients_pointwise, _gradients_others):
    _core.add_saved_fields(module.install())
WITHOUT_GRADIENT = _core.complete_rows()
_forms.install()
add_aliases()

"""What the namespace can do: the standard's inspection functions."""

import cygrad
from cygrad.storage.core import device as Device

from ._dtypes import KINDS, NAMES, default_dtype, named


class Info:
    """The answers of ``__array_namespace_info__``."""

    def capabilities(self):
        """What is supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Where arrays are made."""
        return Device("cpu")

    def default_dtypes(self, *, device=None):
        """The dtypes of what is made without naming one."""
        return {"real floating": cygrad.get_default_dtype(), "complex floating": default_dtype(complex),
                "integral": cygrad.int64, "indexing": cygrad.int64}

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes that there are, of one kind or of several."""
        if kind is None:
            return named(NAMES)
        if isinstance(kind, tuple):
            return {name: d for k in kind for name, d in self.dtypes(kind=k).items()}
        if kind not in KINDS:
            raise ValueError(f"dtypes(): the kinds are {', '.join(KINDS)}; got {kind!r}")
        return named(KINDS[kind])

    def devices(self):
        """All devices."""
        return [Device("cpu")]


def __array_namespace_info__():
    """What the namespace can do."""
    return Info()

"""Which distribution brings which part of cygrad: a missing one is named with the command that installs it."""

from importlib import import_module

PARTS = {
    "autograd": "cygrad-autograd",
    "distributions": "cygrad-nn",
    "nn": "cygrad-nn",
    "optim": "cygrad-nn",
    "serialization": "cygrad-nn",
    "utils": "cygrad-nn",
    "profiler": "cygrad-tools",
    "tools": "cygrad-tools",
}


def missing(part):
    """The error for a part that is not installed.

    Its ``name`` is the distribution's: for the name of a submodule, ``from cygrad import nn`` would drop the message.
    """
    return ModuleNotFoundError(f"cygrad.{part} is not installed: pip install {PARTS[part]}", name=PARTS[part])


def require(part):
    """Import a part on which the caller is built.

    Raises
    ------
    ModuleNotFoundError
        It is not installed; the message says how to install it.
    """
    try:
        import_module(f"cygrad.{part}")
    except ModuleNotFoundError as error:
        if error.name != f"cygrad.{part}":
            raise
        raise missing(part) from None


class MissingPart:
    """The last of all finders: nobody else found the module, so what it belongs to is not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, part = name.partition(".")
        if package == "cygrad" and part in PARTS:
            raise missing(part)

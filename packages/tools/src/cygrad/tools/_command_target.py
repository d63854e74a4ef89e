"""What ``FILE.py:NAME`` names on the command line, and the inputs that go with it."""

import runpy
import sys
from pathlib import Path

import cygrad
from cygrad.tools._cli import CommandError

__all__ = ["found", "is_module", "random_inputs"]


def found(options):
    """Return (callable or result, inputs): what the target names, with inputs of ``--input`` or of its own.

    A class of modules is made, and a function without inputs is called: it returns what is to be looked at.
    """
    thing = _named(options.target)
    cygrad.manual_seed(options.seed)
    inputs = random_inputs(options.input)
    if isinstance(thing, type) and hasattr(thing, "named_modules"):
        thing = thing()
    if inputs or is_module(thing):
        if not callable(thing):
            raise CommandError(f"{options.target} is a {type(thing).__name__}, which takes no --input")
        if not inputs:
            raise CommandError(f"{options.target} is a module: say what it takes, such as --input 4,3")
        return thing, inputs
    if not callable(thing):
        return thing, ()
    answer = thing()
    if isinstance(answer, tuple) and len(answer) == 2 and callable(answer[0]):
        function, inputs = answer
        return function, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    return answer, ()


def is_module(thing):
    return hasattr(thing, "named_modules") and not isinstance(thing, type)


def random_inputs(texts):
    """Tensors of the sizes that ``--input`` gives; CommandError for what are no sizes."""
    inputs = []
    for text in texts:
        try:
            sizes = tuple(int(word) for word in text.split(",") if word.strip())
        except ValueError:
            sizes = (-1,)
        if any(size < 0 for size in sizes):
            raise CommandError(f"--input takes sizes such as 4,3, got {text!r}")
        try:
            inputs.append(cygrad.randn(sizes))
        except (RuntimeError, TypeError) as error:  # more than there is memory, or than can be counted
            raise CommandError(f"--input {text}: {error}") from error
    return tuple(inputs)


def _named(target):
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise CommandError(f"the target is FILE.py:NAME, got {target!r}")
    path = Path(file)
    if not path.is_file():
        raise CommandError(f"there is no file {file!r}")
    sys.path.insert(0, str(path.resolve().parent))  # as for a script: its neighbours can be imported
    thing = runpy.run_path(str(path), run_name="__cygrad__")
    for part in name.split("."):
        here = thing if isinstance(thing, dict) else vars(thing) if isinstance(thing, type) else None
        if here is not None and part not in here:
            known = ", ".join(sorted(key for key in here if not key.startswith("_"))) or "nothing"
            raise CommandError(f"{file} has no {name!r}; it has {known}")
        if here is None and not hasattr(thing, part):
            raise CommandError(f"{file} has no {name!r}: a {type(thing).__name__} has no {part!r}")
        thing = here[part] if here is not None else getattr(thing, part)
    return thing

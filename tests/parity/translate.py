"""Torch's functions as functions of the library under test, found by the same path."""

import builtins
import functools
import inspect
import re
import textwrap
import types

import torch
from tensors import Lacking

import cygrad

SPACES = ("linalg", "special", "fft", "signal.windows", "nn.functional", "Tensor")


def by_path(lib, path):
    found = lib
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise Lacking(path) from None
    return found


@functools.cache
def paths():
    """Where each function of torch is found; the first path wins, so torch.add is not torch.Tensor.add."""
    found = {}
    for space in ("", *SPACES):
        owner = by_path(torch, space) if space else torch
        for name in sorted(dir(owner), key=lambda n: n.startswith("_")):      # threshold before _threshold
            value = getattr(owner, name)
            if callable(value):
                found.setdefault(id(value), f"{space}.{name}" if space else name)
    return found


def translate(f):
    """The same function of cygrad. A function written for the samples runs again, with cygrad as its torch."""
    if f is torch:
        return cygrad
    if f is None or getattr(f, "__module__", None) in ("_operator", "operator", "builtins", "math"):
        return f
    path = paths().get(id(f))
    if path is not None:
        return by_path(cygrad, path)
    if isinstance(f, functools.partial):
        return functools.partial(translate(f.func), *f.args, **f.keywords)
    if isinstance(f, types.FunctionType) and "torch/" in f.__code__.co_filename:
        return rebound(f)
    if isinstance(f, torch.nn.Module):
        made = by_path(cygrad, f"nn.{type(f).__name__}")()
        made.__dict__.update({k: v for k, v in vars(f).items() if isinstance(v, (bool, int, float, str))})
        return made
    if isinstance(f, types.ModuleType) and f.__name__.startswith("torch."):
        return by_path(cygrad, f.__name__.removeprefix("torch."))
    return f


def rebound(f):
    names = set(global_names(f.__code__))
    space = {"__builtins__": builtins}
    for name in names & f.__globals__.keys():
        space[name] = translate(f.__globals__[name])
    cells = f.__closure__ and tuple(types.CellType(translate(c.cell_contents)) for c in f.__closure__)
    made = types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, cells)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def global_names(code):
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from global_names(constant)


def spelled(f):
    """An expression for the function, in terms of ``lib``."""
    path = paths().get(id(f))
    if path:
        return f"lib.{path}"
    if getattr(f, "__module__", None) in ("_operator", "operator"):
        return f"operator.{f.__name__}"
    try:
        source = textwrap.dedent(inspect.getsource(f)).strip().removesuffix(",")
    except (OSError, TypeError):
        return repr(f)
    source = re.sub(r"^\w+=", "", source)
    return re.sub(r"\btorch\.", "lib.", f"({source})" if source.startswith("lambda") else source)

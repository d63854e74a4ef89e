"""A failure as a program: imports, tensors as literals, the call in both libraries."""

import torch
from tensors import Recipe, dtype_name, leaves, walk
from translate import spelled

HEAD = """\
import operator
from math import inf, nan

import torch

import cygrad


def wrapper_set_seed(f, *args, **kwargs):
    return f(*args, **kwargs)


def run(lib):
"""
TAIL = """

for lib in torch, cygrad:
    try:
        print(run(lib))
    except Exception as error:
        print(type(error).__name__, error)
"""


class Name:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def arguments(tree):
    """Statements that make the tensors, and the arguments as text."""
    names, bases, lines = {}, {}, []
    for i, r in enumerate(leaves(tree, Recipe)):
        names[id(r)] = f"x{i}"
        lines += r.literal(f"x{i}", bases)

    def one(x):
        if isinstance(x, Recipe):
            return Name(names[id(x)])
        if isinstance(x, torch.dtype):
            return Name(f"lib.{dtype_name(x)}")
        if isinstance(x, torch.memory_format | torch.layout):
            return Name(str(x).replace("torch.", "lib."))
        if isinstance(x, torch.Size):
            return Name(repr(tuple(x)))
        return x

    args, kwargs = walk(tree, one)
    text = ", ".join([*(repr(a) for a in args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    return lines, text


def program(lines):
    return HEAD + "".join(f"    {line}\n" for line in lines) + TAIL


def call(f, tree):
    lines, text = arguments(tree)
    function = spelled(f)
    if "\n" in function:
        lines += [f"# {line}" for line in function.splitlines()]
        function = "f"
    return program([*lines, f"return {function}({text})"])


def gradients(f, tree, order):
    lines, text = arguments(tree)
    inputs = [f"x{i}" for i, r in enumerate(leaves(tree, Recipe)) if r.requires_grad]
    if f.clone_first:
        text = text.replace("x0", "x0.clone()", 1)
    lines += [
        f"y = {spelled(f.theirs)}({text})",
        "y = [p for p in (y if isinstance(y, (tuple, list)) else [y]) if p.requires_grad]",
        "g = [lib.ones_like(p).cumsum(-1).requires_grad_() for p in y]",
        f"first = lib.autograd.grad(y, [{', '.join(inputs)}], g, create_graph={order > 1}, allow_unused=True)",
    ]
    if order > 1:
        lines += [
            "again = [p for p in first if p is not None and p.requires_grad]",
            "w = [lib.ones_like(p).cumsum(-1).detach() for p in again]",
            f"return first, lib.autograd.grad(again, [{', '.join(inputs)}, *g], w, allow_unused=True)",
        ]
    else:
        lines += ["return first"]
    return program(lines)

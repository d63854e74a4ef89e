"""Forward mode beside backward: products that must agree, for the samples that PyTorch's tests know.

With a direction t of the inputs and weights u of the results, <u, J t> in forward mode is <J^T u, t> in backward mode;
and for the gradient G = J^T u, <w, G' t> in forward over backward is what backward over backward gives.
"""

import warnings

import compare
import torch
from tensors import leaves, make, to_torch, walk

import cygrad
import cygrad.autograd.forward_ad as fw


def inner(pairs):
    """Real inner product of trees of numbers, and the size of its terms; None stands for zeros."""
    total, size = 0.0, 0.0
    for a, b in pairs:
        if a is not None and b is not None:
            a, b = (to_torch(x.detach()).to(torch.complex128) for x in (a, b))
            terms = (a.conj() * b).real.double()
            total, size = total + terms.sum().item(), size + terms.abs().sum().item()
    return total, size


def precision(tensors):
    """How well products can agree whose numbers pass through these dtypes."""
    least = min(x.element_size() // (2 if x.is_complex() else 1) for x in tensors)
    return {2: 1e-2, 4: 1e-4}.get(least, 1e-7)


def differs(forward, backward, tolerance):
    (a, size), (b, other) = forward, backward
    if a == b or b != b or abs(a) == abs(b) == float("inf"):
        return None         # NaN of backward mode is PyTorch's, which was compared: forward mode may know better
    return None if abs(a - b) <= tolerance * (1 + size + other) else f"{a} in forward mode, {b} in backward mode"


def with_tangents(args, kwargs, tangents):
    """The arguments with tangents for those that require gradients."""
    given = iter(tangents)
    return walk((args, kwargs), lambda x: fw.make_dual(x, next(given)) if is_input(x) else x)


def is_input(x):
    return isinstance(x, cygrad.Tensor) and x.requires_grad


def tangent(x):
    return fw.unpack_dual(x).tangent


def difference(f, process, tree, random_like, order):
    """What forward mode gets wrong, or None."""
    args, kwargs = make(cygrad, tree)
    inputs = [x for x in leaves((args, kwargs), cygrad.Tensor) if x.requires_grad]
    if not any(x.numel() for x in inputs):
        return None         # means of nothing are NaN, with tangents that no gradient can show
    t = [random_like(cygrad, x, 200 + i).detach() for i, x in enumerate(inputs)]
    with warnings.catch_warnings(), fw.dual_level():
        warnings.simplefilter("ignore")
        args, kwargs = with_tangents(args, kwargs, t)
        outputs = [x for x in compare.flat(process(f(*args, **kwargs))) if is_input(x)]
        if not outputs:
            return None
        u = [random_like(cygrad, x, i) for i, x in enumerate(outputs)]
        moved = [tangent(y) for y in outputs]
        if any(m is not None and m.shape != y.shape for m, y in zip(moved, outputs, strict=True)):
            return "forward mode: a tangent has another shape than its tensor"
        first = cygrad.autograd.grad(outputs, inputs, u, create_graph=order > 1, retain_graph=True, allow_unused=True)
        exact = precision(inputs + outputs)
        found = differs(inner(zip(u, moved, strict=True)), inner(zip(first, t, strict=True)), exact)
        if found or order < 2:
            return found and f"forward mode: the product is {found}"
        again = [g for g in first if g is not None and g.requires_grad]
        if not again:
            return None
        w = [random_like(cygrad, g, 300 + i).detach() for i, g in enumerate(again)]
        second = cygrad.autograd.grad(again, inputs, w, allow_unused=True)
        pairs = inner((a, tangent(g)) for a, g in zip(w, again, strict=True))
        found = differs(pairs, inner(zip(second, t, strict=True)), exact)
        return found and f"forward over backward: the product is {found}"

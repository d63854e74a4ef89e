"""Jacobians, Hessians and their products with vectors, of a function of tensors at a point."""

from . import _core
from ._core import Tensor, zeros_like
from .grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_NO_VECTOR = "The vector v can only be None if {} a single Tensor with a single element."


# ---- what users pass and get


def _as_tuple(value, what, caller):
    """(tuple of tensors, whether it was one)."""
    if isinstance(value, Tensor):
        return (value,), False
    wanted = f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but"
    if not isinstance(value, tuple):
        raise TypeError(f"{wanted} the given {what} has type {type(value)}.")
    for i, t in enumerate(value):
        if not isinstance(t, Tensor):
            raise TypeError(f"{wanted} the value at index {i} has type {type(t)}.")
    return value, True


def _given(values, was_tuple, create_graph):
    """Results as the user gets them: part of a graph only if that was asked for."""
    values = tuple(values if create_graph else (v.detach() for v in values))
    return values if was_tuple else values[0]


def _own_inputs(inputs, create_graph):
    """What the function is called with: part of the caller's graph where that goes on."""
    if not create_graph:
        return tuple(x.detach().requires_grad_() for x in inputs)
    return tuple(x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in inputs)


def _outputs(func, inputs, caller):
    return _as_tuple(func(*inputs), "outputs of the user-provided function", caller)


def _vector(v, like, caller, when_none):
    """v, one tensor for each of `like`; ones where it is None and may be."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(_NO_VECTOR.format(when_none))
        return tuple(_core.ones_like(t.detach()) for t in like)
    v, _ = _as_tuple(v, "v", caller)
    if len(v) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if a.shape != b.shape:
            where = f"Entry {i} in v has" if len(v) > 1 else "v has"
            raise RuntimeError(f"{where} invalid size: should be {b.shape} but got {a.shape}.")
    return v


# ---- strict mode


def _check_outputs(outputs):
    for i, y in enumerate(outputs):
        if not y.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                "computed in a differentiable manner from the input when running in strict mode."
            )


def _check_jacobian(grads):
    for i, g in enumerate(grads):
        if not g.requires_grad:
            _refuse_unrecorded(i)


def _refuse_unrecorded(i):
    raise RuntimeError(
        f"The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict "
        "mode when create_graph=True."
    )


def _refuse_constant(i):
    raise RuntimeError(
        "While computing the hessian, found that the jacobian of the user-provided function with respect to "
        f"input {i} is independent of the input. This is not allowed in strict mode. You should ensure that your "
        "function is twice differentiable and that the jacobian depends on the inputs (this would be violated "
        "by a linear function for example)."
    )


# ---- gradients


def _grad(outputs, inputs, weights, create_graph):
    """Gradients of the inputs, None where outputs do not depend on one; nothing is freed."""
    pairs = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    with enable_grad():
        return _core.run_grad([y for y, _ in pairs], inputs, [w for _, w in pairs], True, create_graph, True)


def _filled(grads, inputs):
    return tuple(zeros_like(x) if g is None else g for g, x in zip(grads, inputs, strict=True))


def _transposed(outputs, inputs, v, create_graph, refuse):
    """J v: gradient by u of <gradient of the outputs weighted by u, v>. `refuse`: called where an input has none."""
    us = tuple(zeros_like(y).requires_grad_() for y in outputs)
    grads = _grad(outputs, inputs, us, True)
    for i, g in enumerate(grads):
        if g is None and refuse:
            refuse(i)
    pairs = [(g, t) for g, t in zip(grads, v, strict=True) if g is not None]
    return _filled(_grad([g for g, _ in pairs], us, [t for _, t in pairs], create_graph), outputs)


# ---- products


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func` and the product of `v` with its Jacobian.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple of tensors.
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        One for each output, of its shape; may be left out for one output of one element.
    create_graph : bool
        Whether the results are part of the graph of `inputs`.
    strict : bool
        Whether an output that does not depend on an input is an error; otherwise the gradient is zeros.

    Returns
    -------
    tuple
        ``(outputs, v @ jacobian)``, the latter a tensor, or a tuple where `inputs` is one.

    Raises
    ------
    TypeError
        An input, output or vector is no tensor.
    RuntimeError
        `v` does not fit the outputs, or `strict` finds independence.
    """
    with enable_grad():
        inputs, many = _as_tuple(inputs, "inputs", "vjp")
        inputs = _own_inputs(inputs, create_graph)
        outputs, several = _outputs(func, inputs, "vjp")
        if strict:
            _check_outputs(outputs)
        v = _vector(v, outputs, "vjp", "the user-provided function returns")
    grads = _grad(outputs, inputs, v, create_graph)
    if strict:
        for i, g in enumerate(grads):
            if g is None:
                raise RuntimeError(
                    f"The output of the user-provided function is independent of input {i}. This is not allowed "
                    "in strict mode."
                )
    grads = _filled(grads, inputs)
    if strict and create_graph:
        _check_jacobian(grads)
    return _given(outputs, several, create_graph), _given(grads, many, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func` and the product of its Jacobian with `v`, found by differentiating backward mode twice.

    ``func.jvp`` and ``autograd.forward_ad`` compute it in one forward pass.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    v : Tensor or tuple of Tensor, optional
        One for each input, of its shape; may be left out for one input of one element.

    Returns
    -------
    tuple
        ``(outputs, jacobian @ v)``.
    """
    with enable_grad():
        inputs, _ = _as_tuple(inputs, "inputs", "jvp")
        v = _vector(v, inputs, "jvp", "the input to the user-provided function is")
        inputs = _own_inputs(inputs, create_graph)
        outputs, several = _outputs(func, inputs, "jvp")
        if strict:
            _check_outputs(outputs)
        refuse = _refuse_independent if strict else None
        moved = _transposed(outputs, inputs, v, create_graph, refuse)
    if strict and create_graph:
        _check_jacobian(moved)
    return _given(outputs, several, create_graph), _given(moved, several, create_graph)


def _refuse_independent(i):
    raise RuntimeError(
        f"The output of the user-provided function is independent of input {i}. This is not allowed in strict mode."
    )


def _one_value(func, inputs, caller, strict):
    """The only output, of one element, of a function whose Hessian is wanted."""
    outputs, several = _outputs(func, inputs, caller)
    if strict:
        _check_outputs(outputs)
    if several or len(outputs) != 1:
        raise RuntimeError(f"The function given to {caller} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {caller} should contain a single element")
    return outputs[0]


def _first_gradient(value, inputs, strict):
    """The gradient of a value, recorded."""
    grads = _grad([value], inputs, [None] if value.dim() == 0 else [_core.ones_like(value.detach())], True)
    if strict:
        for i, g in enumerate(grads):
            if g is None:
                _refuse_independent(i)
            if not g.requires_grad:
                _refuse_constant(i)
    return _filled(grads, inputs)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func` and the product of `v` with its Hessian.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs, create_graph, strict
        As for `vjp`.
    v : Tensor or tuple of Tensor, optional
        One for each input, of its shape; may be left out for one input of one element.

    Returns
    -------
    tuple
        ``(output, v @ hessian)``, the latter a tensor, or a tuple where `inputs` is one.
    """
    with enable_grad():
        inputs, many = _as_tuple(inputs, "inputs", "vhp")
        v = _vector(v, inputs, "vhp", "the input to the user-provided function is")
        inputs = _own_inputs(inputs, create_graph)
        value = _one_value(func, inputs, "vhp", strict)
        first = _first_gradient(value, inputs, strict)
    second = _grad(first, inputs, v, create_graph)
    if strict:
        _check_second(second)
    return _given((value,), False, create_graph), _given(_filled(second, inputs), many, create_graph)


def _check_second(grads):
    for i, g in enumerate(grads):
        if g is None:
            _refuse_constant(i)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value of `func` and the product of its Hessian with `v`, found by differentiating backward mode twice more.

    The Hessian being symmetric, `vhp` gives the same for less.

    Parameters are those of `vhp`.

    Returns
    -------
    tuple
        ``(output, hessian @ v)``, the latter a tensor, or a tuple where `inputs` is one.
    """
    with enable_grad():
        inputs, many = _as_tuple(inputs, "inputs", "hvp")
        v = _vector(v, inputs, "hvp", "the input to the user-provided function is")
        inputs = _own_inputs(inputs, create_graph)
        value = _one_value(func, inputs, "hvp", strict)
        first = _first_gradient(value, inputs, strict)
        second = _transposed(first, inputs, v, create_graph, _refuse_constant if strict else None)
    return _given((value,), False, create_graph), _given(second, many, create_graph)


# ---- whole matrices


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of `func`.

    Parameters
    ----------
    func, inputs, create_graph, strict
        As for `vjp`.
    vectorize : bool
        Whether the products that make the rows are computed all at once, by ``func.vmap``: faster, but in need of
        memory for all of them, and a backward may not do what vmap refuses.
    strategy : str
        ``"reverse-mode"``, a backward pass for each element of the outputs, or ``"forward-mode"``, a product for each
        element of the inputs, with `vectorize` only.

    Returns
    -------
    Tensor or tuple
        For each output (where there is a tuple of them) and each input (likewise) a tensor with the dimensions of the
        output, then of the input.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more '
            'outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use '
            f'"reverse-mode". Got {strategy!r}.'
        )
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
            "Please either set `strict=False` or `vectorize=False`."
        )
    with enable_grad():
        inputs, many = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _own_inputs(inputs, create_graph)
        outputs, several = _outputs(func, inputs, "jacobian")
        if strict:
            _check_outputs(outputs)
        if vectorize:
            rows = _rows_together(outputs, inputs, create_graph)
        else:
            rows = [_rows(i, y, inputs, create_graph, strict) for i, y in enumerate(outputs)]
        rows = tuple(_given(row, many, create_graph) for row in rows)
    return rows if several else rows[0]


def _rows(number, y, inputs, create_graph, strict):
    """The Jacobian of one output by each input."""
    rows = [[] for _ in inputs]
    for k in range(y.numel()):
        weight = y.new_zeros(y.shape)
        weight.view(-1)[k] = 1
        for i, g in enumerate(_grad([y], inputs, [weight], create_graph)):
            if strict and g is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {i}. This is not "
                    "allowed in strict mode."
                )
            if strict and create_graph and not g.requires_grad:
                _refuse_unrecorded(i)
            rows[i].append(zeros_like(inputs[i]) if g is None else g)
    return [
        _core.stack(r).reshape((*y.shape, *x.shape)) if r else x.new_zeros((*y.shape, *x.shape))
        for r, x in zip(rows, inputs, strict=True)
    ]


def _rows_together(outputs, inputs, create_graph):
    """The Jacobian of each output by each input, from one backward pass for all elements of the outputs."""
    from ..func._jacobian import products

    def gradients(*weights):
        return _filled(_grad(outputs, inputs, weights, create_graph), inputs)

    stacks = products(gradients, outputs)
    rows, at = [], 0
    for y in outputs:
        end = at + y.numel()
        rows.append([s[at:end].reshape((*y.shape, *x.shape)) for s, x in zip(stacks, inputs, strict=True)])
        at = end
    return rows


def _jacobian_forward(func, inputs, create_graph, strict, vectorize):
    from ..func import jacfwd

    together = "are not supported together (yet). Please either set"
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` '
            f'{together} `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` '
            f'{together} `strict=False` or `strategy="reverse-mode"`.'
        )
    _need_vectorize(vectorize)
    inputs, many = _as_tuple(inputs, "inputs", "jacobian")
    several = True

    def checked(*xs):
        nonlocal several
        outputs, several = _outputs(func, xs, "jacobian")
        return outputs

    rows = jacfwd(checked, tuple(range(len(inputs))))(*inputs)
    rows = tuple(_given(row, many, create_graph) for row in rows)
    return rows if several else rows[0]


def _need_vectorize(vectorize):
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The Hessian of `func`.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor of one element.
    inputs, create_graph, strict, vectorize
        As for `jacobian`.
    outer_jacobian_strategy : str
        How the gradient is differentiated: as the `strategy` of `jacobian`.

    Returns
    -------
    Tensor or tuple
        A tensor with the dimensions of the input twice; for a tuple of inputs a tuple of tuples.
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f'Expected strategy to be either "forward-mode" or "reverse-mode". Got {outer_jacobian_strategy!r}.'
        )
    inputs, many = _as_tuple(inputs, "inputs", "hessian")

    def gradient(*xs):
        if outer_jacobian_strategy == "forward-mode":
            xs = tuple(x.requires_grad_() for x in xs)
        value = _one_value(func, xs, "hessian", strict)
        return _first_gradient(value, xs, strict)

    result = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if many else result[0][0]

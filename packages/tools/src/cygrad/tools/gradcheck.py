"""Checking derivatives: `gradcheck` compares backward with finite differences, `gradgradcheck` does so once more.

Both judge a function at one point, given by its inputs, in double precision. The numerical side moves the inputs in
place, because a function may read them without being handed them (the parameters of a module, say), and puts every
element back whatever happens.
"""

import warnings

import numpy as np

import cygrad
from cygrad.tools import _jacobian as jacobian
from cygrad.tools import _mismatch as mismatch
from cygrad.tools._jacobian import GradcheckError

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_MAX_ENUMERATED = 1 << 20
_MAX_SHOWN = 1 << 16                     # elements of a Jacobian that fast mode still computes in full for its message


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compare the gradients that backward computes, or the tangents of forward mode, with central finite differences.

    Parameters
    ----------
    func : callable
        Takes the inputs, returns a tensor or a tuple or list of tensors. Outputs that record nothing (indices, masks)
        are not checked, unless no output records: then none may depend on an input that requires gradients.
    inputs : Tensor or sequence
        What `func` is called with. Those that require gradients are checked; they should be float64 or complex128, and
        no two of their elements may share memory.
    eps : float, default 1e-6
        Step of the finite differences.
    atol, rtol : float
        An element passes if ``|analytical - numerical| <= atol + rtol * |numerical|``.
    raise_exception : bool, default True
        If False, a failed check returns False instead of raising.
    nondet_tol : float, default 0.0
        How far two runs of the same backward may differ.
    check_undefined_grad : bool, default True
        Also check that backward copes with output gradients that are absent.
    check_grad_dtypes : bool, default False
        Also check that each gradient has the dtype of its input, and was rounded to no other on the way.
    fast_mode : bool, default False
        Compare one random projection of each Jacobian instead of all its elements: two calls of `func` for each
        input instead of two for each element. Only if the projection differs are the whole Jacobians compared, or
        where they are large, one wrong element searched for.
    check_backward_ad : bool, default True
        Check reverse mode.
    check_forward_ad : bool, default False
        Check forward mode too: the tangents of the outputs, with each element of an input moving by itself.
    check_batched_grad : bool, default False
        Also check that backward for several output gradients at once, by vmap, gives what it gives for each.
    check_batched_forward_grad : bool, default False
        Also check that forward mode along several directions at once, by vmap, gives what it gives for each.
    masked : bool, optional
        Concerns sparse layouts only; strided tensors are checked the same either way.

    Returns
    -------
    bool
        True if every check passed; False only with ``raise_exception=False``.

    Raises
    ------
    GradcheckError
        (a RuntimeError) If a check failed. For a wrong derivative the message names output, input and the worst
        elements, shows both Jacobians, and tells from the way the difference changes with `eps` whether the formula
        or the step is at fault.
    RuntimeError
        If elements of the inputs share memory, so that no element can be moved alone.
    ValueError
        If no input requires gradients.
    AssertionError
        If a check is asked for without the mode that it is part of, or no mode at all.

    Examples
    --------
    >>> x = cygrad.tensor([0.4, 1.1], dtype=cygrad.float64, requires_grad=True)
    >>> gradcheck(lambda x: x.exp().sum(), (x,))
    True
    """
    _need(check_forward_ad or check_backward_ad, "at least one of check_forward_ad or check_backward_ad to be True")
    _need(check_backward_ad or not check_batched_grad, "check_backward_ad to be True for check_batched_grad=True")
    _need(
        check_forward_ad or not check_batched_forward_grad,
        "check_forward_ad to be True for check_batched_forward_grad=True",
    )
    problem = jacobian.Problem(func, _as_tuple(inputs), eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol)
    _check_inputs(problem)
    try:
        if check_backward_ad:
            check_backward(problem, check_undefined_grad, check_grad_dtypes, fast_mode)
        if check_forward_ad:
            check_forward(problem, fast_mode)
        if check_batched_grad:
            jacobian.check_batched(problem, problem.outputs())
        if check_batched_forward_grad:
            jacobian.check_batched_forward(problem)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """Compare second derivatives, got by differentiating backward in either mode, with finite differences of the first.

    Parameters
    ----------
    func, inputs
        As for :func:`gradcheck`.
    grad_outputs : Tensor or sequence of Tensor, optional
        The gradients that the first backward starts from, one for each output that records. Drawn at random, from a
        fixed seed, if not given.
    gen_non_contig_grad_outputs : bool, default False
        Draw `grad_outputs` so that they are not contiguous.
    check_fwd_over_rev : bool, default False
        Check forward over reverse mode: the tangents of gradients.
    check_rev_over_rev : bool, default True
        Check reverse over reverse mode.
    eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, \
fast_mode, masked
        As for :func:`gradcheck`.

    Returns
    -------
    bool
        True if every check passed; False only with ``raise_exception=False``.

    Raises
    ------
    GradcheckError
        If a second derivative is wrong. In its message the outputs are the gradients of the inputs, and the inputs
        are those of `func` followed by `grad_outputs`.
    ValueError
        If no input or no output of `func` requires gradients, or `grad_outputs` does not fit the outputs.
    AssertionError
        As for :func:`gradcheck`; `check_undefined_grad` is part of reverse over reverse mode.
    """
    any_order = check_fwd_over_rev or check_rev_over_rev
    _need(any_order, "at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    for name, wanted in (("check_undefined_grad", check_undefined_grad), ("check_batched_grad", check_batched_grad)):
        _need(check_rev_over_rev or not wanted, f"check_rev_over_rev to be True for {name}=True")
    options = {"eps": eps, "atol": atol, "rtol": rtol, "nondet_tol": nondet_tol}
    problem = second_problem(func, _as_tuple(inputs), grad_outputs, gen_non_contig_grad_outputs, options, {})
    _check_inputs(problem)
    try:
        if check_rev_over_rev:
            check_backward(problem, check_undefined_grad, check_grad_dtypes, fast_mode)
        if check_fwd_over_rev:
            check_forward(problem, fast_mode)
        if check_batched_grad:
            jacobian.check_batched(problem, problem.outputs())
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def second_problem(func, inputs, grad_outputs, non_contiguous, options, input_notes):
    """Return what `gradgradcheck` checks: the first gradients as a function of the inputs and of `grad_outputs`."""
    outputs = [y for y in jacobian.outputs_of(func, inputs) if y.requires_grad]
    if not outputs:
        raise ValueError("gradgradcheck: no output of func requires gradients, so there is no backward to check")
    grad_outputs = _grad_outputs(outputs, grad_outputs, non_contiguous)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, cygrad.Tensor) and x.requires_grad]
    kept = []

    def first_gradients(*args):
        ys = [y for y in jacobian.outputs_of(func, args[: len(inputs)]) if y.requires_grad]
        grads = cygrad.autograd.grad(
            ys, [args[i] for i in checked], list(args[len(inputs) :]), create_graph=True, allow_unused=True
        )
        kept[:] = [i for i, g in zip(checked, grads, strict=True) if g is not None]
        return tuple(g for g in grads if g is not None)

    first_gradients(*inputs, *grad_outputs)
    problem = jacobian.Problem(first_gradients, (*inputs, *grad_outputs), **options)
    names = {i: input_notes.get(i, f"input {i}") for i in kept}
    problem.output_notes = {j: f"the gradient of {names[i]}" for j, i in enumerate(kept)}
    problem.input_notes = {**input_notes, **{len(inputs) + k: f"grad_output {k}" for k in range(len(grad_outputs))}}
    return problem


def _need(holds, what):
    if not holds:
        raise AssertionError("Expected " + what)


def _as_tuple(inputs):
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _grad_outputs(outputs, given, non_contiguous):
    """Return what the first backward starts from: the given gradients, or random ones, ready to be differentiated."""
    if given is None:
        rng = np.random.default_rng(0)
        return tuple(_random_like(y, rng, non_contiguous).requires_grad_() for y in outputs)
    given = _as_tuple(given)
    if len(given) != len(outputs):
        raise ValueError(
            f"gradgradcheck: {len(given)} grad_outputs given, but {len(outputs)} outputs of func require gradients"
        )
    for k, (g, y) in enumerate(zip(given, outputs, strict=True)):
        if tuple(g.shape) != tuple(y.shape):
            raise ValueError(
                f"gradgradcheck: grad_outputs[{k}] has shape {tuple(g.shape)}, "
                f"but the output it belongs to has shape {tuple(y.shape)}"
            )
    return given


def _random_like(y, rng, non_contiguous):
    whole = cygrad.stack([y, y], -1) if non_contiguous and y.ndim else y
    drawn = jacobian.tensor_of(rng.standard_normal(jacobian.memory(whole).shape), y)
    return drawn if whole is y else drawn[..., 0]


def _check_inputs(problem):
    """Refuse inputs at which finite differences mean nothing; warn where they mean little."""
    if not problem.checked:
        raise ValueError(
            f"gradcheck: none of the {len(problem.inputs)} inputs is a tensor with requires_grad=True; "
            "at least one must be"
        )
    for i in problem.checked:
        x = problem.inputs[i]
        if x.dtype not in (cygrad.float64, cygrad.complex128):
            warnings.warn(
                f"gradcheck: input {i} is {x.dtype}, which has too few digits for finite differences with "
                f"eps={problem.eps:g}; use {cygrad.complex128 if x.is_complex() else cygrad.float64}",
                UserWarning,
                stacklevel=3,
            )
        if _overlaps_itself(tuple(x.shape), tuple(x.stride())):
            raise RuntimeError(
                f"gradcheck: elements of input {i}, shape {tuple(x.shape)} with strides {tuple(x.stride())}, share "
                "memory, so none can be moved alone; pass a copy: input.detach().clone().contiguous()"
            )
    _refuse_shared_memory(problem)


def _refuse_shared_memory(problem):
    """Refuse two different inputs in the same memory: moving one would move the other."""
    tensors = [(i, x) for i, x in enumerate(problem.inputs) if isinstance(x, cygrad.Tensor)]
    arrays = {i: jacobian.memory(x) for i, x in tensors}
    for i in problem.checked:
        for k, other in tensors:
            if problem.inputs[i] is other or not np.may_share_memory(arrays[i], arrays[k]):
                continue
            if np.shares_memory(arrays[i], arrays[k]):
                raise RuntimeError(
                    f"gradcheck: inputs {i} and {k} share memory: moving one moves the other; pass a copy of one"
                )


def _overlaps_itself(shape, strides):
    """Tell whether two index tuples lead to the same element."""
    dims = sorted((abs(st), n) for n, st in zip(shape, strides, strict=True) if n > 1)
    if 0 in shape:
        return False
    reach = 0
    for stride, n in dims:
        if stride <= reach:
            break
        reach += stride * (n - 1)
    else:
        return False  # each stride steps over all that the smaller ones reach
    numel = int(np.prod([n for _, n in dims]))
    if any(stride == 0 for stride, _ in dims) or numel > _MAX_ENUMERATED:
        return True
    offsets = np.zeros(1, dtype=np.int64)
    for stride, n in dims:
        offsets = (offsets[:, None] + stride * np.arange(n)).ravel()
    return len(np.unique(offsets)) < numel


def check_backward(problem, check_undefined_grad, check_grad_dtypes, fast_mode):
    """Run all checks of reverse mode, cheapest explanation first."""
    outputs = problem.outputs()
    if not outputs:
        _check_constant(problem)
        return
    jacobian.check_gradients(problem, outputs, check_grad_dtypes)
    if fast_mode:
        _compare_projections(problem, outputs)
    else:
        _compare_jacobians(problem, outputs)
    jacobian.check_linearity(problem, outputs)
    if check_grad_dtypes:
        jacobian.check_precision(problem, outputs)
    if check_undefined_grad:
        jacobian.check_undefined(problem)


def check_forward(problem, fast_mode):
    """Compare tangents with finite differences: along each element of each input, or along one random direction."""
    rng = np.random.default_rng(3)
    for i in problem.checked:
        if fast_mode and _agree_along(problem, i, jacobian.random_direction(problem.inputs[i], rng)):
            continue
        analytical = jacobian.analytical_forward(problem, i)
        for j, numerical in enumerate(jacobian.numerical(problem, i)):
            if not problem.close(analytical[j], numerical):
                raise GradcheckError(mismatch.explain(problem, j, i, analytical[j], numerical, ", in forward mode"))


def _agree_along(problem, i, u):
    """Tell whether tangents along `u` are right; raise an error that names the worst where Jacobians would be large."""
    pairs = zip(jacobian.forward(problem, i, u), jacobian.directional(problem, i, u), strict=True)
    for j, (analytical, numerical) in enumerate(pairs):
        if problem.close(analytical, numerical):
            continue
        if analytical.size * u.size <= _MAX_SHOWN:
            return False
        worst = int(np.argmax(np.abs(analytical - numerical)))
        raise GradcheckError(
            f"Jacobian mismatch for {problem.output_name(j)} with respect to {problem.input_name(i)}, in forward mode: "
            f"along a random direction the tangent of {mismatch.element('output', problem.outputs()[j], worst)} is "
            f"{analytical.flat[worst]:.8g}, by finite differences {numerical.flat[worst]:.8g}"
        )
    return True


def _check_constant(problem):
    """With no output that records, finite differences must not see any dependence either."""
    for i in problem.checked:
        for j, numerical in enumerate(jacobian.numerical(problem, i, recorded_only=False)):
            if np.any(numerical != 0):
                raise GradcheckError(
                    f"gradcheck: no output requires gradients, yet output {j} depends on input {i}: the largest "
                    f"numerical derivative is {np.max(np.abs(numerical)):.6g}. Is the graph cut by detach or no_grad?"
                )


def _compare_jacobians(problem, outputs):
    analytical = [jacobian.analytical(problem, j, y) for j, y in enumerate(outputs)]
    for position, i in enumerate(problem.checked):
        for j, numerical in enumerate(jacobian.numerical(problem, i)):
            if not problem.close(analytical[j][position], numerical):
                raise GradcheckError(mismatch.explain(problem, j, i, analytical[j][position], numerical))


def _compare_projections(problem, outputs):
    """Compare ``v @ J @ u`` for random u and v; a difference is looked at in full before it is reported.

    Twice: one projection in some hundreds misses a wrong Jacobian by chance.
    """
    rng = np.random.default_rng(0)
    for _ in range(2):
        _compare_projection(problem, outputs, rng)


def _compare_projection(problem, outputs, rng):
    vs = [jacobian.random_direction(y, rng) for y in outputs]
    backward = [jacobian.vector_jacobian(problem, j, y, v) for j, (y, v) in enumerate(zip(outputs, vs, strict=True))]
    for position, i in enumerate(problem.checked):
        u = jacobian.random_direction(problem.inputs[i], rng)
        for j, moved in enumerate(jacobian.directional(problem, i, u)):
            numerical = float(np.sum(vs[j] * moved))
            analytical = float(np.sum(backward[j][position] * u))
            if np.isclose(analytical, numerical, rtol=problem.rtol, atol=problem.atol):
                continue
            if outputs[j].numel() * problem.inputs[i].numel() <= _MAX_SHOWN:
                _compare_jacobians(problem, outputs)
            elif (found := mismatch.explain_one(problem, j, i, vs[j], u)) is not None:
                raise GradcheckError(found)
            # what atol in each element of J can add up to
            slack = problem.atol * float(np.sum(np.abs(u)) * np.sum(np.abs(vs[j])))
            if np.isclose(analytical, numerical, rtol=problem.rtol, atol=slack):
                continue
            raise GradcheckError(
                f"gradcheck: in fast mode the random projection of the Jacobian of {problem.output_name(j)} with "
                f"respect to {problem.input_name(i)} is {analytical:.9g} by backward, {numerical:.9g} by finite "
                f"differences, although its elements agree within atol={problem.atol:g}, rtol={problem.rtol:g}. "
                "The function curves too much along the random direction for this eps; use fast_mode=False"
            )

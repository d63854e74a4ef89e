"""The two sides of a gradient check: Jacobians by finite differences and Jacobians by backward.

A Jacobian is a NumPy array with a row for each element of the output and a column for each element of the input. A
complex element counts as two, its real and its imaginary part: gradients of complex tensors are, by the convention of
backward, those of a function of both.
"""

import numpy as np

import cygrad
from cygrad.autograd import forward_ad
from cygrad.func import vmap

_ROUNDED = 1e-9                          # of a float64's 16 digits; a float32 keeps 7
_NOISE = 1e-12                           # what may be left of larger numbers that cancel


class GradcheckError(RuntimeError):
    """A derivative check failed; the message says where and by how much."""


class NotBatchedError(GradcheckError):
    """Something cannot be batched by vmap, right or wrong."""


class Problem:
    """What is checked: a function, the point, and how close is close enough.

    Attributes
    ----------
    checked : list of int
        Positions of the inputs that require gradients.
    output_notes, input_notes : dict of int to str
        What an output or input stands for, where its number alone does not say.
    """

    def __init__(self, func, inputs, *, eps, atol, rtol, nondet_tol):
        self.func = func
        self.inputs = inputs
        self.eps = eps
        self.atol = atol
        self.rtol = rtol
        self.nondet_tol = nondet_tol
        self.checked = [i for i, x in enumerate(inputs) if isinstance(x, cygrad.Tensor) and x.requires_grad]
        self.output_notes = {}
        self.input_notes = {}

    def outputs(self, recorded_only=True):
        """Run the function; return the outputs that are to be checked."""
        ys = outputs_of(self.func, self.inputs)
        return [y for y in ys if (y.requires_grad if recorded_only else y.is_floating_point() or y.is_complex())]

    def close(self, analytical, numerical):
        return bool(np.all(self.is_close(analytical, numerical)))

    def is_close(self, analytical, numerical):
        return np.isclose(analytical, numerical, rtol=self.rtol, atol=self.atol)

    def output_name(self, j):
        return _name("output", j, self.output_notes)

    def input_name(self, i):
        return _name("input", i, self.input_notes)


def _name(kind, number, notes):
    return f"{kind} {number} ({notes[number]})" if number in notes else f"{kind} {number}"


def outputs_of(func, inputs):
    """Call `func`; return its outputs as a tuple of tensors.

    Raises
    ------
    TypeError
        If something else than tensors came out.
    """
    ys = func(*inputs)
    ys = tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)
    for j, y in enumerate(ys):
        if not isinstance(y, cygrad.Tensor):
            raise TypeError(f"gradcheck: func returns tensors, but its output {j} is a {type(y).__name__}")
    return ys


def memory(t):
    """Return the elements of `t` as a NumPy array in the same memory; complex ones as pairs of numbers.

    Writing there is not seen by the version counter, so that graphs made before stay valid once the values are back.
    """
    t = t.detach()
    return (cygrad.view_as_real(t) if t.is_complex() else t).numpy()


def tensor_of(array, like):
    """Return a tensor of the dtype of `like` with the elements of `array`, which lies as its `memory` does."""
    t = cygrad.from_numpy(np.array(array, dtype=memory(like).dtype))
    return cygrad.view_as_complex(t) if like.is_complex() else t


def _values(t):
    """Copy the elements of `t`, flat and in double precision."""
    return np.array(memory(t), dtype=np.float64).ravel()


def difference(problem, array, index, step, output, recorded_only=True):
    """Evaluate all outputs, or only number `output`, with ``array[index]`` moved by `step` either way.

    Returns
    -------
    list of (ndarray, ndarray), float
        Values after the move up and down for each output, and the distance between the two points as it came out in
        the arithmetic of the input.
    """
    before = array[index]
    try:
        array[index] = before + step
        up, high = evaluate(problem, output, recorded_only), float(array[index])
        array[index] = before - step
        down, low = evaluate(problem, output, recorded_only), float(array[index])
    finally:
        array[index] = before
    if high == low:
        raise GradcheckError(f"gradcheck: eps={step:g} is lost in rounding beside an input of {float(before):g}")
    return list(zip(up, down, strict=True)), high - low


def evaluate(problem, output, recorded_only=True):
    """Run the function; copy the values of all outputs, or only of number `output`, each flat in double precision."""
    ys = problem.outputs(recorded_only)
    return [_values(y) for y in (ys if output is None else [ys[output]])]


def numerical(problem, i, recorded_only=True):
    """Return the Jacobian of each output with respect to input `i`, by central differences."""
    array = memory(problem.inputs[i])
    columns = None
    for index in np.ndindex(array.shape):
        pairs, distance = difference(problem, array, index, problem.eps, None, recorded_only)
        if columns is None:
            columns = [[] for _ in pairs]
        for column, (up, down) in zip(columns, pairs, strict=True):
            column.append((up - down) / distance)
    if columns is None:  # an input without elements
        return [np.zeros((memory(y).size, 0)) for y in problem.outputs(recorded_only)]
    return [np.stack(column, axis=1) for column in columns]


def directional(problem, i, u):
    """Return for each output its derivative along `u`, a direction in the space of input `i`, as its memory lies."""
    array = memory(problem.inputs[i])
    before = array.copy()
    try:
        array[...] = before + problem.eps * u
        up = problem.outputs()
        up = [np.array(memory(y), dtype=np.float64) for y in up]
        array[...] = before - problem.eps * u
        down = [np.array(memory(y), dtype=np.float64) for y in problem.outputs()]
    finally:
        array[...] = before
    return [(a - b) / (2 * problem.eps) for a, b in zip(up, down, strict=True)]


def random_direction(t, rng):
    """Draw a vector of length 1 in the memory's shape, none of whose elements is much smaller than the others."""
    shape = memory(t).shape
    vector = rng.uniform(0.5, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    return vector / max(float(np.sqrt(np.sum(vector * vector))), 1e-300)


def backward(problem, y, v):
    """Return ``v @ J`` for each checked input as the tensors (or None) that backward gave, starting from `v` at `y`."""
    inputs = [problem.inputs[i] for i in problem.checked]
    return cygrad.autograd.grad([y], inputs, [tensor_of(v, y)], retain_graph=True, allow_unused=True)


def vector_jacobian(problem, j, y, v):
    """Return ``v @ J`` for each checked input as an array, run twice to see that it comes out the same."""
    first, second = (_arrays(problem, backward(problem, y, v)) for _ in range(2))
    for position, i in enumerate(problem.checked):
        spread = np.abs(first[position] - second[position])
        same = np.array_equal(first[position], second[position], equal_nan=True)
        if not same and not np.all(spread <= problem.nondet_tol):
            raise GradcheckError(
                "gradcheck: backward is not deterministic: two runs from the same gradient of "
                f"{problem.output_name(j)} gave gradients of {problem.input_name(i)} that differ by up to "
                f"{np.max(spread):.3g} (nondet_tol={problem.nondet_tol:g})"
            )
    return first


def _arrays(problem, grads):
    """Copy gradients into arrays; an absent one is zero."""
    pairs = zip(problem.checked, grads, strict=True)
    return [
        np.zeros(memory(problem.inputs[i]).shape) if g is None else np.array(memory(g), dtype=np.float64)
        for i, g in pairs
    ]


def analytical(problem, j, y):
    """Return the Jacobian of output `y`, number `j`, with respect to each checked input: one backward for each row."""
    shape = memory(y).shape
    rows = [[] for _ in problem.checked]
    for index in np.ndindex(shape):
        v = np.zeros(shape)
        v[index] = 1.0
        for row, g in zip(rows, vector_jacobian(problem, j, y, v), strict=True):
            row.append(g.ravel())
    return [
        np.stack(row) if row else np.zeros((0, memory(problem.inputs[i]).size))
        for row, i in zip(rows, problem.checked, strict=True)
    ]


def check_gradients(problem, outputs, check_dtypes):
    """Check that each gradient has the shape and, if asked, the dtype of its input."""
    rng = np.random.default_rng(1)
    for j, y in enumerate(outputs):
        for i, g in zip(problem.checked, backward(problem, y, random_direction(y, rng)), strict=True):
            x = problem.inputs[i]
            if g is None:
                continue
            if tuple(g.shape) != tuple(x.shape):
                raise GradcheckError(
                    f"gradcheck: the gradient of {problem.input_name(i)} from {problem.output_name(j)} has shape "
                    f"{tuple(g.shape)}, the input has shape {tuple(x.shape)}"
                )
            if check_dtypes and g.dtype != x.dtype:
                raise GradcheckError(
                    f"gradcheck: the gradient of {problem.input_name(i)} from {problem.output_name(j)} is {g.dtype}, "
                    f"the input is {x.dtype}"
                )


def check_linearity(problem, outputs):
    """Check that what backward returns is proportional to the gradient that it is given.

    A backward that ignores its argument, or only looks at its size, gives the right rows of a Jacobian, because those
    are asked for with ones.
    """
    rng = np.random.default_rng(2)
    for j, y in enumerate(outputs):
        v = random_direction(y, rng)
        once = _arrays(problem, backward(problem, y, v))
        for factor in (-2.0, 0.0):
            scaled = _arrays(problem, backward(problem, y, factor * v))
            for position, i in enumerate(problem.checked):
                want = factor * once[position]
                slack = problem.atol + problem.nondet_tol
                if not np.allclose(scaled[position], want, rtol=problem.rtol, atol=slack, equal_nan=True):
                    raise GradcheckError(
                        f"gradcheck: the gradient of {problem.input_name(i)} is not proportional to the gradient of "
                        f"{problem.output_name(j)}: the latter times {factor:g} changes the former by another factor. "
                        "Does backward multiply by the gradient it is given?"
                    )


def check_precision(problem, outputs):
    """Check that backward keeps the digits of double precision: rounding to fewer makes a linear map visibly unlinear.

    A gradient that a Function returns in another dtype is converted by the engine, so that its dtype tells nothing.
    """
    rng = np.random.default_rng(4)
    for j, y in enumerate(outputs):
        if y.dtype not in (cygrad.float64, cygrad.complex128):
            continue
        sizes, gaps = np.zeros(len(problem.checked)), np.zeros(len(problem.checked))
        # A few numbers may be rounded to themselves, and so may their sum: the fewer there are, the more often.
        few = min(memory(problem.inputs[i]).size for i in problem.checked) <= 16
        for _ in range(16 if few else 4):
            a, b = (random_direction(y, rng) * rng.uniform(0.5, 1.5) for _ in range(2))
            parts = [_arrays(problem, backward(problem, y, v)) for v in (a, b, a + b)]
            for k, (one, other, both) in enumerate(zip(*parts, strict=True)):
                sizes[k] = max(sizes[k], np.max(np.abs(one) + np.abs(other), initial=0.0))
                gaps[k] = max(gaps[k], np.max(np.abs(one + other - both), initial=0.0))
        for i, size, gap in zip(problem.checked, sizes, gaps, strict=True):
            if problem.inputs[i].dtype in (cygrad.float64, cygrad.complex128) and gap > max(
                _ROUNDED * size, _NOISE, problem.nondet_tol
            ):
                raise GradcheckError(
                    f"gradcheck: the gradient of {problem.input_name(i)} from {problem.output_name(j)} has only about "
                    f"{max(0, round(-np.log10(gap / size)))} digits: a backward on the way computes in fewer than "
                    f"{problem.inputs[i].dtype} has, or returns a gradient of another dtype"
                )


def tangents(problem, i, tangent):
    """Return the tangent of each checked output, zeros where it has none, where input `i` has this one."""
    with forward_ad.dual_level():
        inputs = list(problem.inputs)
        inputs[i] = forward_ad.make_dual(inputs[i], tangent)
        ys = [y for y in outputs_of(problem.func, inputs) if y.requires_grad]
        found = [forward_ad.unpack_dual(y).tangent for y in ys]
        return tuple(cygrad.zeros_like(y) if t is None else t for y, t in zip(ys, found, strict=True))


def forward(problem, i, direction):
    """Return ``J @ direction`` for each checked output: its tangent where input `i` moves along `direction`."""
    x = problem.inputs[i]
    moved = tangents(problem, i, tensor_of(np.reshape(direction, memory(x).shape), x))
    return [np.array(memory(t), dtype=np.float64) for t in moved]


def analytical_forward(problem, i):
    """Return the Jacobian of each checked output with respect to input `i`: one forward pass for each column."""
    n = memory(problem.inputs[i]).size
    columns = [forward(problem, i, np.eye(n)[k]) for k in range(n)] or [forward(problem, i, np.zeros(0))]
    return [np.stack([c.ravel() for c in column], axis=1)[:, :n] for column in zip(*columns, strict=True)]


class _Undefined(cygrad.autograd.Function):
    """The identity, whose backward hands on no gradient at all."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


def check_undefined(problem):
    """Check that backward, given no gradient at all for an output, yields absent or zero gradients."""
    inputs = [problem.inputs[i] for i in problem.checked]
    count = len(problem.outputs())
    for undefined in [range(count), *([j] for j in range(count) if count > 1)]:
        ys = [_Undefined.apply(y) if j in undefined else y for j, y in enumerate(problem.outputs())]
        zeros = [cygrad.zeros(tuple(y.shape), dtype=y.dtype) for y in ys]
        which = "all outputs" if len(undefined) == count else problem.output_name(undefined[0])
        try:
            grads = cygrad.autograd.grad(ys, inputs, zeros, allow_unused=True)
        except Exception as error:
            raise GradcheckError(
                f"gradcheck: backward fails when there is no gradient for {which}: {type(error).__name__}: {error}"
            ) from error
        for i, g in zip(problem.checked, grads, strict=True):
            if g is not None and np.any(memory(g) != 0):
                raise GradcheckError(
                    f"gradcheck: with no gradient for {which} and zeros for the rest, the gradient of "
                    f"{problem.input_name(i)} must be absent or zero, but backward returned other values"
                )


def check_batched(problem, outputs):
    """Compare the gradients for several output gradients at once, by vmap, with those for one after another.

    Raises
    ------
    GradcheckError
        They differ, or a backward cannot be batched.
    """
    rng = np.random.default_rng(0)
    leaves = [problem.inputs[i] for i in problem.checked]
    for j, y in enumerate(outputs):
        rows = cygrad.stack([tensor_of(random_direction(y, rng), y) for _ in range(2)])
        options = {"retain_graph": True, "allow_unused": True}
        each = [cygrad.autograd.grad(y, leaves, row, **options) for row in rows]
        try:
            whole = cygrad.autograd.grad(y, leaves, rows, is_grads_batched=True, **options)
        except RuntimeError as error:
            raise NotBatchedError(
                f"gradcheck: the backward of {problem.output_name(j)} cannot be batched by vmap: {error}"
            ) from error
        for position, i in enumerate(problem.checked):
            if not _same_rows(problem, whole[position], [row[position] for row in each]):
                raise GradcheckError(
                    f"gradcheck: the gradient of {problem.input_name(i)} from {problem.output_name(j)} is another one "
                    "where backward runs for several output gradients at once, by vmap, than for one at a time"
                )


def check_batched_forward(problem):
    """Compare the tangents for several directions of an input at once, by vmap, with those for one after another.

    Raises
    ------
    GradcheckError
        They differ, or the function cannot be batched.
    """
    rng = np.random.default_rng(0)
    for i in problem.checked:
        x = problem.inputs[i]
        rows = cygrad.stack([tensor_of(random_direction(x, rng), x) for _ in range(2)])
        each = [tangents(problem, i, row) for row in rows]
        try:
            whole = vmap(lambda row, i=i: tangents(problem, i, row), randomness="same")(rows)
        except RuntimeError as error:
            raise NotBatchedError(
                f"gradcheck: forward mode along several directions of {problem.input_name(i)} cannot be batched by "
                f"vmap: {error}"
            ) from error
        for j, batched in enumerate(whole):
            if not _same_rows(problem, batched, [row[j] for row in each]):
                raise GradcheckError(
                    f"gradcheck: the tangent of {problem.output_name(j)} is another one where {problem.input_name(i)} "
                    "moves along several directions at once, by vmap, than along one at a time"
                )


def _same_rows(problem, batched, each):
    """Tell whether the rows of one tensor are those tensors; all may be absent."""
    if batched is None or None in each:
        return batched is None and all(g is None for g in each)
    return all(problem.close(memory(batched)[k], memory(g)) for k, g in enumerate(each))

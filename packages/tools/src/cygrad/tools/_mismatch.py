"""What a failed gradient check says: where Jacobians differ, by how much, and whether formula or step is at fault."""

import numpy as np

import cygrad
from cygrad.tools import _jacobian as jacobian

_SHOWN = 5
_REPEATS = 3
_STEPS = [10.0**-k for k in range(1, 11)]


def explain(problem, j, i, analytical, numerical, mode=""):
    """Describe in full the difference between two Jacobians of output `j` with respect to input `i`.

    Parameters
    ----------
    problem : Problem
        Where the function is evaluated again, with other steps.
    analytical, numerical : ndarray
        Jacobians of shape (elements of the output, elements of the input).
    mode : str
        How the analytical one was found, where that was not backward.

    Returns
    -------
    str
    """
    x, y = problem.inputs[i], problem.outputs()[j]
    failed = ~problem.is_close(analytical, numerical)
    excess = np.where(failed, _distance(analytical, numerical), -1.0)
    order = np.argsort(-excess, axis=None, kind="stable")[: min(_SHOWN, int(failed.sum()))]
    worst = [divmod(int(flat), numerical.shape[1]) for flat in order]
    lines = [
        f"Jacobian mismatch for {problem.output_name(j)} with respect to {problem.input_name(i)}{mode}:",
        f"  output of shape {tuple(y.shape)}, {y.dtype}; input of shape {tuple(x.shape)}, {x.dtype}; "
        f"eps={problem.eps:g}, atol={problem.atol:g}, rtol={problem.rtol:g}",
        f"  {int(failed.sum())} of {failed.size} elements differ by more than atol + rtol * |numerical|; the worst:",
        *_worst_elements(y, x, worst, analytical, numerical),
    ]
    pattern = _pattern(analytical[failed], numerical[failed])
    lines += _verdict(problem, j, i, worst[0], analytical[worst[0]], pattern)
    lines += [
        f"numerical (a row for each {_unit(y)} of the output, a column for each {_unit(x)} of the input):",
        str(cygrad.from_numpy(numerical)),
        "analytical:",
        str(cygrad.from_numpy(analytical)),
    ]
    return "\n".join(lines)


def _verdict(problem, j, i, place, analytical, pattern=""):
    """Lines that show one element with other steps, and say what that means."""
    tried = _try_steps(problem, j, i, place)
    if isinstance(tried, str):
        return ["  " + tried]
    conclusion, blames_formula = _conclude(problem, tried, analytical)
    return [*_ladder(tried, analytical), "  " + conclusion + (pattern if blames_formula else "")]


def explain_one(problem, j, i, v, u):
    """Find one element of a Jacobian that is wrong and describe it, where the whole one would take too long.

    The input is halved until one element is left, and so is the output: the half is kept whose part of ``v @ J @ u``
    differs more between backward and finite differences.

    Parameters
    ----------
    problem : Problem
    v, u : ndarray
        Directions in the spaces of output `j` and of input `i`, along which the two differ.

    Returns
    -------
    str or None
        None where the one element does not differ.
    """
    x, y = problem.inputs[i], problem.outputs()[j]
    position = problem.checked.index(i)
    gradient = jacobian.vector_jacobian(problem, j, y, v)[position]

    def input_part(part):
        numerical = float(np.sum(v * jacobian.directional(problem, i, part * u)[j]))
        return abs(float(np.sum(gradient * part * u)) - numerical)

    column = _halved(u.shape, input_part)
    one = np.zeros(u.shape)
    one.flat[column] = 1.0
    moved = jacobian.directional(problem, i, one)[j]

    def output_part(part):
        backward = jacobian.vector_jacobian(problem, j, y, part * v)[position].flat[column]
        return abs(float(backward) - float(np.sum(part * v * moved)))

    row = _halved(v.shape, output_part)
    pick = np.zeros(v.shape)
    pick.flat[row] = 1.0
    analytical = np.array([[jacobian.vector_jacobian(problem, j, y, pick)[position].flat[column]]])
    numerical = np.array([[moved.flat[row]]])
    if problem.close(analytical, numerical):
        return None
    line = _element_line(y, x, row, column, analytical[0, 0], numerical[0, 0])
    return "\n".join([
        f"Jacobian mismatch for {problem.output_name(j)} with respect to {problem.input_name(i)}:",
        f"  output of shape {tuple(y.shape)}, {y.dtype}; input of shape {tuple(x.shape)}, {x.dtype}; "
        f"eps={problem.eps:g}, atol={problem.atol:g}, rtol={problem.rtol:g}",
        "  One of the elements that differ, found by halving a random projection:",
        line,
        *_verdict(problem, j, i, (row, column), float(analytical[0, 0])),
    ])


def _halved(shape, difference):
    """Return the number of an element in a part of which `difference`, of a mask of ones, is large."""
    low, high = 0, int(np.prod(shape))
    while high - low > 1:
        middle = (low + high) // 2
        sizes = []
        for start, stop in ((low, middle), (middle, high)):
            part = np.zeros(shape)
            part.reshape(-1)[start:stop] = 1.0
            sizes.append(difference(part))
        low, high = (low, middle) if sizes[0] >= sizes[1] else (middle, high)
    return low


def _unit(t):
    return "real or imaginary part" if t.is_complex() else "element"


def _distance(a, b):
    """Return |a - b|, infinite where one of them is nan and the other is not."""
    gap = np.abs(a - b)
    return np.where(np.isnan(gap), np.inf, gap)


def element(name, t, flat):
    """Name an element of `t`, or of a complex one its real or imaginary part, by its number."""
    part = ""
    if t.is_complex():
        flat, imaginary = divmod(flat, 2)
        part = ".imag" if imaginary else ".real"
    index = np.unravel_index(flat, tuple(t.shape))
    return (f"{name}[{', '.join(str(int(k)) for k in index)}]" if index else name) + part


def _worst_elements(y, x, worst, analytical, numerical):
    for row, column in worst:
        yield _element_line(y, x, row, column, analytical[row, column], numerical[row, column])


def _element_line(y, x, row, column, a, n):
    where = f"d {element('output', y, row)} / d {element('input', x, column)}"
    return f"    {where}: numerical {n:.8g}, analytical {a:.8g}, difference {abs(a - n):.3g}"


def _pattern(analytical, numerical):
    """Name what the failing elements have in common, if anything."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = analytical / numerical
    if np.isnan(analytical).any():
        return " Some of backward's elements are nan."
    if np.all(analytical == 0):
        return " All failing elements are 0 by backward: a term is missing, or the graph is cut."
    if len(ratio) < 2 or not np.all(np.isfinite(ratio)) or np.ptp(ratio) > 1e-3 * np.abs(ratio).max():
        return ""
    factor = f"{float(np.median(ratio)):.5g}"
    if factor == "-1":
        return " All failing elements have the opposite sign by backward."
    return f" All failing elements are {factor} times what they should be by backward: a factor is wrong."


def _try_steps(problem, j, i, place):
    """Differentiate one element with steps from large to small.

    Returns
    -------
    ndarray of shape (steps, 5)
        Step, derivative by central differences, from the left, from the right, and what rounding of the output alone
        can do to the first; or a str, if the function is not the same twice.
    """
    row, column = place
    array = jacobian.memory(problem.inputs[i])
    index = np.unravel_index(column, array.shape)
    here = jacobian.evaluate(problem, j)[0]
    for _ in range(_REPEATS):
        again = jacobian.evaluate(problem, j)[0]
        if not np.array_equal(here, again, equal_nan=True):
            return (
                "func is not deterministic: calls with the same inputs gave outputs that differ by up to "
                f"{np.max(_distance(here, again)):.3g}, so that finite differences mean nothing."
            )
    last_digit = np.spacing(np.abs(jacobian.memory(problem.outputs()[j]).ravel()[row]))
    tried = []
    for step in _STEPS:
        if np.spacing(np.abs(array[index])) > step / 8:  # such a step would mostly be rounding
            break
        try:
            (pair,), distance = jacobian.difference(problem, array, index, step, j)
        except Exception:  # the function refuses what lies so far away; the mismatch is what is to be reported
            continue
        up, down = (float(values[row]) for values in pair)
        left, right = (here[row] - down) / (distance / 2), (up - here[row]) / (distance / 2)
        tried.append((step, (up - down) / distance, left, right, last_digit / distance))
    return np.array(tried).reshape(-1, 5)


def _ladder(tried, analytical):
    """Lay out what the steps gave as a table."""
    yield f"  The worst element with other steps (analytical {analytical:.8g}):"
    yield "         eps       numerical    |difference|    from the left   from the right"
    for step, central, left, right, _ in tried:
        gap = abs(central - analytical)
        yield f"    {step:8.0e}  {central:14.8g}  {gap:14.3g}  {left:15.8g}  {right:15.8g}"


def _conclude(problem, tried, analytical):
    """Tell a wrong formula from a wrong step, and both from a point without a derivative.

    Finite differences of a smooth function err by about eps**2 for large steps and by rounding / eps for small ones.
    Where neighbouring steps differ least, rounding included, their value is the derivative.

    Returns
    -------
    str, bool
        The conclusion, and whether it blames the formula.
    """
    if len(tried) < 2 or not np.all(np.isfinite(tried)):
        return "No conclusion: the function is not finite around this point, or too coarse to try other steps.", False
    steps, central, left, right, rounding = tried.T
    doubt = np.abs(np.diff(central)) + rounding[1:]
    k = int(np.argmin(doubt)) + 1
    settled, doubt = float(central[k]), float(doubt[k - 1])
    tolerance = problem.atol + problem.rtol * abs(settled)
    if doubt > max(tolerance, 1e-2 * abs(settled)):
        return "The numerical values settle at no step: the function jumps, is noisy or too coarse here.", False
    # the two sides of a smooth function come together in proportion to the step, those of a corner do not
    sides = np.abs(right - left)
    if sides[k] > max(tolerance, 1e-3 * abs(settled), 8 * rounding[k]) and sides[k] > 0.5 * sides[k - 1]:
        return (
            f"A corner: the derivative is {left[k]:.6g} from the left and {right[k]:.6g} from the right, and finite "
            "differences give the mean. Check at another point."
        ), False
    if abs(settled - analytical) <= tolerance:
        return (
            f"The step, not the formula: around eps={steps[k]:g} the numerical value settles on {settled:.8g}, which "
            "agrees with backward. Take another eps, or inputs of another size."
        ), False
    return (
        f"The formula: around eps={steps[k]:g} the numerical value settles on {settled:.8g} to within {doubt:.1g}, "
        f"and backward is off by {abs(settled - analytical):.3g} whatever the step."
    ), True

"""gradcheck never refuses a right derivative, and finds every kind of wrong one, of random functions.

CYGRAD_RANDOM_FUNCTIONS, which ``nox -s derivatives`` sets to 10000, says how many.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from random_functions import KINDS, RandomFunction, product

from cygrad.tools.gradcheck import GradcheckError, gradcheck, gradgradcheck

COUNT = int(os.environ.get("CYGRAD_RANDOM_FUNCTIONS", "300"))


def test_right_derivatives_are_never_refused():
    """Where a step crosses a corner, two elements that change places say, gradcheck says so; beside it all is well."""
    corners = 0
    for seed in range(COUNT):
        f = RandomFunction(seed)
        options = {"fast_mode": seed % 3 == 0, "check_grad_dtypes": True}
        call = lambda *x, f=f: f(product(), *x)  # noqa: E731
        try:
            assert gradcheck(call, f.inputs, **options), seed
        except GradcheckError as error:
            assert "The step, not the formula" in str(error) or "A corner" in str(error), seed
            corners += 1
            f.inputs = [(x * 1.01 + 0.003).detach().requires_grad_() for x in f.inputs]
            assert gradcheck(call, f.inputs, **options), seed
        if seed % 10 == 0:
            assert gradgradcheck(call, f.inputs, atol=1e-4), seed
    assert corners <= COUNT // 1000


def differs(f, kind):
    """Whether the spoilt derivative is far enough from the right one to be seen."""
    if kind == "non-determinism":
        return True
    pairs = zip(f.gradients(product()), f.gradients(product(kind, f.factor)), strict=True)
    if kind == "wrong dtype":
        return any(bool(((a - b).abs() > 1e-8 * a.abs().max()).any()) for a, b in pairs)
    return any(bool(((a - b).abs() > 0.02 * a.abs() + 1e-3).any()) for a, b in pairs)


@pytest.mark.parametrize("fast_mode", [False, True], ids=["full", "fast"])
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_derivatives_are_found(kind, fast_mode):
    tried = 0
    for seed in range(max(COUNT // 8, 20)):
        f = RandomFunction(seed)
        if not differs(f, kind):
            continue
        tried += 1
        options = {"fast_mode": fast_mode, "check_grad_dtypes": True}
        with pytest.raises(GradcheckError):
            gradcheck(lambda *x, f=f: f(product(kind, f.factor), *x), f.inputs, **options)
            pytest.fail(f"{kind} of random function {seed} was not seen")
    assert tried >= (5 if kind == "wrong broadcast sum" else 10)


@pytest.mark.parametrize(("kind", "fast_mode", "seed"), [
    ("factor", True, 92),                # the first projection of both Jacobians happens to be the same
    ("wrong dtype", False, 1119),        # one number, whose roundings cancel every other time
    ("wrong dtype", True, 1119),
])
def test_what_one_look_misses(kind, fast_mode, seed):
    f = RandomFunction(seed)
    assert differs(f, kind)
    with pytest.raises(GradcheckError):
        gradcheck(lambda *x: f(product(kind, f.factor), *x), f.inputs, fast_mode=fast_mode, check_grad_dtypes=True)

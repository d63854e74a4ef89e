"""``cygrad check``: gradients of a function or a module beside finite differences."""

import copy

import cygrad
from cygrad.tools._cli import CommandError
from cygrad.tools._command_target import found, is_module
from cygrad.tools.gradcheck import GradcheckError, gradcheck, gradgradcheck


def run(options):
    """Return status, answer and text."""
    function, inputs = found(options)
    if not callable(function):
        kind = type(function).__name__
        raise CommandError(
            f"{options.target} gave a {kind}: a check needs a function and its inputs. Return (function, inputs), or "
            "say what it takes, such as --input 4,3"
        )
    if is_module(function):
        function = copy.deepcopy(function).double()
    inputs = tuple(_double(x) for x in inputs)
    settings = {"eps": options.eps, "atol": options.atol, "rtol": options.rtol, "fast_mode": options.fast}
    checks = [("first derivatives", gradcheck)] + [("second derivatives", gradgradcheck)] * options.second
    answer = {"target": options.target, "inputs": [list(getattr(x, "shape", ())) for x in inputs], "checks": {}}
    lines = []
    for name, check in checks:
        try:
            check(function, inputs, **settings)
        except GradcheckError as error:
            answer["checks"][name] = {"right": False, "message": str(error)}
            lines.append(f"{name}: WRONG\n{error}")
            break
        answer["checks"][name] = {"right": True}
        lines.append(f"{name}: right")
    right = all(check["right"] for check in answer["checks"].values())
    answer["right"] = right
    return 0 if right else 1, answer, "\n".join(lines)


def _double(x):
    """Floating-point tensors in double precision, as leaves that require gradients; anything else as it is."""
    if not isinstance(x, cygrad.Tensor) or not (x.is_floating_point() or x.is_complex()):
        return x
    return x.detach().to(cygrad.complex128 if x.is_complex() else cygrad.float64).requires_grad_()

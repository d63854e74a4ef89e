"""``cygrad check``: derivatives of a function or a module beside finite differences."""

from cygrad.tools import check
from cygrad.tools._cli import CommandError, progress
from cygrad.tools._command_target import found


def run(options):
    """Return status, answer and text."""
    function, inputs = found(options)
    if not callable(function):
        kind = type(function).__name__
        raise CommandError(
            f"{options.target} gave a {kind}: a check needs a function and its inputs. Return (function, inputs), or "
            "say what it takes, such as --input 4,3"
        )
    settings = {"eps": options.eps, "atol": options.atol, "rtol": options.rtol, "second_order": options.second}
    settings["progress"] = lambda name: progress(f"{options.target}: {name} …")
    try:
        report = check(function, inputs, fast_mode=True if options.fast else None, raise_exception=False, **settings)
    except ValueError as error:              # there is nothing to differentiate by
        raise CommandError(str(error)) from None
    answer = {
        "target": options.target,
        "inputs": [list(getattr(x, "shape", ())) for x in inputs],
        "by": report.checked,
        "checks": {
            name: {"outcome": outcome, "message": message, "seconds": seconds}
            for name, outcome, message, seconds in report.results
        },
        "right": bool(report),
    }
    return 0 if report else 1, answer, str(report)

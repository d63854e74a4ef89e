"""``cygrad profile``: where the time of a script goes, by function of cygrad and by function of the user.

Python's own profiler counts the calls. Operators such as ``a + b`` are no calls to it: their time is that of the
function of the user that they stand in.
"""

import cProfile
import os
import runpy
import sys
import sysconfig
import traceback
from importlib import import_module
from pathlib import Path

from cygrad.storage import memory_stats, reset_peak
from cygrad.tools._cli import CommandError


def run(options):
    """Return status, answer and text."""
    path = Path(options.target)
    if not path.is_file():
        raise CommandError(f"there is no file {options.target!r}")
    if options.rows < 1:
        raise CommandError(f"--rows is at least 1, not {options.rows}")
    for part in ("cygrad.nn", "cygrad.optim"):  # so that loading them is no part of the script's time
        try:
            import_module(part)
        except ImportError:
            break
    profiler = cProfile.Profile()
    reset_peak()
    failure = _run_script(path, options.arguments, profiler)
    profiler.create_stats()
    if options.output:
        profiler.dump_stats(options.output)
    rows = [_row(key, value) for key, value in profiler.stats.items()]
    total = sum(row["self"] for row in rows)
    answer = {
        "script": str(path),
        "seconds": total,
        "peak_bytes": memory_stats()["peak_bytes"],
        "failed": failure,
        "cygrad": _table(rows, "cygrad", options.rows),
        "script_functions": _table(rows, "user", options.rows),
        "elsewhere_seconds": sum(row["self"] for row in rows if row["kind"] == "other"),
    }
    return 1 if failure else 0, answer, _text(answer)


def _run_script(path, arguments, profiler):
    """Run the script as ``python path arguments`` would; return the last line of its error, or None."""
    before, sys.argv = sys.argv, [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    profiler.enable()
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return None if not end.code else f"the script ended with status {end.code}"
    except BaseException as error:
        profiler.disable()
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        profiler.disable()
        sys.argv = before
        sys.path.pop(0)
    return None


_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _row(key, value):
    """One function of the profiler's table."""
    file, line, name = key
    _, calls, own, total, _ = value
    compiled = file == "~"
    ours = "cygrad" in name if compiled else f"{os.sep}cygrad{os.sep}" in file
    if ours:
        kind, shown = "cygrad", _compiled_name(name) if compiled else f"{_module_of(file)}.{name}"
    elif compiled or file.startswith(("<frozen", *_LIBRARIES)):
        kind, shown = "other", name
    else:
        kind, shown = "user", f"{os.path.basename(file)}:{line} {name}"
    return {"kind": kind, "name": shown, "calls": calls, "self": own, "total": total}


def _compiled_name(name):
    """``{built-in method cygrad.add}`` and ``{method 'sum' of 'cygrad...Tensor' objects}`` as people write them."""
    words = name.strip("{}<>").split()
    if "of" in words:
        return f"Tensor.{words[1].strip(chr(39))}"
    return words[-1].replace("cygrad.autograd._core.", "cygrad.")


def _module_of(file):
    parts = Path(file).with_suffix("").parts
    start = len(parts) - 1 - parts[::-1].index("cygrad")
    return ".".join(part for part in parts[start:] if part != "__init__")


def _table(rows, kind, most):
    """The functions of a kind that took the most time themselves; those of one name are one row."""
    found = {}
    for row in rows:
        if row["kind"] == kind:
            known = found.setdefault(row["name"], {"name": row["name"], "calls": 0, "self": 0.0, "total": 0.0})
            for field in ("calls", "self", "total"):
                known[field] += row[field]
    return sorted(found.values(), key=lambda row: -row["self"])[:most]


def _text(answer):
    total = answer["seconds"] or 1.0
    lines = [
        f"{answer['script']}: {answer['seconds']:.3f} s, at most {answer['peak_bytes'] / 2**20:.1f} MiB in tensors"
    ]
    for title, key in (("functions of cygrad", "cygrad"), ("functions of the script", "script_functions")):
        lines += ["", f"{title:<52}{'calls':>9}{'self':>11}{'share':>8}{'total':>11}"]
        for row in answer[key]:
            name = row["name"] if len(row["name"]) <= 51 else row["name"][:24] + "…" + row["name"][-26:]
            own, whole = f"{row['self'] * 1e3:.2f} ms", f"{row['total'] * 1e3:.2f} ms"
            lines.append(f"{name:<52}{row['calls']:>9}{own:>11}{row['self'] / total:>8.1%}{whole:>11}")
    lines += [
        "",
        f"Python and other libraries: {answer['elsewhere_seconds'] * 1e3:.2f} ms. Operators such as a + b are",
    ]
    lines.append("counted where they are written.")
    return "\n".join(lines)

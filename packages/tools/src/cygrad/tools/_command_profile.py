"""``cygrad profile``: where the time and memory of a script go, by operation and by module."""

import runpy
import sys
import traceback
from importlib import import_module
from pathlib import Path

from cygrad.tools._cli import CommandError
from cygrad.tools.profiler import profile

WRITERS = {".json": "export_chrome_trace", ".html": "export_flame_graph"}


def run(options):
    """Return status, answer and text."""
    path = Path(options.target)
    if not path.is_file():
        raise CommandError(f"there is no file {options.target!r}")
    if options.rows < 1:
        raise CommandError(f"--rows is at least 1, not {options.rows}")
    if options.output and Path(options.output).suffix not in WRITERS:
        raise CommandError(f"-o writes .json (a trace) or .html (a flame graph), not {options.output!r}")
    for part in ("cygrad.nn", "cygrad.optim"):  # so that loading them is no part of the script's time
        try:
            import_module(part)
        except ImportError:
            break
    with profile(profile_memory=bool(options.output or options.memory)) as prof:
        failure = _run_script(path, options.arguments)
    if options.output:
        getattr(prof, WRITERS[Path(options.output).suffix])(options.output)
    operations, modules = prof.key_averages(), prof.by_module(fold=not options.all_modules)
    answer = {
        "script": str(path),
        "seconds": prof.seconds,
        "peak_bytes": prof.peak_bytes,
        "failed": failure,
        "operations": operations.to_json()[: options.rows],
        "modules": modules.to_json()[: options.rows],
    }
    tables = [rows.table(row_limit=options.rows, limits=options.limits) for rows in (operations, modules)]
    return 1 if failure else 0, answer, "\n\n".join(tables)


def _run_script(path, arguments):
    """Run the script as ``python path arguments`` would; return the last line of its error, or None."""
    before, sys.argv = sys.argv, [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return None if not end.code else f"the script ended with status {end.code}"
    except BaseException as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        sys.argv = before
        sys.path.pop(0)
    return None

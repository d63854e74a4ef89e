"""The command ``cygrad``, also ``python -m cygrad.tools``: what it understands. Each command has a file of its own."""

import argparse
import json
import os
import sys
from contextlib import nullcontext, redirect_stdout
from importlib import import_module

__all__ = ["CommandError", "main", "progress"]

EXAMPLES = """\
examples:
  cygrad info                                        what a report of a bug needs
  cygrad check model.py:Net --input 4,3              compare its derivatives with finite differences
  cygrad graph train.py:loss -o loss.html            a page to look around in; .svg .json .mmd .dot too
  cygrad profile train.py --epochs 1                 where the time of a script goes
  cygrad bench                                       what this machine does
  cygrad convert model.pt model.safetensors          and back

exit status: 0 if all is well, 1 if a check failed or the program that was run did, 2 if the command makes no sense,
130 if it was interrupted. With --json, standard output has the answer alone: what the program prints goes to stderr.
"""

TARGET = "FILE.py:NAME: a module, its class, a function of tensors, or a function without arguments that returns "


class CommandError(Exception):
    """Something that the user gave makes no sense; the message is for them."""


def main(argv=None):
    """Run a command.

    Parameters
    ----------
    argv : list of str, optional
        Its words, `sys.argv` if not given.

    Returns
    -------
    int
        The exit status.
    """
    options = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # an encoding without µ and × is no reason to fail
    module = import_module(f"cygrad.tools._command_{options.command}")
    try:
        with redirect_stdout(sys.stderr) if options.json else nullcontext():
            status, answer, text = module.run(options)
        progress("")
        if options.json:
            print(json.dumps(answer, indent=1))
        elif text:
            print(text)
        sys.stdout.flush()
        return status
    except CommandError as error:
        return _say(options, error, 2)
    except KeyboardInterrupt:
        return _say(options, "interrupted", 130)
    except BrokenPipeError:  # whoever read the answer has seen enough, and Python's last flush must not fail either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _say(options, error, 1)


def _say(options, what, status):
    progress("")
    print(f"cygrad {options.command}: {what}", file=sys.stderr)
    return status


def progress(text):
    """Write one line, over the one before, where somebody looks; "" takes it away."""
    if sys.stderr.isatty():
        print(f"\r{text:<70}" if text else f"\r{'':70}\r", end="", file=sys.stderr, flush=True)


def parser():
    """Return the parser of all commands."""
    whole = argparse.ArgumentParser(
        prog="cygrad", description="Tools around cygrad.", epilog=EXAMPLES, formatter_class=_Plain
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="say which version this is, and end")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _command(commands, "info", "say what is installed and what the machine has", "cygrad info --json")
    check = _command(
        commands,
        "check",
        "compare derivatives with finite differences",
        "cygrad check model.py:Net --input 4,3 --second",
        f"{TARGET}(function, inputs)",
    )
    _inputs(check)
    check.add_argument("--second", action="store_true", help="second derivatives too")
    check.add_argument("--fast", action="store_true", help="random projections instead of whole Jacobians")
    check.add_argument("--eps", type=float, default=1e-6, help="step of the differences (default 1e-6)")
    check.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance (default 1e-5)")
    check.add_argument("--rtol", type=float, default=1e-3, help="relative tolerance (default 1e-3)")
    graph = _command(
        commands,
        "graph",
        "draw what autograd records",
        "cygrad graph model.py:Net --input 8,1,28,28 -o net.html",
        f"{TARGET}a tensor, or (model, inputs)",
    )
    _inputs(graph)
    graph.add_argument("-o", "--output", required=True, help="a name in .html, .svg, .json, .mmd, .dot, .gv or .onnx")
    graph.add_argument("--view", choices=("forward", "backward"), default="forward")
    graph.add_argument("--saved", action="store_true", help="draw what is saved for backward")
    graph.add_argument("--fold", action="store_true", help="make modules, and what repeats, one box each")
    graph.add_argument("--storages", action="store_true", help="say which memory tensors lie in")
    profile = _command(
        commands,
        "profile",
        "say where the time of a script goes",
        "cygrad profile train.py --epochs 1",
        "a Python script; the words after it are its arguments",
    )
    profile.add_argument("--rows", type=int, default=20, help="of each table (default 20)")
    profile.add_argument("--memory", action="store_true", help="also where memory grew, and where it was freed")
    profile.add_argument("--all-modules", action="store_true", help="a row for each of several equal blocks")
    profile.add_argument("-o", "--output", help="also write a trace for Perfetto (.json) or a flame graph (.html)")
    profile.add_argument("--limits", action="store_true", help="show rates as shares of what this machine reaches")
    profile.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    bench = _command(commands, "bench", "measure what this machine does", "cygrad bench --quick --json")
    bench.add_argument("--quick", action="store_true", help="smaller sizes, seconds in place of half a minute")
    convert = _command(
        commands,
        "convert",
        "turn a checkpoint into safetensors, or back",
        "cygrad convert model.pt model.safetensors --key model",
        "a .pt, .pth or .safetensors file",
    )
    convert.add_argument("output", help="the file to write; its suffix decides of what kind")
    convert.add_argument("--key", help="take this entry of the checkpoint, a.b for one inside another")
    return whole


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(version("cygrad-tools"))
        except PackageNotFoundError:
            parser.error("cygrad-tools is used from its source folder, and no version is installed")
        parser.exit()


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Lines of examples stay as they are."""


def _command(commands, name, summary, example, target=None):
    made = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=_Plain,
    )
    made.add_argument("--json", action="store_true", help="answer in JSON")
    if target:
        made.add_argument("target", help=target)
    return made


def _inputs(command):
    command.add_argument(
        "--input",
        action="append",
        metavar="SIZES",
        default=[],
        help="an input of random numbers of these sizes, such as 4,3; once for each (a number: --input '')",
    )
    command.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")

"""Call everything public with ugly arguments: ``python tests/bad_input/bad_input.py [NAME ...]``.

Whatever the arguments, a call ends: with a result that lies inside its memory, or with an error that PyTorch's users
know, and then no argument has changed. Each call runs in a process of its own, so a crash or a hang is a finding with a
program. Names may be patterns (``'cygrad.linalg.*'``). The calls of a run depend on ``--seed`` only.
"""

import argparse
import fnmatch
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from arguments import programs
from child import verdicts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from targets import targets

MOST = 3            # kinds of fault looked for in one target


def findings(target, seed, examples):
    """Faults of one target, each with a program, a small one if it can be made: kind -> (details, program)."""
    calls = drawn(target, seed, examples)
    faults = {}
    for said, program in zip(verdicts(calls), calls, strict=True):
        kind, _, details = (said or "").partition(":")
        if kind and len(faults) < MOST and kind not in faults:
            faults[kind] = details, program
    return {k: found if k == "hangs" else smallest(target, seed, examples, k) or found for k, found in faults.items()}


def strategy(target, seed, examples, phases):
    """Decorators of a function to which hypothesis gives programs."""
    def decorate(f):
        limits = settings(max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck),
                          phases=phases, report_multiple_bugs=False, print_blob=False)
        return hypothesis_seed(seed)(limits(given(programs(target))(f)))

    return decorate


def drawn(target, seed, examples):
    made = []
    strategy(target, seed, examples, [Phase.generate])(lambda program: made.append(program))()
    return made


def smallest(target, seed, examples, kind):
    """The smallest program that hypothesis finds for a kind of fault."""
    last = []

    def one(program):
        said = verdicts([program])[0] or ""
        if said.startswith(kind + ":"):
            last[:] = said.partition(":")[2], program
            raise AssertionError(kind)

    try:
        strategy(target, seed, examples, [Phase.generate, Phase.shrink])(one)()
    except AssertionError:
        return tuple(last)
    return None


def chosen(patterns):
    every = targets()
    if not patterns:
        return list(every.values())
    names_ = [n for n in every if any(fnmatch.fnmatchcase(n, p) or n.removeprefix("cygrad.") == p for p in patterns)]
    if not names_:
        sys.exit(f"nothing public is called {' or '.join(patterns)}")
    return [every[n] for n in names_]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="what to call: names or patterns; everything if none")
    parser.add_argument("--seed", type=int, default=0, help="where calls are drawn from; -1: a new one")
    parser.add_argument("--examples", type=int, default=60, help="calls of each")
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed < 0 else options.seed
    print(f"seed {seed}", flush=True)
    every, faulty = chosen(options.names), 0
    for n, target in enumerate(every):
        if n % 100 == 0:
            print(f"{n} of {len(every)}", file=sys.stderr, flush=True)
        faults = findings(target, seed, options.examples)
        faulty += bool(faults)
        for kind, (details, program) in faults.items():
            print(f"{target.path} {kind}:{details}\n    {program}", flush=True)
    print(f"{len(every)} callables, {options.examples} calls of each: {faulty} at fault; programs begin with the "
          "PREAMBLE of tests/bad_input/arguments.py")
    return int(faulty > 0)


if __name__ == "__main__":
    sys.exit(main())

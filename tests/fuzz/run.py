"""Random programs on cygrad and on PyTorch: ``python tests/fuzz/run.py [--programs N] [--seed S]``.

Program K of a run is drawn from the seed ``S:K``, which ``--replay S:K`` draws again. Processes share the work; what
one was running when it died or stood still is known. A program on which the libraries differ is made small and printed
as a script. ``exceptions.toml`` lists where they may.
"""

import argparse
import importlib
import json
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
import tomllib
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pair import Difference, Pair, snippet  # noqa: E402
from programs import Drawing  # noqa: E402
from shrink import shrink  # noqa: E402

BATCH = 250  # programs that a process runs before it reports
STILL = 60  # seconds without a new step after which a process hangs


def exceptions():
    """Where the libraries may differ: [(name, patterns of kind, text, program, and of text and program together)]."""
    rules = tomllib.loads((HERE / "exceptions.toml").read_text())
    return [
        (
            name,
            *(re.compile(rule.get(key, ""), re.S) for key in ("what", "shows", "program", "both")),
        )
        for name, rule in rules.items()
    ]


RULES = exceptions()


def excused(found, lines):
    """The name of the exception that a difference of a program falls under, or None."""
    text = "\n".join(lines)
    for name, what, shows, program, both in RULES:
        if (
            what.match(found.kind)
            and shows.search(str(found))
            and program.search(text)
            and both.search(f"{found}\n{text}")
        ):
            return name
    return None


def watches(seed):
    """Whether the program of a seed is looked at after every step."""
    return random.Random(f"{seed} watch").random() < 0.4


def draw_and_run(pair, seed):
    """Draws the program of a seed while running it: (lines, Difference or None)."""
    length = random.Random(f"{seed} length").choice((8, 12, 16, 24))
    pair.reset(watches(seed))
    drawing = Drawing(seed, pair.torch)
    program = []
    for k in range(length):
        program.append(drawing.line())
        if (found := pair.step(program[-1], last=k == length - 1)) is not None:
            return program, found
        if pair.over:
            break
    return program, None


def small(pair, seed, program, found, budget=1500):
    """The program made smaller: (lines, Difference), failing in the same way."""
    last = None

    def fails(candidate):
        nonlocal last
        try:
            now = pair.run(candidate, watches(seed))
        except SyntaxError:
            return False
        if now is None or now.sort != found.sort or excused(now, candidate):
            return False
        last = now
        return True

    if not fails(program):
        return program, found  # only failed after the programs before it
    program = shrink(program, fails, budget)
    fails(program)
    return program, last


def batch(run, first, count, place, budget):
    """A process: programs first .. first + count - 1 of a run. `place` is a file that always says what it is doing."""
    file = os.open(place, os.O_RDWR)

    def tell(what, k, side):
        os.pwrite(file, f"{what} {k} {side}".ljust(80).encode(), 0)

    pair, result = Pair(), {"programs": 0, "steps": 0, "excused": {}, "failures": []}
    kinds = set()
    for k in range(first, first + count):
        pair.on_step = partial(tell, "run", k)
        seed = f"{run}:{k}"
        program, found = draw_and_run(pair, seed)
        result["programs"] += 1
        result["steps"] += len(program)
        if found is None:
            continue
        name = excused(found, program)
        if name is None and not watches(seed) and (closer := pair.run(program)) is not None:
            name = excused(closer, program)  # the first step that differs, when each is looked at
        if name is not None:
            result["excused"][name] = result["excused"].get(name, 0) + 1
            continue
        if budget and found.kind not in kinds:
            kinds.add(found.kind)
            pair.on_step = partial(tell, "shrink", k)
            program, found = small(pair, seed, program, found, budget)
        result["failures"].append(
            {"seed": seed, "program": program, "what": found.what, "kind": found.kind, "text": str(found)}
        )
    tell("done", k, "")
    return result


class Worker:
    """A process that runs one batch; the result comes through a pipe."""

    def __init__(self, options, first, count, budget, place):
        self.first, self.count, self.budget, self.place = first, count, budget, place
        place.write_bytes(b"start".ljust(80))
        self.here, there = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=self.work, args=(options, there), daemon=True)
        self.process.start()
        there.close()
        self.seen, self.since = b"", time.monotonic()

    def work(self, options, there):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        there.send(json.dumps(batch(options.seed, self.first, self.count, self.place, self.budget)))

    def doing(self):
        """(what, number of the program, library) of the last note."""
        what, k, side = [*self.place.read_bytes()[:80].decode().split(), "", "", ""][:3]
        return what, int(k) if k else self.first, side

    def answer(self):
        """The result; None while there is none; or (how it ended, number of the program, library)."""
        if self.here.poll():
            try:
                text = self.here.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                return f"ends with {how}", *self.doing()
            self.process.join()
            return json.loads(text)
        now = self.place.read_bytes()
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        elif time.monotonic() - self.since > STILL:
            self.process.kill()
            self.process.join()
            return f"stands still for {STILL} s", *self.doing()
        return None


def in_child(work):
    """Whether work() ends the child process that runs it."""
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            signal.alarm(STILL)
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def lines_of(seed):
    """The lines of a program up to where it ends the process: drawn in a child that writes each one down."""
    with tempfile.TemporaryFile("w+") as file:

        def work():
            pair = Pair()
            step = pair.step

            def noted(line, last=False):
                print(line, file=file, flush=True)
                return step(line, last)

            pair.step = noted
            draw_and_run(pair, seed)

        in_child(work)
        file.seek(0)
        return file.read().splitlines()


def ends_process(program, watch):
    return in_child(lambda: Pair().run(program, watch))


class Run:
    """All batches of a run, and what they found."""

    def __init__(self, options):
        self.options = options
        for library in ("torch", "cygrad"):  # once, for all the processes that fork off; nothing runs here
            importlib.import_module(library)
        self.folder = Path(os.environ.get("TMPDIR", "/tmp"), f"cygrad-fuzz-{os.getpid()}")
        self.folder.mkdir()
        self.programs = self.steps = 0
        self.excused, self.kinds = {}, {}
        budget = options.budget * options.shrink
        self.queue = [(k, min(BATCH, options.programs - k), budget) for k in range(0, options.programs, BATCH)][::-1]
        self.started = self.told = time.monotonic()

    def all(self):
        places = [self.folder / f"{i}" for i in range(self.options.jobs)]
        workers = {}
        try:
            while self.queue or workers:
                for place in places:
                    if place not in workers and self.queue:
                        workers[place] = Worker(self.options, *self.queue.pop(), place)
                for place, worker in list(workers.items()):
                    if (answer := worker.answer()) is not None:
                        del workers[place]
                        self.take(answer, worker)
                time.sleep(0.02)
                if time.monotonic() - self.told > 30:
                    self.tell()
        finally:
            for worker in workers.values():
                worker.process.kill()
            for place in places:
                place.unlink(missing_ok=True)
            self.folder.rmdir()

    def tell(self):
        self.told = time.monotonic()
        print(
            f"  {self.programs} programs, {self.steps} steps, {self.told - self.started:.0f} s, "
            f"{len(self.kinds)} kinds of failure",
            flush=True,
        )

    def take(self, answer, worker):
        if isinstance(answer, dict):
            self.programs += answer["programs"]
            self.steps += answer["steps"]
            for name, count in answer["excused"].items():
                self.excused[name] = self.excused.get(name, 0) + count
            for failure in answer["failures"]:
                self.failed(failure)
            return
        how, what, k, side = answer
        if what == "shrink":
            self.queue.append((k, 1, 0))  # something smaller ends the process: as drawn, then
        elif side != "torch":
            seed = f"{self.options.seed}:{k}"
            program = lines_of(seed)
            if worker.budget and ends_process(program, watches(seed)):
                program = shrink(program, lambda c: ends_process(c, watches(seed)), 100)
            line = program[-1] if program else ""
            found = Difference(len(program), line, "process", "finished", how)
            self.failed({"seed": seed, "program": program, "what": "process", "kind": found.kind, "text": str(found)})
        else:
            self.excused[f"{side} {how}"] = self.excused.get(f"{side} {how}", 0) + 1
        self.programs += what != "shrink"
        for first, end in ((worker.first, k), (k + 1, worker.first + worker.count)):  # what it had found died with it
            if first < end:
                self.queue.append((first, end - first, worker.budget))

    def failed(self, failure):
        kind = failure["kind"]
        if kind in self.kinds:
            self.kinds[kind][0] += 1
            return
        self.kinds[kind] = [1, failure]
        if self.options.quiet:
            return
        print(f"\nFAILED {failure['seed']}: {failure['text']}\n")
        print("\n".join(f"    {line}" for line in snippet(failure["program"]).splitlines()), flush=True)


def replay(seed):
    """One program, drawn again, made small and printed."""
    pair = Pair()
    program, found = draw_and_run(pair, seed)
    print("\n".join(program))
    if found is None:
        print("no difference")
        return 0
    print(f"\n{found}\n{excused(found, program) or ''}")
    program, found = small(pair, seed, program, found)
    print(f"\n{snippet(program)}\n\n{found}\n{excused(found, program) or ''}")
    return 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, help="where the programs are drawn from (default: a new one)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--replay", metavar="S:K", help="draw and run one program again")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="print failures as drawn")
    parser.add_argument("--budget", type=int, default=1500, help="trials to make a failure small")
    parser.add_argument("--quiet", action="store_true", help="print only the table of failures")
    parser.add_argument("--report", type=Path, help="write failures to this .json file")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    if options.seed is None:
        options.seed = random.randrange(2**31)
    print(f"seed {options.seed}", flush=True)
    run = Run(options)
    run.all()
    run.tell()
    for name, count in sorted(run.excused.items()):
        print(f"  {count} x accepted: {name}")
    for kind, (count, failure) in sorted(run.kinds.items(), key=lambda item: -item[1][0]):
        print(f"  {count} x {failure['seed']} {kind}")
    if options.report:
        options.report.write_text(json.dumps([f | {"count": n} for n, f in run.kinds.values()], indent=1))
    return int(bool(run.kinds))


if __name__ == "__main__":
    sys.exit(main())

"""What only a GPU can show, in one run of less than six minutes: build, times, and results compared with the CPU's.

From the checkout, on a machine with a GPU, nvcc and Python's headers::

    python benchmarks/cuda_check.py --json cuda_check.jsonl

Stock image ``nvidia/cuda:13.0.*-devel-ubuntu24.04``, which has neither Python nor pip::

    apt-get update && apt-get install -y python3-dev python3-venv g++ && python3 -m venv env
    env/bin/pip install setuptools Cython numpy scipy-openblas32 nvidia-cublas nvidia-cudnn-cu13 torch pytest
    env/bin/python benchmarks/cuda_check.py

Without a network: wheels of what may be missing are fetched before, for the other machine's Python, and carried along.
cygrad is not imported without scipy-openblas32 and numpy, not built without setuptools >= 77 and Cython >= 3.1 (where
they are, or are carried, nothing is looked for on an index); expecttest is for PyTorch's samples::

    pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 \\
        --platform manylinux_2_17_x86_64 -d wheels scipy-openblas32 setuptools Cython expecttest
    python benchmarks/cuda_check.py --wheels wheels

It builds into a folder of its own, unless ``--no-build`` says that cygrad is installed with CUDA already. Then each
part runs in a process of its own with a limit, those of times first and alone: a wrong address ends every later call of
its process, and a crash or a hang takes no other part along. A part that ended too early goes on behind the item at
which it did; at the end what failed is tried again with CUDA_LAUNCH_BLOCKING=1 (and under compute-sanitizer, where it
is), so that the guilty kernel is named. Each result is a line of ``--json`` as soon as it is there. PyTorch, CuPy and
pytest are used where they can be imported.

The script itself is tried without a GPU where cygrad was built with ``CYGRAD_CUDA=host``; times then mean nothing::

    CYGRAD_CUDA_HOST=1 python benchmarks/cuda_check.py --no-build --tiny
"""

import argparse
import faulthandler
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("storage", "autograd", "nn")
BUILD_NEEDS = {"setuptools": (77,), "Cython": (3, 1)}  # as in the packages' pyproject.toml
DEAD = 3  # exit status of a part after which its process cannot use the device any more
RESTARTS = 4


class Part(NamedTuple):
    module: str
    limit: int  # seconds
    alone: bool = False  # nothing else may run, since it is timed


PARTS = {
    "versions": Part("cuda_times", 30, True),
    "smoke": Part("cuda_times", 30, True),
    "kernels": Part("cuda_times", 60, True),
    "launch": Part("cuda_times", 20, True),
    "gpt": Part("cuda_times", 60, True),
    "matrices": Part("cuda_times", 30, True),
    "more_kernels": Part("cuda_times", 50, True),
    "training": Part("cuda_uses", 60),
    "rows": Part("cuda_parts", 60),
    "elementwise": Part("cuda_parts", 90),
    "integers": Part("cuda_parts", 60),
    "reductions": Part("cuda_parts", 60),
    "lines": Part("cuda_parts", 60),
    "order": Part("cuda_parts", 60),
    "indices": Part("cuda_parts", 60),
    "products": Part("cuda_parts", 60),
    "convolutions": Part("cuda_parts", 60),
    "random": Part("cuda_uses", 30),
    "optimizers": Part("cuda_uses", 30),
    "streams": Part("cuda_uses", 30),
    "memory": Part("cuda_uses", 30),
    "sharing": Part("cuda_uses", 30),
    "large": Part("cuda_uses", 60),
    "tests": Part("cuda_uses", 150),
    "samples": Part("cuda_uses", 120),
}
HIDDEN = {"faults": Part("cuda_uses", 60)}  # fails, crashes and hangs on purpose, for the test


class Skip(Exception):
    """What an item needs is not there."""


class Report:
    """What a part found: lines on the screen and in the file, as soon as they are there."""

    def __init__(self, part, path, attempt=0, after="", only="", tiny=False, size=0, seconds=0.0, item_seconds=0):
        self.part, self.path, self.attempt, self.after, self.tiny, self.size = part, path, attempt, after, tiny, size
        self.only = set(json.loads(only)) if only else None
        self.item_seconds, self.end = item_seconds, time.monotonic() + (seconds or 1e9)
        self.counts = {"ok": 0, "failed": 0, "skipped": 0, "late": 0}

    def write(self, **facts):
        line = json.dumps({"part": self.part, "attempt": self.attempt, **facts}, default=str)
        with open(self.path, "a") as file:
            file.write(line + "\n")

    def say(self, text):
        print(f"{self.part}: {text}", flush=True)

    def skip(self, why):
        raise Skip(why)

    def figure(self, name, text, **facts):
        """Something measured, which is neither right nor wrong."""
        self.say(text)
        self.write(figure=name, text=text, **facts)

    def item(self, name, call, *args, limit=30):
        """Call and count; the result, or None where it failed or is not called for. A hang ends the process."""
        if self.after:
            self.after = "" if self.after == name else self.after
            return None
        if self.only is not None and name not in self.only:
            return None
        if time.monotonic() > self.end - 2:
            self.counts["late"] += 1
            self.write(item=name, status="late")
            return None
        self.write(item=name, status="begun")
        limit = min(self.item_seconds or limit, max(1.0, self.end - time.monotonic()))
        faulthandler.dump_traceback_later(limit, exit=True)
        try:
            result, status, what = call(*args), "ok", ""
        except Skip as error:
            result, status, what = None, "skipped", str(error)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:600]
            what = f"{type(error).__name__}: {text} ({Path(place.filename).name}:{place.lineno})"
            result, status = None, "failed"
        dead = status == "failed" and not usable()
        faulthandler.cancel_dump_traceback_later()
        self.counts[status] += 1
        self.write(item=name, status=status, what=what, dead=dead)
        if what:
            self.say(f"{'FAILED ' if status == 'failed' else ''}{name}: {what}")
        if dead:
            self.say(f"after {name} this process cannot use the device any more")
            sys.exit(DEAD)
        return result

    def finish(self):
        found = ", ".join(f"{n} {what}" for what, n in self.counts.items() if n or what in ("ok", "failed"))
        self.say(found + (": no time was left for some" if self.counts["late"] else ""))


def usable():
    """Whether the device still answers; after a wrong address it does not."""
    cygrad = sys.modules.get("cygrad")
    try:
        return cygrad is None or cygrad.ones(2, device="cuda").add(1).tolist() == [2, 2]
    except Exception:
        return False


def run_part(options):
    """The child's side."""
    faulthandler.enable()
    report = Report(options.part, options.json, options.attempt, options.after, options.only, options.tiny,
                    options.size, options.seconds, options.item_seconds)  # fmt: skip
    module = import_module((PARTS | HIDDEN)[options.part].module)
    getattr(module, options.part)(report)
    report.finish()
    sys.stdout.flush()
    os._exit(0)  # whatever the libraries do at the end of a process is no part of this


# ---- the parent


def say(text):
    print(text, flush=True)


def kill(process):
    """End a process and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Checks:
    """Starts a process for each part, and reads what they wrote."""

    def __init__(self, options, environment):
        self.options, self.environment, self.path = options, environment, options.json
        self.end = time.monotonic() + options.seconds
        self.attempts, self.lock, self.ended, self.running = 0, threading.Lock(), {}, set()
        signal.signal(signal.SIGTERM, self.give_up)

    def left(self):
        return self.end - time.monotonic()

    def give_up(self, *_):
        """Ended from outside: children do not stay behind."""
        for process in list(self.running):
            kill(process)
        say("ended from outside")
        os._exit(1)

    def write(self, **facts):
        with open(self.path, "a") as file:
            file.write(json.dumps(facts) + "\n")

    def records(self, **wanted):
        found = []
        for line in Path(self.path).read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
            except ValueError:  # of a process that was killed while it wrote
                continue
            if all(record.get(k) == v for k, v in wanted.items()):
                found.append(record)
        return found

    def execute(self, command, limit, environment=None, **options):
        """The exit status; None where the limit was reached. All processes of the command are gone afterwards."""
        process = subprocess.Popen(command, env=environment or self.environment, process_group=0, **options)
        self.running.add(process)
        try:
            return process.wait(max(limit, 1))
        except subprocess.TimeoutExpired:
            return None
        finally:
            kill(process)
            process.wait()
            self.running.discard(process)

    def start(self, name, before=(), environment=(), **more):
        """Run a part once: its exit status, the item it stood at (""), and the number of its attempt."""
        with self.lock:
            self.attempts += 1
            attempt = self.attempts
        limit = min(self.options.part_seconds or (PARTS | HIDDEN)[name].limit, self.left() - 1)
        command = [
            *before,
            sys.executable,
            "-u",
            __file__,
            "--part",
            name,
            "--json",
            self.path,
            "--attempt",
            attempt,
            "--seconds",
            limit,
            "--item-seconds",
            self.options.item_seconds,
            "--size",
            self.options.size,
        ]
        command += ["--tiny"] * self.options.tiny
        for key, value in more.items():
            command.append(f"--{key}={value}")
        status = self.execute([str(word) for word in command], limit + 3, self.environment | dict(environment))
        seen = self.records(part=name, attempt=attempt)
        items = {r["item"]: r for r in seen if "item" in r}
        guilty = [item for item, r in items.items() if r["status"] == "begun" or r.get("dead")]
        return status, guilty[-1] if guilty else "", attempt

    def part(self, name):
        """A part, again behind an item that ended its process."""
        after, tried = "", 0
        begun = time.monotonic()
        while True:
            if self.left() < 6:
                say(f"{name}: no time is left" + (f" for what comes after {after}" if after else ""))
                self.ended[name] = "no time was left"
                return
            status, item, attempt = self.start(name, **({"after": after} if after else {}))
            if status == 0:
                self.ended.setdefault(name, f"{time.monotonic() - begun:.0f} s")
                return
            how = f"ended with status {status}"
            if status is None or (status == 1 and item):  # the part's limit, or the item's
                how = "did not end in time"
            elif status < 0:
                how = f"ended by {signal.Signals(-status).name}"
            self.ended[name] = how + (f" at {item}" if item else "")
            say(f"{name}: {self.ended[name]}")
            if status != DEAD:
                what = {"item": item or "(before its first item)", "status": "failed", "what": how}
                self.write(part=name, attempt=attempt, **what)
            tried += 1
            if not item or tried > RESTARTS:
                return
            after = item

    def repeat(self):
        """What failed, once more with waits behind each launch; under compute-sanitizer what ended its process."""
        failed = {}
        for r in self.records(status="failed"):
            if r["item"].startswith("("):
                continue
            lost = r.get("dead") or not r["what"].split(":")[0].isidentifier()
            failed.setdefault(r["part"], {})[r["item"]] = lost
        for name, items in failed.items():
            if self.left() < 15:
                say("no time is left to try again what failed")
                return
            say(f"{name}: once more with CUDA_LAUNCH_BLOCKING=1: {', '.join(items)}")
            self.start(name, environment={"CUDA_LAUNCH_BLOCKING": "1"}, only=json.dumps(list(items)))
        sanitizer = shutil.which("compute-sanitizer")
        for name, items in failed.items():
            lost = [item for item, ended in items.items() if ended]
            if sanitizer and lost and self.left() > 30:
                say(f"{name}: under compute-sanitizer: {lost[0]}")
                self.start(name, before=[sanitizer, "--tool", "memcheck"], only=json.dumps(lost[:1]))

    def run(self):
        wanted = [n for n in PARTS if re.search(self.options.parts, n)]
        wanted += [n for n in HIDDEN if n == self.options.parts]
        known = PARTS | HIDDEN
        for name in [n for n in wanted if known[n].alone]:
            self.part(name)
        cores = len(os.sched_getaffinity(0))
        jobs = self.options.jobs or max(1, min(6, cores // 2))
        self.environment.setdefault("OMP_NUM_THREADS", str(max(1, cores // jobs)))
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self.part, [n for n in wanted if not known[n].alone]))
        first = self.attempts
        self.repeat()
        return self.summary(wanted, first)

    def summary(self, wanted, first):
        """The table that is read first; the exit status: 1 after failures, 2 where something was not tried."""
        say("\n---- summary")
        failed = [r for r in self.records(status="failed") if r["attempt"] <= first]
        for name in wanted:
            last = {r["item"]: r["status"] for r in self.records(part=name) if "item" in r and r["attempt"] <= first}
            counts = ", ".join(f"{list(last.values()).count(s)} {s}" for s in ("ok", "failed", "skipped", "late")
                               if s in last.values())  # fmt: skip
            say(f"{name}: {counts or 'nothing'}; {self.ended.get(name, 'not run')}")
        for r in self.records():
            if "aim" in r:
                say(f"{'met   ' if r['met'] else 'MISSED'} {r['text']}")
        for r in failed[:30]:
            say(f"FAILED {r['part']}: {r['item']}: {r['what'][:240]}")
        missed = [r for r in self.records() if "aim" in r and not r["met"]]
        late = [n for n in wanted if self.ended.get(n) == "no time was left" or self.records(part=n, status="late")]
        say(f"parts without time: {', '.join(late) or 'none'}\naims missed: {len(missed)}\nfailures: {len(failed)}")
        return 1 if failed else 2 if late else 0


# ---- building


def is_there(name, least=()):
    """Whether a module can be imported by a process like this one, in this version at least."""
    code = f"import {name}; print({name}.__version__)" if least else f"import {name}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and tuple(map(int, re.findall(r"\d+", done.stdout)[: len(least)])) >= least


def build(checks, folder, options):
    """Install the packages with CUDA, and what was carried along, into `folder`.

    All are built at once, since each waits for one long file.
    """
    begun, pip = time.monotonic(), [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install", "-q", "--no-deps", "--target", folder]
    environment = checks.environment | {"CYGRAD_CUDA": options.cuda}  # a value that was there must not win
    if options.wheels:
        carried = sorted(str(path) for path in Path(options.wheels).glob("*.whl"))
        if not carried or checks.execute([*install, "--no-index", *carried], 60, environment) != 0:
            say(f"the wheels of {options.wheels} were not installed")
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = checks.environment["PYTHONPATH"]
    if not is_there("scipy_openblas32"):  # cygrad is not imported without it: better known before
        fetch = [*install, "--retries", "0", "--timeout", "10", "scipy-openblas32"]
        if checks.execute(fetch, 60, environment) != 0:
            sys.exit("scipy-openblas32 is missing, without which cygrad is not imported: see --wheels")
    missing = [name for name, least in BUILD_NEEDS.items() if not is_there(name, least)]
    isolation = [] if missing else ["--no-build-isolation"]
    if missing:
        say(f"{' and '.join(missing)} would be fetched from an index for the build")
    wheels = Path(folder, "wheels")
    say(f"building: {', '.join(options.packages)}, CYGRAD_CUDA={options.cuda}")

    def one(name):
        place = Path(folder, "wheels", name)
        command = [*pip, "wheel", "-q", *isolation, "--no-deps", "-w", place, ROOT / "packages" / name]
        log = Path(folder, f"{name}.log")
        with open(log, "w") as file:
            status = checks.execute(command, checks.left(), environment, stdout=file, stderr=file)
        say(f"  {name}: {'built' if status == 0 else f'FAILED ({status})'}, {time.monotonic() - begun:.0f} s")
        if status != 0:
            say(log.read_text(errors="replace")[-6000:])
        return status == 0

    with ThreadPoolExecutor(len(options.packages)) as pool:
        built = list(pool.map(one, options.packages))
    checks.write(part="build", seconds=time.monotonic() - begun, ok=all(built))
    if not all(built):
        sys.exit("the build failed")
    found = sorted(str(path) for path in wheels.rglob("*.whl"))
    if checks.execute([*install, "--no-index", *found], 60, environment) != 0:
        sys.exit("what was built could not be installed")
    say(f"build: {time.monotonic() - begun:.0f} s")


def main():
    sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="cygrad is installed with CUDA already")
    parser.add_argument("--wheels", metavar="DIR", help="wheels that are installed beside cygrad")
    parser.add_argument("--json", metavar="FILE", help="a line for each result, written at once")
    parser.add_argument("--seconds", type=float, default=330.0, help="for everything, the build too (330)")
    parser.add_argument("--size", type=int, default=0, help="side of the matrices that are timed (16384: 1 GiB each)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes everywhere, for devices that are imitated")
    parser.add_argument(
        "--parts", default="", metavar="REGEX", help="only parts whose name has this: " + ", ".join(PARTS)
    )
    parser.add_argument("--jobs", type=int, default=0, help="parts at once, of those that are not timed")
    parser.add_argument("--part-seconds", type=float, default=0, help="another limit for each part")
    parser.add_argument("--item-seconds", type=float, default=0, help="another limit for each item of a part")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, help=argparse.SUPPRESS)  # to try the build's steps
    parser.add_argument("--cuda", default="1", help=argparse.SUPPRESS)
    parser.add_argument("--part", choices=[*PARTS, *HIDDEN], help=argparse.SUPPRESS)  # from here on a child's
    parser.add_argument("--attempt", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--after", default="", help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.size = options.size or (32 if options.tiny else 1 << 14)
    if options.part:
        options.json = options.json or os.devnull
        return run_part(options)
    with tempfile.TemporaryDirectory() as folder:
        options.json = os.path.abspath(options.json or Path(folder, "results.jsonl"))
        Path(options.json).write_text("")
        paths = [*([] if options.no_build else [folder]), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        checks = Checks(options, environment)
        if not options.no_build:
            build(checks, folder, options)
        return checks.run()


if __name__ == "__main__":
    sys.exit(main())

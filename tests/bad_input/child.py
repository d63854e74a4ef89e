"""One call in a process of its own: what is wrong with how it ended."""

import faulthandler
import json
import os
import resource
import select
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

from arguments import PREAMBLE

import cygrad

# What users of PyTorch know; NotImplementedError is a RuntimeError, a BufferError is what DLPack asks for, and
# PyTorch's Python code asserts what it wants of arguments.
ERRORS = (TypeError, ValueError, RuntimeError, IndexError, OverflowError, BufferError, AssertionError)
ERRORS_BY_NAME = {"__dlpack__": (AssertionError,)}          # of a stream, as PyTorch's
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
SECONDS = 120 if SANITIZED else 20
MEMORY = 2 << 30            # bytes that a call may ask for; AddressSanitizer has an option of its own for that
SHOWN = 5000                # elements up to which a result is also printed and differentiated
BEGINNING = compile(PREAMBLE, "PREAMBLE", "exec")


def verdicts(programs):
    """For each program, in order: None, or the kind of fault, a colon and details."""
    said = []
    while len(said) < len(programs):
        said += attempt(programs[len(said):])
    return said


def attempt(programs):
    """Verdicts of a child process, up to the program at which it dies or does not go on."""
    read, write = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder, "stderr")
        child = os.fork()
        if child == 0:
            os.close(read)
            isolate(folder, errors)
            try:
                for program in programs:
                    os.write(write, json.dumps(fault(program)).encode() + b"\n")
            except BaseException:
                os.write(2, traceback.format_exc().encode())
                os._exit(1)
            os._exit(0)
        os.close(write)
        said, waiting = answers(read)
        if not waiting:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        last = errors.read_text(errors="replace") if errors.exists() else ""
    if not waiting:
        said.append(f"hangs: no answer within {SECONDS} s")
    elif len(said) < len(programs):
        code = os.waitstatus_to_exitcode(status)
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        said.append(f"crashes: {died}\n{telling(last)}")
    return said


def answers(read):
    """What the child says, and whether it was worth waiting for."""
    text = b""
    with os.fdopen(read, "rb", buffering=0) as stream:
        while True:
            ready = select.select([stream], [], [], SECONDS)[0]
            part = stream.read(1 << 16) if ready else b""
            if not part:
                return [json.loads(line) for line in text.splitlines()], bool(ready)
            text += part


def telling(said):
    """The part of what a dying process printed that says where it was."""
    lines = [x for x in said.splitlines() if x.strip()]
    marks = ("ERROR: AddressSanitizer", "runtime error:", "Fatal Python error")
    starts = [n for n, x in enumerate(lines) if any(mark in x for mark in marks)]
    start = starts[0] if starts else max(0, len(lines) - 12)
    return "\n".join(lines[start:start + 12])


def isolate(folder, errors):
    os.chdir(folder)
    nothing, said = os.open(os.devnull, os.O_RDWR), os.open(errors, os.O_WRONLY | os.O_CREAT)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(said, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable(said, all_threads=False)
    warnings.simplefilter("ignore")
    if not SANITIZED:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


def fault(program):
    """What is wrong with how the call ends; None if it gives a result, or one of the errors that are in order."""
    known = {}
    exec(BEGINNING, known)
    try:
        f, args, kwargs = program.evaluate(known)
    except ERRORS:
        return None                     # an argument could not be made
    tensors = list(found(args, kwargs, getattr(f, "__self__", None)))
    before = [state(t) for t in tensors]
    try:
        result = f(*args, **kwargs)
    except ERRORS as error:
        if not program.acts_by_itself and any(s != state(t) for s, t in zip(before, tensors, strict=True)):
            return f"changes an argument: and raises {type(error).__name__}: {error}"
        return None
    except BaseException as error:
        return None if isinstance(error, ERRORS_BY_NAME.get(program.name, ())) else wrong_error(error)
    changed = any(s != state(t) for s, t in zip(before, tensors, strict=True))
    if changed and not (program.writes or program.acts_by_itself):
        return "changes an argument: though it is not in place"
    return faulty_result(result, known, program)


def wrong_error(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"raises {type(error).__name__}: {str(error)[:200]} ({Path(frame.filename).name}: {frame.name})"


def faulty_result(result, known, program):
    for x in found(result):
        if not program.acts_by_itself and outside(x):
            place = f"shape {tuple(x.shape)}, strides {x.stride()}, offset {x.storage_offset()}"
            return f"lies outside: {place} of {x.untyped_storage().nbytes()} bytes"
    try:
        if isinstance(result, known["torch"].nn.Module):
            result = result(known["a"])
        for x in found(result):
            if x.numel() <= SHOWN:
                repr(x)
                if x.requires_grad and x.grad_fn is not None:
                    x.sum().backward()
    except ERRORS:
        return None
    except BaseException as error:
        return f"afterwards {wrong_error(error)}"
    return None


def found(*roots):
    """Tensors in nested sequences and dicts; an object that is met twice is looked at once."""
    seen, left = set(), list(roots)
    while left and len(seen) < 1000:
        x = left.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, cygrad.Tensor):
            yield x
        elif isinstance(x, list | tuple):
            left.extend(x)
        elif isinstance(x, dict):
            left.extend(x.values())


def state(t):
    """All that a call without effects leaves as it is."""
    return tuple(t.shape), t.stride(), t.storage_offset(), t.dtype, t.requires_grad, bytes(t.untyped_storage())


def outside(t):
    """Whether some element lies outside the tensor's memory."""
    if hasattr(t, "materialize") or not t.numel():          # parameters without values have no size to ask for
        return False
    last = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.storage_offset() < 0 or (last + 1) * t.element_size() > t.untyped_storage().nbytes()

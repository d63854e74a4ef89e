"""``cygrad convert``: PyTorch's checkpoints to safetensors, and back."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import cygrad
from cygrad.tools._cli import CommandError, progress

_CHECKPOINTS, _WEIGHTS = (".pt", ".pth"), (".safetensors",)


def run(options):
    """Return status, answer and text."""
    kinds = [_kind(name) for name in (options.target, options.output)]
    try:
        safetensors = import_module("cygrad.utils.safetensors")
    except ImportError as error:
        raise CommandError(f"conversions need cygrad-nn and safetensors: {error}") from error
    if not Path(options.target).is_file():
        raise CommandError(f"there is no file {options.target!r}")
    if Path(options.output).exists() and Path(options.output).samefile(options.target):
        raise CommandError(f"{options.output} is the file that is read: give another name")
    progress(f"reading {options.target} …")
    try:
        whole = cygrad.load(options.target) if kinds[0] == "checkpoint" else safetensors.load_file(options.target)
    except (ValueError, RuntimeError, EOFError) as error:
        raise CommandError(f"{options.target} cannot be read: {error}") from error
    except Exception as error:  # unpickling errors and those of the safetensors library
        if isinstance(error, OSError):
            raise
        raise CommandError(f"{options.target} cannot be read: {type(error).__name__}: {error}") from error
    tensors = _tensors(_entry(whole, options.key))
    progress(f"writing {options.output} …")
    try:
        if kinds[1] == "checkpoint":
            cygrad.save(tensors, options.output)
        else:
            safetensors.save_file({name: t.contiguous() for name, t in _apart(tensors).items()}, options.output)
    except (TypeError, ValueError) as error:  # dtypes that the format does not have
        raise CommandError(f"{options.output} cannot be written: {error}") from error
    count, size = len(tensors), sum(t.numel() * t.element_size() for t in tensors.values())
    answer = {"output": options.output, "tensors": count, "bytes": size, "names": list(tensors)}
    return 0, answer, f"{options.output}: {count} tensors, {size / 2**20:.1f} MiB"


def _kind(name):
    suffix = Path(name).suffix.lower()
    if suffix in _CHECKPOINTS:
        return "checkpoint"
    if suffix in _WEIGHTS:
        return "weights"
    raise CommandError(f"names end in {', '.join(_CHECKPOINTS + _WEIGHTS)}; {name!r} does not")


def _entry(whole, key):
    """The part of a checkpoint under a key, ``a.b`` for one inside another."""
    if key is None:
        return whole
    here, left = whole, key
    while left:
        if not isinstance(here, Mapping):
            raise CommandError(f"--key {key}: {type(here).__name__} has no entries")
        # names may have dots themselves: the longest one that is there
        fit = max(
            (k for k in here if isinstance(k, str) and (left == k or left.startswith(k + "."))), key=len, default=None
        )
        if fit is None:
            raise CommandError(f"--key {key}: there is no {left!r} among {', '.join(map(str, list(here)[:12]))}")
        here, left = here[fit], left[len(fit) + 1 :]
    return here


def _tensors(state):
    """The tensors of a state by name; nested states get names with dots. CommandError for anything else in it."""
    if not isinstance(state, Mapping):
        raise CommandError(f"what is converted is a dictionary of tensors, got a {type(state).__name__}")
    found, waiting = {}, [("", state)]
    while waiting:
        prefix, part = waiting.pop(0)
        for name, value in part.items():
            if isinstance(value, cygrad.Tensor):
                found[f"{prefix}{name}"] = value.detach()
            elif isinstance(value, Mapping):
                waiting.append((f"{prefix}{name}.", value))
            else:
                raise CommandError(
                    f"{prefix}{name} is a {type(value).__name__}, weights files hold tensors alone: choose a part of "
                    "the checkpoint with --key"
                )
    return found


def _apart(tensors):
    """Tensors that share no memory: tied weights are written twice, as their file cannot say that they are one."""
    seen, apart = set(), {}
    for name, t in tensors.items():
        place = t.untyped_storage().data_ptr()
        apart[name] = t.clone() if place in seen or t.untyped_storage().nbytes() != t.numel() * t.element_size() else t
        seen.add(place)
    return apart

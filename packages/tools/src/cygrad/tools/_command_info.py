"""``cygrad info``: what is installed, and what the machine has."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import cygrad
from cygrad.storage import dispatch, memory_stats

_PACKAGES = (
    "cygrad-storage",
    "cygrad-autograd",
    "cygrad-nn",
    "cygrad-tools",
    "numpy",
    "scipy-openblas32",
    "safetensors",
)
_SETTINGS = ("CYGRAD_", "OMP_", "GOMP_", "OPENBLAS_", "MKL_", "KMP_")


def run(options):
    """Return status, answer and text."""
    answer = {
        "packages": {name: _version(name) for name in _PACKAGES},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "processor": _processor(),
        "cpus": {"of the machine": os.cpu_count(), "for this process": len(os.sched_getaffinity(0))}
        if hasattr(os, "sched_getaffinity")
        else {"of the machine": os.cpu_count()},
        "threads": cygrad.get_num_threads(),
        "instruction sets": {"used": dispatch.isa(), "available": list(dispatch.isas_available())},
        "blas": f"OpenBLAS of scipy-openblas32 {_version('scipy-openblas32')}, one thread for each item",
        "cuda": cygrad.cuda.is_available(),
        "memory": _memory() | {"of tensors": memory_stats()["live_bytes"]},
        "limits": {"open files": _open_files()},
        "default dtype": str(cygrad.get_default_dtype()).removeprefix("torch."),
        "settings": {key: value for key, value in sorted(os.environ.items()) if key.startswith(_SETTINGS)},
        "installed at": os.path.dirname(cygrad.storage.__file__),
        "executable": sys.executable,
    }
    return 0, answer, "\n".join(_lines(answer))


def _lines(answer):
    for key, value in answer.items():
        if isinstance(value, dict):
            inner = [f"{name} {_text(name, entry)}" for name, entry in value.items()] or ["none"]
            yield f"{key + ':':<18}{inner[0]}"
            yield from (f"{'':18}{line}" for line in inner[1:])
        else:
            yield f"{key + ':':<18}{_text(key, value)}"


def _text(name, value):
    if isinstance(value, bool):
        return "yes" if value else "no: cygrad computes on the CPU"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, int) and name in ("total", "available", "limit", "of tensors"):
        return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value} bytes"
    return "not there" if value is None else str(value)


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
            )
    except OSError:
        return platform.processor() or platform.machine()


def _memory():
    """Bytes of the machine, and of the container that this runs in."""
    found = {}
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            known = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
        found = {"total": known["MemTotal"], "available": known["MemAvailable"]}
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            limit = file.read().strip()
        found |= {} if limit == "max" else {"limit": int(limit)}
    except (OSError, KeyError, ValueError):
        pass
    return found


def _open_files():
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

"""How the device code of cygrad-storage is compiled, where the environment variable CYGRAD_CUDA asks for it.

``1`` compiles it with nvcc; ``host`` with the C++ compiler, kernels as loops, so that machines without a device can
test them; ``0``, the default, leaves the module out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODULE = "cygrad.storage.cuda._cuda"
MODES = ("", "0", "1", "host")
ARCHITECTURES = ("-gencode", "arch=compute_80,code=[sm_80,sm_90,compute_80]")
# -O1 is for the little that runs on the processor; ptxas optimises kernels fully whatever this says.
NVCC_OPTIONS = ("-O1", "-std=c++17", "-diag-suppress", "186", "-Xcompiler", "-fPIC", *ARCHITECTURES)
HOST_OPTIONS = ("-x", "c++", "-O0", "-w", "-std=c++17", "-fPIC", "-DCYG_HOST")


def mode() -> str:
    """What CYGRAD_CUDA asks for: "0", "1" or "host"."""
    wanted = os.environ.get("CYGRAD_CUDA", "").strip().lower()
    if wanted not in MODES:
        raise SystemExit(f"CYGRAD_CUDA={wanted!r} is not known: it is 1 (compile for CUDA with nvcc), host (imitate "
                         "a device on the processor, for tests) or 0")
    return wanted or "0"


def find_nvcc() -> str | None:
    """What NVCC names, nvcc on PATH, in CUDA_HOME or CUDA_PATH, or where the toolkit is installed; None without one."""
    if os.environ.get("NVCC"):
        return os.environ["NVCC"]
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    places = ["nvcc", *(os.path.join(home, "bin", "nvcc") for home in [*homes, "/usr/local/cuda"] if home)]
    return next(filter(None, map(shutil.which, places)), None)


def compiler() -> list[str]:
    """nvcc, or the C++ compiler, as words of a command; SystemExit where nvcc is missing."""
    if mode() == "host":
        return shlex.split(os.environ.get("CXX", "g++"))
    nvcc = find_nvcc()
    if nvcc is None:
        raise SystemExit("CYGRAD_CUDA=1 compiles for CUDA, but nvcc is missing: install the CUDA toolkit, put nvcc on "
                         "PATH or let CUDA_HOME name its folder, or leave CYGRAD_CUDA unset for a build without CUDA")
    return [nvcc]


def library_folder(nvcc: str) -> Path:
    """Where the toolkit has libcudart_static.a; nvcc on PATH may be a script elsewhere, so it is asked."""
    told = subprocess.run([nvcc, "--dryrun", "-c", "none.cu"], capture_output=True, text=True, check=False).stderr
    top = next((Path(line.partition("=")[2].strip()) for line in told.splitlines() if line.startswith("#$ TOP=")), None)
    for place in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"):
        if top is not None and (top / place / "libcudart_static.a").is_file():
            return (top / place).resolve()
    raise SystemExit(f"CYGRAD_CUDA=1: libcudart_static.a of the toolkit of {nvcc} is missing; install the development "
                     "files of CUDA's run time")


def objects(source: Path, generated: Path, build: Path, jobs: int) -> list[str]:
    """Compile every ``.cu`` of a folder whose text, or that of a header, changed; paths of the object files."""
    program = compiler()
    options = HOST_OPTIONS if mode() == "host" else NVCC_OPTIONS
    kernels = source.parent / "kernels"
    include = [f"-I{folder.as_posix()}" for folder in (source, generated, kernels)]
    headers = [*source.glob("*.cuh"), *source.glob("*.h"), *kernels.glob("*.h"), *generated.glob("cuda_*.h")]
    version = subprocess.run([*program, "--version"], capture_output=True, check=False).stdout
    common = hashlib.sha256(repr([program, version, options]).encode())
    side = ["--threads", "2"] if mode() == "1" and jobs > 8 else []  # architectures side by side, where cores are left
    for path in sorted(headers, key=lambda p: p.name):
        common.update(path.read_bytes())
    build.mkdir(parents=True, exist_ok=True)

    def compile_one(path: Path) -> str:
        target, note = build / f"{path.stem}.o", build / f"{path.stem}.stamp"
        digest = common.copy()
        digest.update(path.read_bytes())
        if not (target.is_file() and note.is_file() and note.read_text() == digest.hexdigest()):
            note.unlink(missing_ok=True)
            command = [*program, *options, *side, *include, "-c", path.as_posix(), "-o", target.as_posix()]
            subprocess.run(command, check=True)
            note.write_text(digest.hexdigest())
        return target.as_posix()

    with ThreadPoolExecutor(jobs) as pool:
        # What takes longest first: the rows, whose text is generated.
        return list(pool.map(compile_one, sorted(source.glob("*.cu"), key=lambda p: ("_rows" not in p.stem, p.name))))


def complete(extension, source: Path, generated: Path, build: Path, jobs: int) -> None:
    """Give the extension its object files, which depend on nothing of Python, and what they are linked with."""
    extension.extra_objects = objects(source, generated, build / f"cuda_{mode()}", jobs)
    extension.libraries = ["stdc++", "pthread", "dl"]
    extension.define_macros = [*extension.define_macros, ("CYGRAD_CUDA_HOST", "1" if mode() == "host" else "0")]
    if mode() == "1":
        known = " ".join(re.findall(r"(?:sm|compute)_\w+", " ".join(s.partition("code=")[2] for s in NVCC_OPTIONS)))
        extension.define_macros.append(("CYGRAD_CUDA_ARCHITECTURES", f'"{known}"'))
        extension.library_dirs = [library_folder(*compiler()).as_posix()]
        extension.libraries = ["cudart_static", *extension.libraries, "rt"]

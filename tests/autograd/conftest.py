"""Fixtures of the autograd tests.

With ``CYGRAD_TEST_BACKEND=torch`` the same tests run on PyTorch, whose behaviour they describe: that is how the tests
themselves are checked. A test that uses ``beyond_pytorch`` asks for more than PyTorch does.
"""
import importlib
import os
import signal
import subprocess
import sys
import textwrap

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")


@pytest.fixture(scope="session")
def torch():
    """The library under test."""
    return importlib.import_module(BACKEND)


@pytest.fixture(scope="session")
def backend():
    """Its name."""
    return BACKEND


@pytest.fixture(scope="session")
def leaf(torch):
    """Make a float64 leaf that requires a gradient out of numbers."""
    return lambda *numbers: torch.tensor(numbers, dtype=torch.float64, requires_grad=True)


@pytest.fixture
def check_gradients(torch):
    """Check first and second derivatives by finite differences, where the tools that do so are installed."""
    if BACKEND == "cygrad":
        pytest.importorskip("cygrad.tools")

    def check(f, *inputs):
        assert torch.autograd.gradcheck(f, inputs)
        assert torch.autograd.gradgradcheck(f, inputs)

    return check


@pytest.fixture
def beyond_pytorch():
    """Marks what PyTorch does not promise."""
    if BACKEND != "cygrad":
        pytest.skip("asks for more than PyTorch offers")


# Prints what more there is after all rounds of ``step`` than after a tenth of them: bytes resident, objects, storages.
MEASURE = """

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def counted():
    gc.collect()
    storages = torch.storage_core.memory_stats()["live_storages"] if hasattr(torch, "storage_core") else 0
    return resident(), len(gc.get_objects()), storages

try:
    import cygrad.storage.core
    torch.storage_core = cygrad.storage.core
except ImportError:
    pass
rounds = int(os.environ.get("CYGRAD_LEAK_ROUNDS", "2000"))
early = None
for i in range(rounds):
    step(i)
    if i == rounds // 10 - 1:
        early = counted()
print(*[late - soon for late, soon in zip(counted(), early)])
"""


@pytest.fixture
def growth(run_child):
    """Run ``step(i)`` of a piece of code 2,000 times (CYGRAD_LEAK_ROUNDS says otherwise) in a fresh interpreter.

    Returns how many bytes, Python objects and storages there are more at the end than after a tenth of the rounds.
    """

    def run(code):
        out = run_child("import gc\nimport os\n" + textwrap.dedent(code) + MEASURE, timeout=1200, OMP_NUM_THREADS="1")
        return tuple(int(word) for word in out.splitlines()[-1].split())

    return run


@pytest.fixture
def run_child(tmp_path):
    """Run a piece of code in a fresh interpreter and return what it printed.

    A crash or a hang of the child is an ordinary failure of the test.
    """

    def run(code, timeout=120, **environment):
        script = tmp_path / "child.py"
        script.write_text(f"import {BACKEND} as torch\n" + textwrap.dedent(code))
        env = os.environ | {"OMP_WAIT_POLICY": "passive"} | environment
        child = subprocess.Popen([sys.executable, str(script)], env=env, text=True, start_new_session=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            pytest.fail(f"the child process did not end within {timeout} s")
        assert child.returncode == 0, f"the child process ended with code {child.returncode}\n{err[-3000:]}"
        return out.strip()

    return run

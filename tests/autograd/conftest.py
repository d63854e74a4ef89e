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

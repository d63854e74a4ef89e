"""A part of the session of bad input that every test run includes; and that the session sees what it is there for."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from arguments import Program
from bad_input import drawn, findings
from child import verdicts
from targets import Parameter, Target, targets


@pytest.fixture(scope="module")
def every():
    return list(targets().values())


def test_what_is_called(every):
    paths = {t.path for t in every}
    assert {"cygrad.add", "cygrad.Tensor.add_", "cygrad.linalg.svd", "cygrad.array_api.sum",
            "cygrad.Tensor.__getitem__", "cygrad.Generator.set_state", "cygrad.UntypedStorage.resize_"} <= paths
    unknown = [t.path for t in every if not t.signatures]
    assert len(unknown) < len(every) / 20, unknown


@pytest.mark.parametrize("start", range(4))
def test_calls_of_a_few(every, start):
    for target in every[7 * start::28]:
        calls = drawn(target, 0, 10)
        for said, program in zip(verdicts(calls), calls, strict=True):
            assert said is None, f"{program}\n{said}"


def changes(x):
    return x.fill_(1)


def changes_and_raises(x):
    x.fill_(1)
    raise ValueError("too late")


def reaches_beyond(x):
    x.untyped_storage().resize_(8)
    return x


def only_matrices(x):
    return {2: x}[x.dim()]


def target(name):
    """A function of this file."""
    parameters = (Parameter("x", "Tensor", "positional", True),)
    return Target(f"__import__('sys').modules[{__name__!r}].{name}", (), (parameters,))


@pytest.mark.parametrize(("path", "inside", "said"), [
    ("cygrad.add", "a, b", "None"),
    ("cygrad.add", "a, 'b'", "None"),
    ("__import__('os').abort", "", "crashes: SIGABRT"),
    ("__import__('os')._exit", "3", "crashes: exit code 3"),
    ("__import__('time').sleep", "60", "hangs: no answer within 1 s"),
    ("{}.pop", "1", "raises KeyError: 1"),
    (target("changes").path, "a", "changes an argument: though it is not in place"),
    (target("changes_and_raises").path, "a", "changes an argument: and raises ValueError: too late"),
])
def test_what_counts_as_a_fault(path, inside, said, monkeypatch):
    monkeypatch.setattr("child.SECONDS", 1)
    assert str(verdicts([Program(path, "", inside, False)])[0]).startswith(said)


def test_a_result_outside_its_memory_is_a_fault():
    said = verdicts([Program(target("reaches_beyond").path, "", "torch.ones(3)", True)])
    assert said == ["lies outside: shape (3,), strides (1,), offset 0 of 8 bytes"]


def test_a_crash_ends_neither_the_run_nor_the_other_calls():
    calls = [Program("math.sqrt", "", "2", False), Program("__import__('os').abort", "", "", False),
             Program("math.sqrt", "", "-1", False)]
    assert [bool(said) for said in verdicts(calls)] == [False, True, False]


def test_the_program_of_a_fault_is_small():
    _, program = findings(target("only_matrices"), 0, 40)["raises KeyError"]
    assert program.inside == "a[0]"

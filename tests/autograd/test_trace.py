"""Errors about overwritten tensors name who saved, who wrote, and on request the lines of both."""

import gc
import inspect
import os
import subprocess
import sys

import pytest

import cygrad as torch
from cygrad import nn
from cygrad.autograd import trace_lines


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def fresh():
    return torch.ones(3, requires_grad=True) * 2


def error_of(loss):
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation") as caught:
        loss.sum().backward()
    return str(caught.value)


def put(x):
    x[0] = 5


def masked(x):
    x[x > 0] = 5


def through_view(x):
    x.view(3)[1:].mul_(2)


def under_no_grad(x):
    with torch.no_grad():
        x.sub_(1)


def by_optimizer(x):
    x.grad = torch.ones(3)
    torch.optim.SGD([x], lr=0.1).step()


def out_argument(x):
    with torch.no_grad():
        torch.add(torch.ones(3), 1, out=x)


WRITES = {
    "add_": lambda x: x.add_(1),
    "mul_": lambda x: x.mul_(2),
    "copy_": lambda x: x.copy_(torch.zeros(3)),
    "zero_": lambda x: x.zero_(),
    "fill_": lambda x: x.fill_(3),
    "normal_": lambda x: x.normal_(),
    "uniform_": lambda x: x.uniform_(),
    "clamp_": lambda x: x.clamp_(0, 1),
    "index_put_": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
    "index_add_": lambda x: x.index_add_(0, torch.tensor([0]), torch.ones(1)),
    "masked_fill_": lambda x: x.masked_fill_(torch.tensor([True, False, True]), 0),
    "cumsum_": lambda x: x.cumsum_(0),
    "lerp_": lambda x: x.lerp_(torch.ones(3), 0.5),
    "x[...] = value": put,
    "the custom Function Scale": Scale.apply,
}


@pytest.mark.parametrize("name", WRITES)
def test_the_error_names_what_wrote(name):
    x = fresh()
    y = x * x
    WRITES[name](x)
    text = error_of(y)
    assert "MulBackward0 saved its input" in text
    assert f"The last in-place operation on its memory was {name}." in text
    assert "CYGRAD_TRACE=1" in text


@pytest.mark.parametrize(
    ("write", "name"),
    [(masked, "x[...] = value"), (through_view, "mul_"), (under_no_grad, "sub_"), (out_argument, "a call with out="),
     (put, "x[...] = value")],
)
def test_lines_of_both(write, name):
    x = fresh()
    with trace_lines():
        y = x.exp().sum() + (x * x).sum()  # the line that saves
        write(x)
    text = error_of(y)
    assert "saved by MulBackward0 at " + __file__ in text
    assert "(x * x).sum()  # the line that saves" in text
    assert f"overwritten by {name} (version " in text
    lines, start = inspect.getsourcelines(write)
    places = [f"{__file__}:{start + i}, in {write.__name__}: {line.strip()}" for i, line in enumerate(lines)]
    assert any(place in text for place in places)
    assert "CYGRAD_TRACE" not in text


def test_lines_of_an_optimizer_step():
    w = torch.ones(3, requires_grad=True)
    with trace_lines():
        y = w * w
        by_optimizer(w)
    text = error_of(y)
    assert "overwritten by an optimizer step (version 1)" in text
    assert "torch.optim.SGD([x], lr=0.1).step() (in SGD.step)" in text


def test_lines_of_a_custom_function():
    x = fresh()
    with trace_lines():
        y = Square.apply(x)  # saves here
        x.add_(1)  # writes here
    text = error_of(y)
    assert "SquareBackward saved a torch.float32 tensor of shape [3]" in text
    assert "y = Square.apply(x)  # saves here" in text
    assert "overwritten by add_ (version 1)" in text
    assert "x.add_(1)  # writes here" in text


def test_every_write_since_is_shown_and_none_before():
    x = fresh()
    with trace_lines():
        x.mul_(3)
        y = x * x
        x.add_(1)
        x.sub_(1)
    text = error_of(y)
    assert "mul_" not in text
    assert text.index("overwritten by add_ (version 2)") < text.index("overwritten by sub_ (version 3)")


def test_writes_before_tracing_are_counted():
    x = fresh()
    y = x * x
    x.add_(1)
    with trace_lines():
        x.sub_(1)
    text = error_of(y)
    assert "(1 earlier writes: no lines were kept)" in text
    assert "saved by" not in text


def test_lines_of_another_storage_at_the_same_place_are_not_shown():
    with trace_lines():
        for _ in range(50):
            fresh().add_(1)
    for _ in range(50):
        x = fresh()
        y = x * x
        x.add_(1)
        assert "overwritten by" not in error_of(y)


def test_writes_through_data_are_not_blamed():
    x = fresh()
    y = x * x
    x.add_(1)
    x.data.mul_(2)
    assert "was add_." in error_of(y)


def test_writes_below_tensors_have_no_name():
    x = fresh()
    y = x * x
    x.add_(1)
    x.untyped_storage().fill_(0)
    assert "was an unnamed write." in error_of(y)


def test_the_public_call_is_named():
    w = torch.ones(2, 3, requires_grad=True)
    x = torch.ones(1, 3)
    with trace_lines():
        h = nn.functional.linear(x, w).sigmoid()
        nn.functional.relu(h, inplace=True)
    text = error_of(h)
    assert "SigmoidBackward0 saved its result" in text
    assert "nn.functional.relu(h, inplace=True) (in relu)" in text


def test_a_stale_view_names_the_write():
    x = fresh()
    first, _ = x.split([1, 2])
    with trace_lines():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified inplace since, last by add_") as caught:
        first * 2
    assert "overwritten by add_ (version 1)" in str(caught.value)


def test_nothing_is_kept_alive():
    before = len(gc.get_objects())
    with trace_lines():
        for _ in range(300):
            x = fresh()
            y = (x * x).sum()
            y.backward()
    del x, y
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_writes_kept_are_bounded():
    x = torch.ones(3)
    with trace_lines():
        for _ in range(100):
            x.add_(1)
        y = x.requires_grad_() * x
        with torch.no_grad():
            for _ in range(100):
                x.add_(1)
    text = error_of(y)
    assert text.count("overwritten by") == 16
    assert "(84 earlier writes: no lines were kept)" in text


PROGRAM = """
import cygrad as torch
x = torch.ones(3, requires_grad=True) * 2
y = x * x
x.add_(1)
y.sum().backward()
"""


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("0", False)])
def test_the_environment_variable(tmp_path, value, shown):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"CYGRAD_TRACE": value}
    run = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert run.returncode == 1
    assert (f"overwritten by add_ (version 1) at {program}:5: x.add_(1)" in run.stderr) is shown

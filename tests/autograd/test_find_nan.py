"""find_nan names the first operation that gives NaN or, on request, infinities."""

import inspect
import pickle
import threading
import warnings

import pytest

import cygrad as torch
from cygrad import nn
from cygrad.autograd import NanError, find_nan
from cygrad.storage.opgen.parse import load

INF = float("inf")
NAN = float("nan")


def leaf(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def finding(program, **options):
    """The report of a search around a call, and the source line that it names."""
    with find_nan(action="record", **options) as search:
        program()
    return search.report


def logarithm():
    h = leaf(1.0, 2.0, -3.0) * 1
    y = h.log()  # here
    return y + 1


def square_root():
    x = leaf(0.0, 4.0)
    y = x.sqrt()  # here
    (y * 0).sum().backward()


def in_place():
    x = torch.tensor([0.0, 1.0])
    x /= torch.tensor([0.0, 2.0])  # here


def in_place_index():
    x = torch.tensor([INF, 1.0])
    x.index_add_(0, torch.tensor([0]), torch.tensor([-INF]))  # here


def by_index():
    x = torch.tensor([INF, 1.0])
    x.index_put_((torch.tensor([0]),), torch.tensor([-INF]), accumulate=True)  # here


def product():
    a = torch.tensor([[INF, 1.0]])
    return torch.matmul(a, torch.zeros(2, 1))  # here


def without_recording():
    with torch.no_grad():
        return leaf(-1.0).sqrt()  # here


def deviation():
    return torch.ones(1).std()  # here


def branches():
    x = leaf(1.0)
    (torch.where(x > 0, x, (x - 1).sqrt())).sum().backward()  # here


FORWARD = {
    logarithm: "log", in_place: "div", in_place_index: "index_add", by_index: "index_put", product: "mm",
    without_recording: "sqrt", deviation: "std",
}


@pytest.mark.parametrize("program", FORWARD, ids=lambda f: f.__name__)
def test_the_operation_and_the_line(program):
    report = finding(program)
    assert (report.phase, report.operation, report.origin) == ("forward", FORWARD[program], True)
    lines, start = inspect.getsourcelines(program)
    at = next(i for i, line in enumerate(lines) if "# here" in line)
    assert report.line == f"{__file__}:{start + at}, in {program.__name__}: {lines[at].strip()}"
    assert report.line in report.message


@pytest.mark.parametrize(("program", "node"), [(square_root, "SqrtBackward0"), (branches, "SqrtBackward0")])
def test_a_backward_operation_and_its_forward_line(program, node):
    report = finding(program)
    assert (report.phase, report.operation, report.origin) == ("backward", node, True)
    assert ".backward()" in report.line
    assert "# here" in report.forward_line
    assert report.message.startswith(f"Function '{node}' returned nan values in its 0th output.")


def test_inputs_are_described():
    x = torch.tensor([[-2.0, 1.0], [INF, 3.0]], dtype=torch.float64)
    report = finding(lambda: torch.atanh(x))
    (values,) = report.inputs
    assert (values.role, values.dtype, values.shape) == ("input", torch.float64, (2, 2))
    assert (values.low, values.high, values.nan, values.inf) == (-2.0, 3.0, 0, 1)
    assert "input: torch.float64 [2, 2], from -2 to 3, 1 inf" in report.message
    (result,) = report.results
    assert (result.nan, result.inf) == (3, 1)


def test_saved_values_are_described():
    report = finding(square_root)
    assert [v.role for v in report.inputs] == ["the gradient that arrived", "saved result"]
    assert (report.inputs[1].low, report.inputs[1].high) == (0.0, 2.0)


def test_composed_operations_are_named_by_the_call():
    report = finding(lambda: nn.functional.mse_loss(torch.tensor([INF]), torch.tensor([INF])))
    assert report.operation == "sub in mse_loss"
    assert "find_nan(inf=True) shows where that began" in report.message


def test_modules_are_named():
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.fill_(INF)
    report = finding(lambda: layer(torch.zeros(1, 2)))
    assert report.operation.endswith(" in Linear")
    assert "layer(torch.zeros(1, 2))" in report.line


class Outside(torch.autograd.Function):
    """Computes with NumPy, which nobody watches."""

    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(0 / x.numpy())

    @staticmethod
    def backward(ctx, g):
        return g


class LogBackwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.log()  # here


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_custom_forward():
    report = finding(lambda: Outside.apply(torch.zeros(2)))
    assert (report.phase, report.operation, report.origin) == ("forward", "Outside", True)


def test_inside_a_custom_backward():
    x = leaf(1.0)
    report = finding(lambda: (-LogBackwards.apply(x)).sum().backward())
    assert (report.phase, report.operation) == ("forward", "log")
    assert report.line.endswith("in backward: return g.log()  # here")


def test_gradients_that_meet():
    x = leaf(1.0)
    y = x * 1
    (a, b) = y * 1, y * 1
    report = finding(lambda: torch.autograd.backward([a, b], [torch.tensor([INF]), torch.tensor([-INF])]))
    assert (report.operation, report.origin) == ("add in backward", True)


def test_accumulation():
    x = leaf(1.0)
    x.grad = torch.tensor([INF])
    report = finding(lambda: (x * 1).backward(torch.tensor([-INF])))
    assert (report.operation, report.origin) == ("add", True)


@pytest.mark.parametrize("make", [lambda: torch.tensor([NAN, 1.0]) + 1, lambda: torch.tensor([NAN]).add_(1),
                                  lambda: leaf(1.0).sum().backward(torch.tensor(NAN)),
                                  lambda: nn.Linear(1, 1)(torch.tensor([NAN]))])
def test_nan_of_the_user(make):
    report = finding(make)
    assert not report.origin
    assert "was given nan values in " in report.message
    assert "no operation that was watched made them" in report.message


def test_a_mask_that_hides_nan_is_no_finding():
    def program():
        x = torch.tensor([NAN, 1.0])
        y = torch.where(x == x, x, torch.zeros(2))
        return y.masked_fill(y > 0, -INF).softmax(0).sum()

    assert finding(program) is None


def test_infinities_on_request():
    x = torch.tensor([1000.0])
    assert finding(lambda: x.exp()) is None
    report = finding(lambda: x.exp(), inf=True)
    assert (report.operation, report.results[0].inf) == ("exp", 1)
    assert "returned inf values" in report.message
    report = finding(lambda: torch.tensor([INF]) - torch.tensor([INF]), inf=True)
    assert report.origin, "NaN from infinities begins here"


def test_overflow_of_a_cast():
    assert finding(lambda: torch.tensor([1e30]).half(), inf=True).results[0].dtype == torch.float16
    large = torch.tensor([1e300], dtype=torch.float64)
    assert finding(lambda: torch.zeros(1).copy_(large), inf=True).operation == "copy"


def test_it_raises():
    with pytest.raises(NanError, match=r"^log returned nan values: it is the first") as caught, find_nan():
        logarithm()
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.report.operation == "log"
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    logarithm()  # the search is over


def test_it_warns_once():
    with pytest.warns(RuntimeWarning, match="log returned nan") as caught, find_nan(action="warn"):
        logarithm()
        torch.tensor([-1.0]).sqrt()
    assert len(caught) == 1


def test_an_error_in_backward_leaves_the_thread_as_it_was():
    with pytest.raises(NanError), find_nan():
        square_root()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square_root()
    x = leaf(2.0)
    (x * x).backward()
    assert x.grad.item() == 4.0


def test_searches_nest_and_belong_to_a_thread():
    found = []
    with find_nan(action="record") as outer:
        with find_nan(action="record") as inner:
            torch.tensor([-1.0]).log()
        assert outer.report is None
        other = threading.Thread(target=lambda: found.append(torch.tensor([-1.0]).sqrt()))
        other.start()
        other.join()
        torch.tensor([-1.0]).sqrt()
    assert inner.report.operation == "log"
    assert outer.report.operation == "sqrt"


def test_an_optimizer_that_overflows():
    w = leaf(1.0)
    optimizer = torch.optim.SGD([w], lr=INF)

    def program():
        (w * 0).sum().backward()
        optimizer.step()

    report = finding(program)
    assert (report.operation, report.origin) == ("SGD.step", True)
    assert "optimizer.step()" in report.line


def test_numbers_of_formulas_keep_their_digits():
    """Of any mode that leaves the fast paths: float64 numbers beside complex128 were rounded to float32."""
    x, y = (torch.ones(1, dtype=torch.complex128, requires_grad=True) for _ in range(2))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        z = torch.lerp(x, y, 0.3)
        grads = torch.autograd.grad(z, [x, y], torch.ones_like(z), create_graph=True)
    assert [g.item() for g in grads] == [0.7, 0.3]


@pytest.mark.parametrize(("options", "error"), [({"inf": 1}, TypeError), ({"action": "stop"}, ValueError)])
def test_wrong_options(options, error):
    with pytest.raises(error, match="find_nan"):
        find_nan(**options)


POINTWISE = [row for row in load().values() if row.kind == "pointwise" and not row.args]
ROWS = [row for row in POINTWISE if {"function", "special"} & set(row.api)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_watching_changes_no_result(row):
    """Every pointwise row: the same bits and gradients watched; NaN that comes in is the user's."""
    low, high = row.test.get("low", -2), row.test.get("high", 2)
    function = getattr(torch, row.name, None) or getattr(torch.special, row.name.removeprefix("special_"))
    torch.manual_seed(0)
    inputs = [torch.rand(2, 3, dtype=torch.float64) * (high - low) + low for _ in row.inputs]

    def run():
        given = [x.clone().requires_grad_() for x in inputs]
        y = function(*given)
        if y.requires_grad:
            y.sum().backward()
        return [y, *(x.grad for x in given)]

    try:
        plain = run()
    except (RuntimeError, NotImplementedError):
        pytest.skip("takes no floats")
    with find_nan(inf=True):
        watched = run()
    for a, b in zip(plain, watched, strict=True):
        assert (a is None and b is None) or torch.equal(a, b)
    with find_nan(action="record") as search:
        y = function(*(torch.full_like(x, NAN) for x in inputs))
    if y.is_floating_point() and y.isnan().any():
        assert not search.report.origin

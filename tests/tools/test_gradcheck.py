"""gradcheck accepts right derivatives, refuses wrong ones, and says what is wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cygrad as torch
from cygrad.tools.gradcheck import GradcheckError, gradcheck, gradgradcheck


def point(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def matrix(*shape, seed=0):
    array = np.random.default_rng(seed).uniform(0.3, 1.5, shape)
    return torch.from_numpy(array).requires_grad_()


def function(forward, backward):
    """Make an operation with a backward of its own, which is handed the gradient and the inputs."""

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Made.apply


RIGHT = {
    "exp": (lambda x: x.exp(), [(3,)]),
    "product": (lambda x, y: x * y, [(2, 3), (3,)]),
    "matmul": (lambda x, w: x @ w, [(2, 3), (3, 4)]),
    "scalar": (lambda x: (x * x).sum().log(), [(2, 2)]),
    "0-d input": (lambda x: x * x.sin(), [()]),
    "no elements": (lambda x: x.sum(), [(0, 3)]),
    "two outputs": (lambda x: (x.sin(), (x * x).sum()), [(3,)]),
    "views": (lambda x: x.t()[1:].reshape(-1) * 2, [(3, 2)]),
    "in place on a view": (lambda x: _doubled_row(x), [(3, 2)]),
    "identity": (lambda x: x, [(2,)]),
    "an index beside": (lambda x: (x.max(0)[0], x.argmax(0)), [(3, 2)]),
}


def _doubled_row(x):
    y = x * x
    y[1].mul_(2)
    return y


@pytest.mark.parametrize("fast_mode", [False, True], ids=["full", "fast"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_derivatives_pass(name, fast_mode):
    func, shapes = RIGHT[name]
    inputs = tuple(matrix(*shape, seed=k) for k, shape in enumerate(shapes))
    assert gradcheck(func, inputs, fast_mode=fast_mode) is True
    assert gradgradcheck(func, inputs, fast_mode=fast_mode) is True


WRONG = {
    "sign": function(lambda x: x * x, lambda g, x: -2 * g * x),
    "factor": function(lambda x: x * x, lambda g, x: 1.9 * g * x),
    "small factor": function(lambda x: x * x, lambda g, x: 2.01 * g * x),
    "missing term": function(lambda x: x * x.exp(), lambda g, x: g * x.exp()),
    "nothing": function(lambda x: x * x, lambda g, x: None),
    "wrong axis of a sum": function(lambda x: x @ torch.ones(3, 3, dtype=torch.float64) * x, lambda g, x: g.t() * 1.0),
    "transposed": function(lambda x: x.t() * 2, lambda g, x: g * 2),
    "ignores the gradient": function(lambda x: (x * x).sum(), lambda g, x: 2 * x),
    "only the size of the gradient": function(lambda x: (x * x).sum(), lambda g, x: 2 * x * g.abs()),
    "adds a constant": function(lambda x: (x * x).sum(), lambda g, x: 2 * x * g + (1 - g) * 5),
}


@pytest.mark.parametrize("fast_mode", [False, True], ids=["full", "fast"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_derivatives_are_found(name, fast_mode):
    x = matrix(3, 3)
    with pytest.raises(GradcheckError):
        gradcheck(WRONG[name], (x,), fast_mode=fast_mode)
    assert gradcheck(WRONG[name], (x,), fast_mode=fast_mode, raise_exception=False) is False


def test_a_wrong_second_derivative_is_found():
    cut = function(lambda x: x.exp(), lambda g, x: g * x.detach().exp())
    x = point(0.3, -0.2)
    assert gradcheck(cut, (x,))
    with pytest.raises(GradcheckError, match=r"output 0 \(the gradient of input 0\) with respect to input 0"):
        gradgradcheck(cut, (x,))


def test_a_backward_that_changes_from_run_to_run_is_found():
    calls = []

    def backward(g, x):
        calls.append(1)
        return 2 * g * x * (1 + len(calls) * 1e-9)

    noisy = function(lambda x: x * x, backward)
    with pytest.raises(GradcheckError, match="not deterministic"):
        gradcheck(noisy, (point(0.5),))
    assert gradcheck(noisy, (point(0.5),), nondet_tol=1e-6)


def test_a_function_that_is_random_is_called_so():
    with pytest.raises(GradcheckError, match="func is not deterministic"):
        gradcheck(lambda x: x * torch.rand(3, dtype=torch.float64), (matrix(3),))


def test_the_message_says_where_and_by_how_much():
    x = torch.tensor([[0.4, 1.1], [2.0, -0.7]], dtype=torch.float64, requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(lambda y, x: (y, function(lambda x: x * x, lambda g, x: 1.9 * g * x)(x)), (point(1.0), x))
    text = str(caught.value)
    assert text.startswith("Jacobian mismatch for output 1 with respect to input 1")
    assert "4 of 16 elements" in text
    assert "d output[1, 0] / d input[1, 0]: numerical 4, analytical 3.8, difference 0.2" in text
    assert "0.95 times what they should be" in text
    assert repr(torch.from_numpy(np.diag([0.8, 2.2, 4.0, -1.4]))) in text
    assert "[ 0.0000,  0.0000,  3.8000, -0.0000]" in text


VERDICTS = {
    "The formula": (WRONG["sign"], (0.5, 1.5), {}),
    "opposite sign": (WRONG["sign"], (0.5, 1.5), {}),
    "a term is missing, or the graph is cut": (WRONG["nothing"], (0.5, 1.5), {}),
    "The step, not the formula": (lambda x: x * x + 1e9, (0.4, 1.1), {}),
    "The step, not the formula: around eps=1e-": (lambda x: (x * 1e3).sin(), (0.4,), {"eps": 1e-2}),
    "A corner: the derivative is 0 from the left and 1 from the right": (lambda x: x.relu(), (0.0,), {}),
    "settle at no step": (lambda x: x.round() + x, (0.5,), {}),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_message_tells_a_wrong_formula_from_a_wrong_step(verdict):
    func, values, options = VERDICTS[verdict]
    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, (point(*values),), **options)
    assert verdict in str(caught.value)


def test_single_precision_is_warned_of():
    with pytest.warns(UserWarning, match=r"input 0 is torch.float32.*torch.float64"):
        gradcheck(lambda x: x * 2, (point(0.5, dtype=torch.float32),), eps=1e-2, atol=1e-2)


def test_rounding_in_single_precision_is_not_blamed_on_the_formula():
    with pytest.warns(UserWarning), pytest.raises(GradcheckError, match="The step, not the formula"):
        gradcheck(lambda x: x.exp(), (point(0.4, 1.1, dtype=torch.float32),))


def test_inputs_are_as_before_also_after_an_error():
    x = matrix(2, 3)
    before, version = x.tolist(), x._version
    assert gradcheck(lambda x: x.sin(), (x,))
    assert (x.tolist(), x._version, x.grad) == (before, version, None)

    calls = []

    def fails(x):
        calls.append(1)
        if len(calls) == 4:
            raise KeyError("in func")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(fails, (x,))
    assert (x.tolist(), x._version, x.grad) == (before, version, None)


def test_the_random_state_is_left_alone():
    torch.manual_seed(3)
    want = torch.rand(4).tolist()
    torch.manual_seed(3)
    gradgradcheck(lambda x: x * x, (matrix(3),), fast_mode=True)
    assert torch.rand(4).tolist() == want


def test_parameters_that_the_function_reads_by_itself_are_moved_too():
    w = matrix(3, 2)
    x = torch.ones(4, 3, dtype=torch.float64)
    assert gradcheck(lambda _: (x @ w).sin(), (w,))


def test_fast_mode_calls_the_function_a_few_times_only():
    calls = []

    def func(x):
        calls.append(1)
        return x * x

    x = matrix(20, 20)
    assert gradcheck(func, (x,), fast_mode=True)
    assert len(calls) < 10


SHARING = {
    "expanded": torch.ones(1, dtype=torch.float64).expand(3),
    "overlapping windows": torch.arange(4, dtype=torch.float64).as_strided((3, 2), (1, 1)),
}


@pytest.mark.parametrize("name", SHARING)
def test_an_input_whose_elements_share_memory_is_refused(name):
    x = SHARING[name].requires_grad_()
    with pytest.raises(RuntimeError, match=r"elements of input 0, shape .* share memory"):
        gradcheck(lambda x: x * 2, (x,))


def test_two_inputs_in_the_same_memory_are_refused():
    base = torch.ones(4, dtype=torch.float64)
    a, b = base[:3].detach().requires_grad_(), base[1:].detach()
    with pytest.raises(RuntimeError, match="inputs 0 and 1 share memory"):
        gradcheck(lambda a, b: a * b, (a, b))


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.reshape(3, 4).t(),
        lambda x: x[::2],
        lambda x: x.as_strided((2, 3), (3, 4)),  # strides that do not nest, elements apart all the same
        lambda x: x.reshape(1, 12),
    ],
)
def test_other_layouts_are_accepted(layout):
    x = layout(torch.arange(1, 13, dtype=torch.float64)).detach().requires_grad_()
    assert gradcheck(lambda x: x.sin(), (x,))


def test_the_same_tensor_twice_counts_twice():
    x = matrix(3)
    assert gradcheck(lambda a, b: a * b, (x, x))


def test_nothing_to_check_is_an_error():
    with pytest.raises(ValueError, match="none of the 2 inputs"):
        gradcheck(lambda x, y: x, (torch.ones(2), 3))
    for options in (
        {"check_backward_ad": False},
        {"check_forward_ad": True, "check_backward_ad": False, "check_batched_grad": True},
        {"check_batched_forward_grad": True},
    ):
        with pytest.raises(AssertionError, match="to be True"):
            gradcheck(lambda x: x, (matrix(2),), **options)
    for options in ({"check_rev_over_rev": False}, {"check_rev_over_rev": False, "check_fwd_over_rev": True}):
        with pytest.raises(AssertionError, match="to be True"):
            gradgradcheck(lambda x: x, (matrix(2),), **options)
    with pytest.raises(ValueError, match="no output of func requires gradients"):
        gradgradcheck(lambda x: x.detach(), (matrix(2),))


def test_an_output_without_graph_must_be_constant():
    assert gradcheck(lambda x: torch.ones(2), (matrix(2),))
    with pytest.raises(GradcheckError, match=r"output 0 depends on input 0.*detach"):
        gradcheck(lambda x: x.detach() * 2, (matrix(2),))


def test_outputs_are_tensors():
    with pytest.raises(TypeError, match="its output 1 is a float"):
        gradcheck(lambda x: (x, 2.0), (matrix(2),))


BATCHED = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}


def complex_point(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.array(rng.normal(size=shape) + 1j * rng.normal(size=shape))).requires_grad_()


COMPLEX = {
    "product": (lambda x, y: x * y, [(2, 3), (3,)]),
    "real of complex": (lambda x: x.abs() + x.real * x.imag, [(3,)]),
    "complex of real": (lambda x: torch.polar(x.abs(), x.angle()), [(3,)]),
    "conjugate": (lambda x: x.conj() * x.exp(), [(3,)]),
    "matmul": (lambda x, w: (x @ w).sum(), [(2, 3), (3, 4)]),
    "0-d": (lambda x: x * x, [()]),
    "view": (lambda x: torch.view_as_real(x.t()).flatten().sin(), [(2, 3)]),
}


@pytest.mark.parametrize("fast_mode", [False, True], ids=["full", "fast"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name, fast_mode):
    func, shapes = COMPLEX[name]
    inputs = tuple(complex_point(*shape, seed=k) for k, shape in enumerate(shapes))
    assert gradcheck(func, inputs, fast_mode=fast_mode, **BATCHED)
    assert gradgradcheck(func, inputs, fast_mode=fast_mode, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)


@pytest.mark.parametrize("fast_mode", [False, True], ids=["full", "fast"])
def test_wrong_complex_derivatives_are_found(fast_mode):
    no_conjugate = function(lambda z: z * z, lambda g, z: g * 2 * z)
    z = complex_point(2, 2)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(no_conjugate, (z,), fast_mode=fast_mode)
    assert "d output[0, 0].imag / d input[0, 0].real: numerical" in str(caught.value)
    assert "a row for each real or imaginary part of the output" in str(caught.value)
    assert gradcheck(function(lambda z: z * z, lambda g, z: g * 2 * z.conj()), (z,), fast_mode=fast_mode)
    with pytest.raises(GradcheckError):
        gradcheck(function(lambda z: z.abs(), lambda g, z: g * z.conj() / z.abs()), (z,), fast_mode=fast_mode)
    with pytest.warns(UserWarning, match=r"input 0 is torch.complex64.*torch.complex128"):
        gradcheck(lambda z: z * 2, (z.detach().to(torch.complex64).requires_grad_(),), eps=1e-2, atol=1e-2)


def batchable(backward, jvp):
    """sin with a backward and a jvp of its own, which are run for several gradients at once as they are."""

    class Made(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

        @staticmethod
        def jvp(ctx, t):
            return jvp(t, *ctx.saved_tensors)

    return Made.apply


def right(t, x):
    return t * x.cos()


def test_several_gradients_at_once():
    from cygrad.autograd._core import is_batched

    def wrong(t, x):
        return t * x.cos() * (2 if is_batched(t) else 1)

    def reads(t, x):
        return t * x.cos() * (1.0 if t.sum() > 1e9 else 1)

    x = matrix(2, 3)
    assert gradcheck(lambda x, y: (x @ y.t()).sin(), (x, matrix(2, 3, seed=1)), **BATCHED)
    assert gradcheck(batchable(right, right), (x,), **BATCHED)
    for backward, jvp, match in (
        (wrong, right, "gradient of input 0 from output 0 is another one where backward runs"),
        (right, wrong, "tangent of output 0 is another one where input 0 moves along several"),
        (reads, right, "backward of output 0 cannot be batched by vmap"),
        (right, reads, "along several directions of input 0 cannot be batched by vmap"),
    ):
        func = batchable(backward, jvp)
        assert gradcheck(func, (x,), check_forward_ad=True)
        with pytest.raises(GradcheckError, match=match):
            gradcheck(func, (x,), **BATCHED)
        assert gradcheck(func, (x,), raise_exception=False, **BATCHED) is False


def scaled(factor):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * factor

    return Scaled.apply


@pytest.mark.parametrize("fast", [False, True])
def test_forward_mode(fast):
    x = matrix(2, 3)
    assert gradcheck(lambda x, y: (x @ y).sin(), (x, matrix(3, 2)), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(scaled(2), (x,), check_forward_ad=True, fast_mode=fast)
    assert gradcheck(scaled(3), (x,))
    for backward in (True, False):
        with pytest.raises(GradcheckError, match="in forward mode"):
            gradcheck(scaled(3), (x,), check_forward_ad=True, check_backward_ad=backward, fast_mode=fast)
    assert not gradcheck(scaled(3), (x,), check_forward_ad=True, raise_exception=False, fast_mode=fast)


def test_forward_over_reverse():
    x = matrix(2, 3)
    assert gradgradcheck(lambda x: x.sin() * x, (x,), check_fwd_over_rev=True)
    wrong = lambda x: (x * scaled(3)(x)).sum()  # noqa: E731
    assert gradgradcheck(wrong, (x,))
    for reverse in (True, False):
        with pytest.raises(GradcheckError, match="in forward mode"):
            options = {"check_rev_over_rev": reverse, "check_undefined_grad": reverse}
            gradgradcheck(wrong, (x,), check_fwd_over_rev=True, **options)


def test_backward_for_several_gradients_at_once():
    assert gradcheck(lambda x, y: (x.sin() * y, x.sum()), (matrix(2, 3), matrix(3)), check_batched_grad=True)
    assert gradgradcheck(lambda x, y: (x.sin() * y, x.sum()), (matrix(2, 3), matrix(3)), check_batched_grad=True)
    reads = function(lambda x: x * 2, lambda g, x: g * 2 if g.sum().item() < 1e9 else g)
    assert gradcheck(reads, (matrix(3),))
    with pytest.raises(GradcheckError, match=r"output 0 cannot be batched.*item"):
        gradcheck(reads, (matrix(3),), check_batched_grad=True)
    depends = function(lambda x: x * 2, lambda g, x: g * (3 if torch.autograd._core.is_batched(g) else 2))
    assert gradcheck(depends, (matrix(3),))
    with pytest.raises(GradcheckError, match="input 0 from output 0 is another one"):
        gradcheck(depends, (matrix(3),), check_batched_grad=True)


@pytest.mark.parametrize("copes", [True, False])
def test_a_backward_must_do_without_the_gradient_of_an_unused_output(copes):
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if copes and (g is None or h is None):
                return None if g is None and h is None else h * 3 if g is None else g * 2
            return g * 2 + h * 3

    if copes:
        assert gradcheck(Two.apply, (matrix(2),))
    else:
        with pytest.raises((TypeError, GradcheckError)):
            gradcheck(Two.apply, (matrix(2),))


def test_given_grad_outputs_must_fit():
    x = matrix(2, 3)
    good = matrix(2, 3, seed=5)
    assert gradgradcheck(lambda x: x * x, (x,), good)
    assert gradgradcheck(lambda x: x * x, (x,), gen_non_contig_grad_outputs=True)
    with pytest.raises(ValueError, match="2 grad_outputs given, but 1 outputs"):
        gradgradcheck(lambda x: x * x, (x,), (good, good))
    with pytest.raises(ValueError, match=r"grad_outputs\[0\] has shape \(3, 2\).*shape \(2, 3\)"):
        gradgradcheck(lambda x: x * x, (x,), matrix(3, 2))


UNARY = {
    "sin": lambda x: x.sin(),
    "exp": lambda x: (x * 0.3).exp(),
    "tanh": lambda x: x.tanh(),
    "square": lambda x: x * x,
    "sigmoid": lambda x: x.sigmoid(),
    "root": lambda x: (x * x + 1).sqrt(),
    "flip": lambda x: x.t() if x.dim() == 2 else x,
    "centre": lambda x: x - x.mean(),
    "slice": lambda x: x[1:] if x.shape[0] > 1 else x,
    "rows": lambda x: x.sum(0, keepdim=True) * x,
    "softmax": lambda x: x.softmax(0),
}


@settings(max_examples=150, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(UNARY)), min_size=1, max_size=5),
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    fast=st.booleans(),
)
def test_right_compositions_are_never_refused(names, rows, columns, seed, fast):
    def func(x):
        for name in names:
            x = UNARY[name](x)
        return x

    x = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (rows, columns))).requires_grad_()
    assert gradcheck(func, (x,), fast_mode=fast)


def test_the_module_is_reached_through_autograd():
    assert torch.autograd.gradcheck(lambda x: x * 2, (matrix(2),)) is True
    assert torch.autograd.gradgradcheck(lambda x: x * x, (matrix(2),)) is True


def test_a_function_that_refuses_large_steps_is_still_explained():
    """Looking for the right step leaves the domain of the function; that is no reason to lose the message."""

    def bounded(x):
        if (x < 0).any():
            raise ValueError("negative")
        return function(lambda x: x * 2, lambda g, x: g * 3)(x)

    with pytest.raises(GradcheckError, match="The formula"):
        gradcheck(bounded, point(0.01))


def test_the_module_of_pytorchs_name():
    import cygrad.autograd.gradcheck as module
    from cygrad.autograd.gradcheck import GradcheckError as error

    assert error is GradcheckError and module.gradcheck is gradcheck
    assert torch.autograd.gradcheck(lambda x: x * x, (point(1.0),)), "the function still, after that import"
    assert torch.autograd.gradgradcheck is gradgradcheck

"""All steps of a recurrent layer as one node, against the layer recorded step by step: all ways to differentiate."""

import numpy as np
import pytest

MODES = ["RNN_TANH", "RNN_RELU", "LSTM", "GRU"]
COUNTS = {"even": [3, 3, 3, 3], "packed": [5, 4, 4, 1], "threes": [4, 3, 3, 1, 1], "one step": [2],
          "one sequence": [1, 1, 1]}


def inputs_of(torch, mode, counts, bias=True, dtype=None, hidden=3):
    torch.manual_seed(4)
    gates = {"LSTM": 4, "GRU": 3}.get(mode, 1) * hidden
    state = (counts[0], hidden)
    shapes = [(sum(counts), 2), state, state, (gates, 2), (gates, hidden), (gates,), (gates,)]
    made = [torch.randn(s, dtype=dtype or torch.float64, requires_grad=True) for s in shapes]
    if mode != "LSTM":
        made[2] = None
    if not bias:
        made[5] = made[6] = None
    return made


class Parameters:
    hr = None

    def __init__(self, ih, hh, bias_ih, bias_hh):
        self.ih, self.hh, self.bias_ih, self.bias_hh = ih, hh, bias_ih, bias_hh


def call(way, mode, counts, backwards, data, h, c, *parameters):
    output, state = way(mode, data, counts, (h,) if c is None else (h, c), Parameters(*parameters), backwards)
    return [output, *state]


def ways():
    from cygrad.nn.modules import rnn_steps

    return rnn_steps.run, rnn_steps._step_by_step


def loss_of(results):
    return sum((r * (i + 1)).cos().sum() for i, r in enumerate(results))


def close(got, want, tolerance=1e-10):
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize("mode", MODES)
def test_results_and_gradients(torch, mode, counts, backwards):
    for bias in (True, False):
        given = inputs_of(torch, mode, counts, bias)
        wanted = [x for x in given if x is not None]
        seen = []
        for way in ways():
            results = call(way, mode, counts, backwards, *given)
            seen.append([*results, *torch.autograd.grad(loss_of(results), wanted)])
        close(*seen)
        with torch.no_grad():
            close(call(ways()[0], mode, counts, backwards, *given), seen[1][: len(results)])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_one_result_alone(torch, mode, backwards):
    """Gradients that come from the results only, from the last states only or from the last cells only."""
    given = inputs_of(torch, mode, [3, 2, 2])
    wanted = [x for x in given if x is not None]
    for k in range(3 if mode == "LSTM" else 2):
        parts = [call(way, mode, [3, 2, 2], backwards, *given)[k].sin().sum() for way in ways()]
        close(*[torch.autograd.grad(part, wanted, allow_unused=True) for part in parts])


@pytest.mark.parametrize("counts", [[3, 3, 3], [4, 2, 1]], ids=str)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_gradients(torch, mode, backwards, counts):
    given = inputs_of(torch, mode, counts)
    wanted = [x for x in given if x is not None]

    def second(way):
        first = torch.autograd.grad(loss_of(call(way, mode, counts, backwards, *given)), wanted, create_graph=True)
        return [*first, *torch.autograd.grad(sum(g.sin().sum() for g in first), wanted)]

    close(*map(second, ways()))


@pytest.mark.parametrize("mode", MODES)
def test_transforms(torch, mode):
    """vmap over inputs and over gradients, forward mode, forward over reverse."""
    counts = [2, 2, 1]
    given = inputs_of(torch, mode, counts)
    data, rest = given[0].detach(), [None if x is None else x.detach() for x in given[1:]]

    def total(way):
        return lambda x: torch.cat([r.reshape(-1) for r in call(way, mode, counts, False, x, *rest)])

    several, func = torch.stack([data, data.cos(), data.sin()]), torch.func
    for made in (
        lambda f: func.vmap(f)(several),
        lambda f: func.jacrev(f)(data),
        lambda f: func.jacfwd(f)(data),
        lambda f: func.jvp(f, (data,), (data.sin(),))[1],
        lambda f: func.hessian(lambda x: f(x).sin().sum())(data),
        lambda f: func.vmap(func.grad(lambda x: f(x).sin().sum()))(several),
    ):
        close(*[[made(total(way))] for way in ways()])


@pytest.mark.parametrize("mode", MODES)
def test_sizes_that_fill_tiles_and_threads(torch, mode):
    """Hidden sizes and batches around the tiles of the kernels; any number of threads gives the same bits."""
    for hidden, counts in ((1, [1, 1]), (33, [9, 8, 7]), (65, [40] * 3 + [17] * 20), (200, [150] * 4)):
        for dtype, tolerance in ((torch.float32, 2e-4), (torch.float64, 1e-9)):
            given = inputs_of(torch, mode, counts, True, dtype, hidden)
            with torch.no_grad():
                for x in given:
                    if x is not None:
                        x *= 0.2
            wanted = [x for x in given if x is not None]
            seen = []
            for threads, way in ((1, ways()[0]), (4, ways()[0]), (1, ways()[1])):
                before = torch.get_num_threads()
                torch.set_num_threads(threads)
                try:
                    results = call(way, mode, counts, True, *given)
                    loss = results[0].sin().mean() + results[-1].cos().mean()
                    seen.append([*results, *torch.autograd.grad(loss, wanted)])
                finally:
                    torch.set_num_threads(before)
            assert all(torch.equal(a, b) for a, b in zip(seen[0], seen[1], strict=True))
            close(seen[0], seen[2], tolerance)


def test_a_saved_state_that_is_changed_is_an_error(torch, nn):
    layer = nn.LSTM(2, 3)
    output, _ = layer(torch.ones(4, 1, 2))
    with torch.no_grad():
        layer.weight_hh_l0 += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_bad_arguments(torch):
    from cygrad.autograd import _core

    x, w, h = torch.ones(6, 4), torch.ones(4, 4), torch.ones(3, 4)
    good = ("RNN_TANH", False, (3, 3), False)
    for options, tensors, error, match in (
        (("RNN", *good[1:]), (x, w, None, h, None), RuntimeError, "one of RNN_TANH"),
        ((*good[:2], (3, 4), False), (x, w, None, h, None), RuntimeError, "never grow"),
        ((*good[:2], (3, 0), False), (x, w, None, h, None), RuntimeError, "never grow"),
        ((*good[:2], (), False), (x, w, None, h, None), RuntimeError, "0 rows together, the gates 6"),
        ((*good[:2], (3,), False), (x, w, None, h, None), RuntimeError, "3 rows together, the gates 6"),
        (good, (x, w[:3], None, h, None), RuntimeError, r"weights must be row-major, of shape \[4, 4\]"),
        (good, (x, w, w[0, :2], h, None), RuntimeError, r"biases must be row-major, of shape \[4\]"),
        (good, (x, w, None, h, h), RuntimeError, "an LSTM, and nothing else, has cells"),
        (good, (x.int(), w.int(), None, h.int(), None), RuntimeError, "float32 or float64"),
        (good, (x, w.double(), None, h, None), TypeError, "five tensors of one dtype"),
        (good, (x, w, None, None, None), TypeError, "five tensors of one dtype"),
        (good, (x, w), TypeError, "five tensors of one dtype"),
    ):
        with pytest.raises(error, match=match):
            _core.recurrent(*options, *tensors)
    with pytest.raises(RuntimeError, match="what a mode keeps"):
        _core.recurrent_backward("GRU", False, (3, 3), x, None, torch.ones(12, 4), h, None, x, None, None)
    with pytest.raises(TypeError, match="three results"):
        _core.recurrent_backward("GRU", False, (3, 3), x)

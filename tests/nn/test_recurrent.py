"""Recurrent layers and cells, attention and transformers, packed sequences and clipping, beside PyTorch's."""

import numpy as np
import pytest

oracle = pytest.importorskip("torch")


def twins(nn, make):
    """A module of each library with the same parameters, in double."""
    import cygrad

    oracle.manual_seed(1)
    cygrad.manual_seed(1)
    theirs, ours = make(oracle.nn), make(nn)
    assert repr(ours) == repr(theirs)
    want, got = theirs.state_dict(), ours.state_dict()
    assert list(want) == list(got)
    for key in want:
        np.testing.assert_allclose(got[key].numpy(), want[key].numpy(), rtol=1e-6, atol=1e-7, err_msg=key)
    return ours.double(), theirs.double()


def flat(values):
    for v in values:
        if isinstance(v, (tuple, list)):
            yield from flat(v)
        elif v is not None:
            yield v


def compare(torch, ours, theirs, call, tolerance=1e-7):
    """Results, first and second gradients of a call, which gets the library and a function that makes inputs."""
    drawn = np.random.default_rng(3)
    arrays = []

    def run(lib, module):
        inputs, at = [], iter(list(arrays))

        def given(*shape):
            values = next(at, None)
            if values is None:
                values = drawn.standard_normal(shape)
                arrays.append(values)
            inputs.append(lib.tensor(values.tolist(), dtype=lib.float64).reshape(*shape).requires_grad_())
            return inputs[-1]

        results = [r for r in flat([call(lib, module, given)]) if r.is_floating_point()]
        leaves = [*inputs, *module.parameters()]
        loss = sum((r * (i + 1)).cos().sum() for i, r in enumerate(results))
        first = lib.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        loss = sum((g * (i + 1)).sin().sum() for i, g in enumerate(first) if g is not None)
        return [*results, *first, *lib.autograd.grad(loss, leaves, allow_unused=True)]

    with oracle.nn.attention.sdpa_kernel(oracle.nn.attention.SDPBackend.MATH):  # the one that is derived twice
        want = run(oracle, theirs)
    for a, b in zip(run(torch, ours), want, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


LAYERS = [
    lambda nn: nn.RNN(3, 4),
    lambda nn: nn.RNN(3, 4, 2, "relu", False, True),
    lambda nn: nn.LSTM(3, 4),
    lambda nn: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True),
    lambda nn: nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True),
    lambda nn: nn.GRU(3, 4, 2, bidirectional=True),
    lambda nn: nn.GRU(3, 4, bias=False),
]


@pytest.mark.parametrize("make", LAYERS)
def test_layers(torch, nn, make):
    ours, theirs = twins(nn, make)
    compare(torch, ours, theirs, lambda lib, m, given: m(given(5, 2, 3)))
    compare(torch, ours, theirs, lambda lib, m, given: m(given(5, 3)))

    def with_state(lib, m, given):
        rows = m.num_layers * (2 if m.bidirectional else 1)
        batch = 5 if m.batch_first else 2
        h = given(rows, batch, m.proj_size or 4)
        return m(given(5, 2, 3), (h, given(rows, batch, 4)) if m.mode == "LSTM" else h)

    compare(torch, ours, theirs, with_state)


@pytest.mark.parametrize("make", LAYERS)
def test_packed_layers(torch, nn, make):
    def packed(lib, m, given):
        rnn = lib.nn.utils.rnn
        x = given(4, 5, 3) if m.batch_first else given(5, 4, 3)
        sequence = rnn.pack_padded_sequence(x, [3, 5, 1, 3], m.batch_first, enforce_sorted=False)
        output, state = m(sequence)
        padded, lengths = rnn.pad_packed_sequence(output, m.batch_first, 0.5, 6)
        assert lengths.tolist() == [3, 5, 1, 3]
        return padded, state

    compare(torch, *twins(nn, make), packed)


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.RNNCell(3, 4),
        lambda nn: nn.RNNCell(3, 4, False, "relu"),
        lambda nn: nn.LSTMCell(3, 4),
        lambda nn: nn.GRUCell(3, 4, False),
    ],
)
def test_cells(torch, nn, make):
    ours, theirs = twins(nn, make)
    compare(torch, ours, theirs, lambda lib, m, given: m(given(2, 3)))
    compare(torch, ours, theirs, lambda lib, m, given: m(given(3)))

    def with_state(lib, m, given):
        h = given(2, 4)
        return m(given(2, 3), (h, given(2, 4)) if type(m).__name__ == "LSTMCell" else h)

    compare(torch, ours, theirs, with_state)


def test_dropout_between_layers(torch, nn):
    with pytest.warns(UserWarning, match="all but last"):
        nn.LSTM(3, 4, dropout=0.5)
    layer = nn.GRU(3, 4, 2, dropout=0.5)
    x = torch.ones(5, 2, 3)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize(
    "error, match, call",
    [
        (ValueError, "hidden_size must be greater than zero", lambda t, nn: nn.RNN(3, 0)),
        (ValueError, "nonlinearity", lambda t, nn: nn.RNN(3, 4, nonlinearity="x")),
        (ValueError, "proj_size", lambda t, nn: nn.LSTM(3, 4, proj_size=4)),
        (ValueError, "dropout should be a number", lambda t, nn: nn.LSTM(3, 4, dropout=2)),
        (RuntimeError, "Expected 3, got 4", lambda t, nn: nn.RNN(3, 4)(t.ones(5, 2, 4))),
        (ValueError, "2D or 3D, got 1D", lambda t, nn: nn.RNN(3, 4)(t.ones(3))),
        (RuntimeError, r"Expected hidden size \(1, 2, 4\), got \[1, 3, 4\]",
         lambda t, nn: nn.RNN(3, 4)(t.ones(5, 2, 3), t.ones(1, 3, 4))),
        (RuntimeError, "hx should be 3-D", lambda t, nn: nn.RNN(3, 4)(t.ones(5, 2, 3), t.ones(1, 4))),
        (RuntimeError, "larger than 0", lambda t, nn: nn.RNN(3, 4)(t.ones(0, 2, 3))),
        (RuntimeError, "inconsistent input_size", lambda t, nn: nn.RNNCell(3, 4)(t.ones(2, 4))),
        (RuntimeError, r"wanted is \(2, 4\)", lambda t, nn: nn.GRUCell(3, 4)(t.ones(2, 3), t.ones(3, 4))),
        (AssertionError, "divisible by num_heads", lambda t, nn: nn.MultiheadAttention(5, 2)),
        (AssertionError, "embedding dimension of 4, but got 5",
         lambda t, nn: nn.MultiheadAttention(4, 2)(*[t.ones(3, 2, 5)] * 3)),
        (RuntimeError, "Need attn_mask", lambda t, nn: nn.MultiheadAttention(4, 2)(*[t.ones(3, 2, 4)] * 3,
                                                                                   is_causal=True)),
        (RuntimeError, "greater than 0", lambda t, nn: nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [2, 0])),
        (RuntimeError, "sorted in decreasing", lambda t, nn: nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [1, 2])),
        (RuntimeError, "equal to batch_size", lambda t, nn: nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [1])),
        (RuntimeError, "at most 3 steps", lambda t, nn: nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [4, 1])),
        (RuntimeError, "padding_side", lambda t, nn: nn.utils.rnn.pad_sequence([t.ones(3)], padding_side="up")),
    ],
)
def test_bad_input(torch, nn, error, match, call):
    with pytest.raises(error, match=match):
        call(torch, nn)


# ---- attention


@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 5, 4), (2, 5, 6)), ((1, 2, 300, 4), (1, 2, 7, 4), (1, 2, 7, 3)),
                                    ((3, 4), (5, 4), (5, 2)), ((2, 2, 600, 8), (2, 1, 300, 8), (1, 1, 300, 8))])
@pytest.mark.parametrize("mask", ["none", "bool", "float", "causal", "scale", "nothing"])
def test_attention(torch, shapes, mask):
    class Holder:
        def parameters(self):
            return []

    def call(lib, m, given):
        q, k, v = (given(*s) for s in shapes)
        size = (shapes[0][-2], shapes[1][-2])
        options = {}
        if mask == "bool":
            options["attn_mask"] = lib.arange(size[0] * size[1]).reshape(size) % 3 != 0
        elif mask == "nothing":
            options["attn_mask"] = lib.arange(size[0]).reshape(-1, 1).expand(size) % 2 == 0
        elif mask == "float":
            options["attn_mask"] = given(*size)
        elif mask == "causal":
            options["is_causal"] = True
        elif mask == "scale":
            options["scale"] = 0.3
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    compare(torch, Holder(), Holder(), call, 1e-6)


def test_second_derivatives_of_attention_in_blocks(torch):
    """The gradient that works in blocks is itself differentiable: compared with attention in one piece."""
    from cygrad.nn.functional import attention

    q = torch.randn(1, 7, 2, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(1, 5, 2, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def second(block):
        before, attention.BLOCK = attention.BLOCK, block
        try:
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            first = torch.autograd.grad(y.sin().sum(), (q, k, v), create_graph=True)
            return [y, *first, *torch.autograd.grad(sum(g.cos().sum() for g in first), (q, k, v))]
        finally:
            attention.BLOCK = before

    for a, b in zip(second(3), second(100), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_memory_of_attention_grows_with_the_length(torch):
    """Twice the length takes twice the memory, forwards and backwards, and never that of all scores."""
    from cygrad.storage.core import memory_stats, reset_peak

    def peak(run):
        before = memory_stats()["live_bytes"]
        reset_peak()
        result = run()
        return memory_stats()["peak_bytes"] - before, result

    def peaks(length):
        q, k, v = (torch.randn(1, 2, length, 8, requires_grad=True) for _ in range(3))
        forwards, y = peak(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return forwards, peak(lambda: y.sum().backward())[0]

    short, long = peaks(2048), peaks(4096)
    for a, b in zip(short, long, strict=True):
        assert b < 2.2 * a and b < 2 * 4096 * 4096 * 4 / 2


def test_grouped_heads(torch):
    def call(lib):
        q = lib.arange(48.0).reshape(1, 4, 3, 4).sin()
        k, v = lib.arange(40.0).reshape(1, 2, 5, 4).cos(), lib.arange(40.0).reshape(1, 2, 5, 4).sin()
        return lib.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    np.testing.assert_allclose(call(torch).numpy(), call(oracle).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False, "batch_first": True}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 3, "vdim": 2}],
    ids=lambda o: "-".join(o) or "plain",
)
def test_heads(torch, nn, options, weights):
    ours, theirs = twins(nn, lambda lib: lib.MultiheadAttention(4, 2, **options))

    def call(lib, m, given):
        q, k, v = given(3, 2, 4), given(5, 2, m.kdim), given(5, 2, m.vdim)
        if m.batch_first:
            q, k, v = (x.transpose(0, 1) for x in (q, k, v))
        return m(q, k, v, need_weights=weights)

    def masked(lib, m, given):
        q, k, v = given(3, 4), given(5, m.kdim), given(5, m.vdim)
        hidden = lib.tensor([[False, True, False, False, False]] * 3)
        left_out = lib.tensor([False, False, True, False, False])
        return m(q, k, v, left_out, weights, hidden, average_attn_weights=False)

    compare(torch, ours, theirs, call)
    compare(torch, ours, theirs, masked)


OTHER = {"norm_first": True, "activation": "gelu", "batch_first": True, "bias": False}


@pytest.mark.parametrize("options", [{}, OTHER])
def test_transformer(torch, nn, options):
    def made(lib):
        return lib.Transformer(4, 2, 2, 2, 8, 0.0, **options)

    ours, theirs = twins(nn, made)

    def call(lib, m, given):
        source, target = given(5, 3, 4), given(2, 3, 4)
        if m.batch_first:
            source, target = source.transpose(0, 1), target.transpose(0, 1)
        mask = lib.nn.Transformer.generate_square_subsequent_mask(2, dtype=lib.float64)
        left_out = lib.tensor([[False, False, False, False, True]] * 3)
        return m(source, target, tgt_mask=mask, src_key_padding_mask=left_out, tgt_is_causal=True)

    compare(torch, ours, theirs, call)


# ---- nn.utils


def test_sequences(torch, nn):
    def values(lib):
        rnn = lib.nn.utils.rnn
        items = [lib.arange(n * 2.0).reshape(n, 2) for n in (2, 4, 1)]
        yield rnn.pad_sequence(items)
        yield rnn.pad_sequence(items, True, -1.0, "left")
        packed = rnn.pack_sequence(items, enforce_sorted=False)
        yield from packed
        yield rnn.pad_packed_sequence(packed)[0]
        yield from rnn.unpack_sequence(packed)
        yield packed.to(lib.float64).data
        yield rnn.invert_permutation(lib.tensor([2, 0, 1]))

    for a, b in zip(values(torch), values(oracle), strict=True):
        assert str(a.dtype) == str(b.dtype)
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.5, float("inf")])
def test_clipping(torch, norm):
    def values(lib):
        ps = [lib.nn.Parameter(lib.zeros(n)) for n in (3, 1, 2)]
        for i, p in enumerate(ps[:2]):
            p.grad = lib.arange(p.numel() * 1.0) - 1 + i
        utils = lib.nn.utils
        yield utils.clip_grad_norm_(ps, 0.7, norm)
        yield from (p.grad for p in ps[:2])
        yield utils.clip_grad_norm_(iter(ps), 100.0, norm)
        yield utils.get_total_norm([p.grad for p in ps[:2]], norm)
        utils.clip_grad_value_(ps, 0.2)
        yield from (p.grad for p in ps[:2])
        yield utils.clip_grad_norm_([], 1.0)
        vector = utils.parameters_to_vector(ps)
        yield vector
        utils.vector_to_parameters(lib.arange(6.0), ps)
        yield from ps

    for a, b in zip(values(torch), values(oracle), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_clipping_of_what_is_not_finite(torch):
    p = torch.nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([1.0, float("nan")])
    with pytest.raises(RuntimeError, match="non-finite"):
        torch.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert p.grad[0] == 1
    assert torch.nn.utils.clip_grad_norm_(p, 1.0).isnan()
    assert p.grad.isnan().all()

"""func.rearrange, beside PyTorch where it is installed."""

import importlib
import os

import pytest

BACKEND = os.environ.get("CYGRAD_TEST_BACKEND", "cygrad")
torch = importlib.import_module(BACKEND)
func = importlib.import_module(BACKEND + ".func")


def ramp(*shape):
    n = 1
    for size in shape:
        n *= size
    return torch.arange(n, dtype=torch.float64).reshape(shape)


@pytest.mark.parametrize(
    ("shape", "pattern", "sizes", "by_hand"),
    [
        ((2, 3, 4), "a b c -> c a b", {}, lambda x: x.permute(2, 0, 1)),
        ((2, 3, 4), "a b c -> (a b) c", {}, lambda x: x.reshape(6, 4)),
        ((2, 3, 4), "a b c -> b (c a)", {}, lambda x: x.permute(1, 2, 0).reshape(3, 8)),
        ((6, 4), "(a b) c -> b c a", {"a": 2}, lambda x: x.reshape(2, 3, 4).permute(1, 2, 0)),
        ((6, 4), "(a b) (c d) -> a c b d", {"b": 3, "c": 2}, lambda x: x.reshape(2, 3, 2, 2).permute(0, 2, 1, 3)),
        ((2, 1, 3), "a 1 b -> b a", {}, lambda x: x[:, 0].t()),
        ((2, 3), "a b -> b 1 a", {}, lambda x: x.t()[:, None]),
        ((2, 3), "a b -> b () a", {}, lambda x: x.t()[:, None]),
        ((2, 3, 4, 5), "a ... b -> b ... a", {}, lambda x: x.permute(3, 1, 2, 0)),
        ((2, 3, 4, 5), "a ... b -> b (a ...)", {}, lambda x: x.permute(3, 0, 1, 2).reshape(5, 24)),
        ((2, 3), "a b ... -> ... b a", {}, lambda x: x.t()),
        ((2, 8, 8, 3), "b (h i) (w j) c -> b (c i j) h w", {"i": 2, "j": 4},
         lambda x: x.reshape(2, 4, 2, 2, 4, 3).permute(0, 5, 2, 4, 1, 3).reshape(2, 24, 4, 2)),
        ((), "->", {}, lambda x: x),
    ],
)
def test_patterns(shape, pattern, sizes, by_hand):
    x = ramp(*shape)
    y, expected = func.rearrange(x, pattern, **sizes), by_hand(x)
    assert y.shape == expected.shape and torch.equal(y, expected)


def test_of_several_tensors_in_graphs_and_vmap():
    x = ramp(2, 3)
    assert torch.equal(func.rearrange([x, x + 1], "n a b -> b (n a)"), torch.cat([x, x + 1]).t())
    leaf = ramp(2, 6).requires_grad_()
    func.rearrange(leaf, "a (b c) -> c b a", b=2)[0].sum().backward()
    assert leaf.grad.tolist() == [[1, 0, 0, 1, 0, 0]] * 2
    if BACKEND == "torch":
        pytest.skip("PyTorch's fails in vmap")
    rows = func.vmap(lambda x: func.rearrange(x, "(a b) -> b a", a=2))(ramp(3, 4))
    assert torch.equal(rows, ramp(3, 2, 2).transpose(1, 2))


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [
        ("a b", {}), ("a b -> a -> b", {}), ("a b -> a", {}), ("a -> a b", {}), ("a a -> a", {}), ("(a b -> a b", {}),
        ("a) b -> a b", {}), ("((a) b) c -> a b c", {}), ("a b 2 -> a b", {}), ("a+b -> a b", {}),
        ("... ... -> ...", {}), ("(...) a -> a", {}),
    ],
)
def test_malformed_patterns(pattern, sizes):
    with pytest.raises(ValueError):
        func.rearrange(ramp(2, 6), pattern, **sizes)


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch raises errors of the machinery below")
@pytest.mark.parametrize(
    ("pattern", "sizes", "message"),
    [
        ("a -> a", {}, "the pattern has 1 axes, the tensor 2"),
        ("a b c -> a b c", {}, "the pattern has 3 axes"),
        ("a (b c) -> a b c", {}, "give the sizes of all but one of the axes b, c"),
        ("a (b c) -> a b c", {"b": 4}, r"an axis of size 6 cannot be \(b=4 c\)"),
        ("a (b c) -> a b c", {"b": 4, "c": 2}, r"an axis of size 6 cannot be \(b=4 c=2\)"),
        ("a 1 -> a", {}, r"an axis of size 6 cannot be \(1\)"),
        ("a b -> b a", {"c": 2}, "axis c has a size, but is not in the pattern"),
        ("a b -> b a", {"a": 2.0}, "the size of axis a is an int"),
    ],
)
def test_patterns_that_do_not_fit(pattern, sizes, message):
    with pytest.raises(ValueError, match=message):
        func.rearrange(ramp(2, 6), pattern, **sizes)
    with pytest.raises(TypeError, match="must be a str"):
        func.rearrange(ramp(2), 3)
    with pytest.raises(TypeError, match="must be a Tensor"):
        func.rearrange(3, "a -> a")

"""Windows at the limits: numbers whose products no 64 bits hold, windows in the padding, queries that see nothing."""

import pytest

HUGE = 2**40
inf, nan = float("inf"), float("nan")


@pytest.mark.parametrize(
    "call",
    [
        lambda F, t: F.unfold(t.ones(1, 1, 1, 1), (HUGE - 1, HUGE - 2**24 + 1), padding=HUGE, stride=HUGE),
        lambda F, t: F.unfold(t.ones(1, 1, 1, 1), (HUGE, HUGE), padding=HUGE, stride=HUGE),
        lambda F, t: F.fold(t.ones(1, 4, 1), (2, 2), (2**32, 2**32)),
        lambda F, t: F.max_pool1d(t.ones(1, 2, 3), 1, stride=1, dilation=2**63 - 1),
        lambda F, t: F.max_pool1d(t.ones(1, 2, 3), 2**62, stride=1, padding=2**61),
        lambda F, t: F.avg_pool1d(t.ones(1, 2, 3), 2**62, padding=2**61),
        lambda F, t: F.conv1d(t.ones(1, 1, 3), t.ones(1).expand(1, 1, 2**24 + 1), dilation=HUGE, padding=HUGE),
        lambda F, t: F.conv1d(t.ones(1, 1, 3), t.ones(1, 1, 2), stride=2**63 - 1, padding=2**62),
        lambda F, t: F.conv_transpose1d(t.ones(1, 1, 3), t.ones(1, 1, 2), stride=2**62),
    ],
)
def test_numbers_that_are_too_large(torch, nn, call):
    with pytest.raises(RuntimeError):
        call(nn.functional, torch)


def test_windows_that_lie_in_the_padding(torch, nn):
    x = torch.tensor([[[1.0], [2.0]]], requires_grad=True)
    y = nn.functional.max_pool2d(x, (1, 2), stride=(2, 1), padding=(0, 1), dilation=(1, 2))
    assert y.tolist() == [[[-inf]]]
    y.sum().backward()
    assert x.grad.tolist() == [[[0.0], [0.0]]]


def test_queries_that_see_nothing_have_gradients_of_zero(torch, nn):
    for length in (3, 300):
        q = torch.ones(1, length, 2, requires_grad=True)
        k = torch.ones(1, 4, 2, requires_grad=True)
        mask = torch.zeros(length, 4)
        mask[1] = -inf
        y = nn.functional.scaled_dot_product_attention(q, k, k, mask)
        assert y[0, 1].tolist() == [0, 0]
        y.sum().backward()
        assert not q.grad.isnan().any() and not k.grad.isnan().any()
        with pytest.raises(RuntimeError, match="does not broadcast"):
            nn.functional.scaled_dot_product_attention(q, k, k, torch.zeros(length + 1, 4))


def test_an_impossible_alignment_has_no_gradient(torch, nn):
    lp = torch.randn(2, 1, 3).log_softmax(-1).detach().requires_grad_()
    loss = nn.functional.ctc_loss(lp, torch.tensor([[1, 1]]), [2], [2], zero_infinity=True)
    loss.backward()
    assert loss == 0
    assert lp.grad.tolist() == [[[0, 0, 0]], [[0, 0, 0]]]


def test_bags_end_at_the_last_offset_and_keep_nan(torch, nn):
    table = torch.tensor([[1.0], [2.0], [nan]])
    bag = nn.functional.embedding_bag
    ends = torch.tensor([0, 1, 2])
    got = bag(torch.tensor([0, 1, 1]), table, ends, mode="sum", include_last_offset=True)
    assert got.tolist() == [[1], [2]]
    assert bag(torch.tensor([[0, 2]]), table, mode="max").isnan().all()

"""Functions of neural networks at cygrad's top, with the arguments that PyTorch has there."""

import pytest

import cygrad

CALLS = [
    "kl_div(x, x.exp())", "kl_div(x, x.exp(), 2)", "kl_div(x, x, 0, log_target=True)",
    "binary_cross_entropy_with_logits(x, x.sigmoid(), None, None, 1)",
    "binary_cross_entropy_with_logits(x, x.sigmoid())",
    "hinge_embedding_loss(x, x.sign(), 0.5, 2)", "cosine_embedding_loss(x, x + 1, torch.tensor([1., -1.]), 0.1, 0)",
    "margin_ranking_loss(x, x.flip(0), x.sign(), 0.3, 1)", "poisson_nll_loss(x, x.abs(), True, False, 1e-8, 1)",
    "poisson_nll_loss(x.abs(), x.abs() * 3, False, True, 1e-8, 2)",
    "triplet_margin_loss(x, x + 1, x * 2, 1.5, swap=True)",
    "rnn_tanh_cell(x, h, wi[:4], wh[:4])", "rnn_relu_cell(x, h, wi[:4], wh[:4], b[:4], b[4:8])",
    "gru_cell(x, h, wi[:12], wh[:12], b[:12], b[:12] * 2)", "lstm_cell(x, (h, h * 2), wi, wh, b, b)[0]",
    "lstm_cell(x, (h, h * 2), wi, wh)[1]",
]


@pytest.mark.parametrize("call", CALLS)
def test_as_pytorchs(call):
    torch = pytest.importorskip("torch")
    answers = []
    for lib in (torch, cygrad):
        names = {"torch": lib, "x": lib.linspace(-2, 2, 6).reshape(2, 3), "h": lib.linspace(-1, 1, 8).reshape(2, 4),
                 "wi": lib.linspace(-1, 1, 48).reshape(16, 3), "wh": lib.linspace(-1, 2, 64).reshape(16, 4),
                 "b": lib.linspace(0, 1, 16)}
        try:
            answers.append(eval("torch." + call, names).flatten().tolist())
        except Exception as error:
            answers.append(str(type(error)))
    assert answers[0] == (pytest.approx(answers[1], rel=1e-5, abs=1e-6) if isinstance(answers[1], list) else answers[1])


def test_written_over_the_input():
    x = cygrad.ones(2, 3, 4)
    assert cygrad.feature_dropout_(x, 0.5, True) is x
    assert all(len(set(channel)) == 1 for channel in x.reshape(6, 4).tolist())
    with pytest.raises(RuntimeError, match="reduction must be"):
        cygrad.kl_div(x, x, 5)

"""The loss of all alignments of a sequence of labels with a longer sequence of probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import Function
from cygrad.autograd._core import differentiated, entitled, whole_batch, with_room
from cygrad.autograd.autocasting import autocasts
from cygrad.nn.functional.checks import reduction_of, require_tensor

__all__ = ["ctc_loss"]

NEVER = float("-inf")
SELDOM = -1e30                           # in its place where second derivatives are wanted, which infinities make NaN


@autocasts("float32")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the connectionist temporal classification loss.

    Graves et al., "Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural
    networks" (2006).

    Parameters
    ----------
    log_probs : Tensor of float32 or float64, shape (T, N, C) or (T, C)
        Logarithms of probabilities of labels at each step. The gradient takes them to be normalised.
    targets : Tensor of ints, shape (N, S), or (sum of lengths,)
        The labels, none of them `blank`.
    input_lengths, target_lengths : Tensor of ints or sequence of int, shape (N,), or ()
        Steps and labels of each item.
    blank : int
        The label of nothing.
    reduction : str
        ``"mean"`` (each loss over its number of labels first), ``"sum"`` or ``"none"``.
    zero_infinity : bool
        Losses that are infinite, as no alignment is possible, become 0 with gradient 0.

    Raises
    ------
    RuntimeError
        If lengths do not fit the tensors, or `blank` is no label.
    """
    require_tensor("ctc_loss", "log_probs", log_probs)
    require_tensor("ctc_loss", "targets", targets)
    reduction = reduction_of(None, None, reduction)
    if log_probs.dtype not in (cygrad.float32, cygrad.float64):
        raise NotImplementedError(f"ctc_loss is not implemented for {log_probs.dtype}")
    batched = log_probs.dim() == 3
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(f"log_probs must have shape (T, N, C) or (T, C), got {tuple(log_probs.shape)}")
    lp = log_probs if batched else log_probs.unsqueeze(1)
    ins, outs = (_lengths(name, x, lp.shape[1]) for name, x in (("input", input_lengths), ("target", target_lengths)))
    if not 0 <= blank < lp.shape[2]:
        raise RuntimeError(f"blank must be in label range, 0 to {lp.shape[2] - 1}, got {blank}")
    if any(n > lp.shape[0] or n < 0 for n in ins):
        raise RuntimeError(f"Expected input_lengths to have value at most {lp.shape[0]}, but got value {max(ins)}")
    labels = _labels(targets, outs, lp.shape[2])
    losses = entitled(_Ctc.apply(lp, labels, ins, outs, blank, zero_infinity), "CtcLossBackward0")
    if zero_infinity:
        losses = losses.masked_fill(losses == float("inf"), 0)
    if reduction == "mean":
        return (losses / cygrad.tensor([max(n, 1) for n in outs], dtype=losses.dtype, device=losses.device)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _lengths(what: str, values: Tensor | Sequence[int], batch: int) -> list[int]:
    if isinstance(values, Tensor):
        if values.is_floating_point():
            raise RuntimeError(f"{what}_lengths must be integral, got {values.dtype}")
        values = values.reshape(-1).tolist()
    values = [int(v) for v in values]
    if len(values) != batch:
        raise RuntimeError(f"{what}_lengths must be of size batch_size, {batch}, got {len(values)}")
    return values


def _labels(targets: Tensor, lengths: list[int], classes: int) -> Tensor:
    """The labels of each item in a row, 0 behind their end."""
    longest = max(lengths, default=0)
    if min(lengths, default=0) < 0:
        raise RuntimeError(f"target_lengths must not be negative, got {lengths}")
    flat = targets.long()
    if flat.dim() == 1:
        if sum(lengths) != flat.shape[0]:
            raise RuntimeError(
                f"Expected targets of {sum(lengths)} labels, the sum of target_lengths, but got {flat.shape[0]}"
            )
        rows = [cygrad.constant_pad_nd(row, (0, longest - row.shape[0]), 0) for row in flat.split(lengths)]
        flat = cygrad.stack(rows) if rows else flat.view(0, 0)
    elif flat.dim() != 2 or flat.shape[0] != len(lengths) or flat.shape[1] < longest:
        raise RuntimeError(
            f"Expected targets to have shape ({len(lengths)}, at least {longest}), but got {tuple(targets.shape)}"
        )
    flat = flat[:, :longest]
    kind = {"dtype": cygrad.int64, "device": flat.device}
    behind = cygrad.arange(longest, **kind) >= cygrad.tensor(lengths, **kind).view(-1, 1)
    flat = flat.masked_fill(behind, 0)
    seen = whole_batch(flat)
    if seen.numel() and not (seen.min() >= 0 and seen.max() < classes):
        raise RuntimeError(f"labels must be from 0 to {classes - 1}, got {int(seen.min())} to {int(seen.max())}")
    return flat


class _Ctc(Function):
    """Sums over all alignments by the forward-backward algorithm; a row of states is blanks and labels in turn."""

    generate_vmap_rule = True
    _transposed = True

    @staticmethod
    def forward(
        ctx: Any, lp: Tensor, labels: Tensor, ins: list[int], outs: list[int], blank: int, zero_infinity: bool
    ) -> Tensor:
        batch, states = labels.shape[0], 2 * labels.shape[1] + 1
        row = with_room(labels.new_full((batch, states), blank), labels)
        row[:, 1::2] = labels
        # From the label before last: not over a blank, nor between equal labels.
        leaps = with_room(cygrad.zeros(batch, states, dtype=cygrad.bool, device=row.device), row)
        leaps[:, 2:] = (row[:, 2:] != blank) & (row[:, 2:] != row[:, :-2])
        alphas = _forward(lp, row, leaps, outs, NEVER)
        ctx.save_for_backward(lp, row, leaps, alphas)
        ctx.lengths = ins, outs
        ctx.zero_infinity = zero_infinity
        ends = []
        for b in range(batch):
            if ins[b] == 0:
                ends.append(cygrad.tensor(0.0 if outs[b] == 0 else NEVER, dtype=lp.dtype, device=lp.device))
            else:
                ends.append(alphas[ins[b] - 1, b, max(0, 2 * outs[b] - 1) : 2 * outs[b] + 1].logsumexp(0))
        return -cygrad.stack(ends) if ends else lp.new_empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        lp, row, leaps, alphas = ctx.saved_tensors
        ins, outs = ctx.lengths
        never, known = NEVER, alphas
        if cygrad.is_grad_enabled() or differentiated(lp):       # the sums are part of the gradient's graph or tangent
            never = SELDOM
            alphas = _forward(lp, row, leaps, outs, never)
        result = with_room(cygrad.zeros_like(lp), lp, row, grad)
        for b in range(lp.shape[1]):
            steps, states = ins[b], 2 * outs[b] + 1
            if steps == 0:
                continue
            p, labels = lp[:steps, b], row[b, :states]
            if ctx.zero_infinity and known[steps - 1, b, max(0, states - 2) : states].logsumexp(0) == NEVER:
                continue
            betas = _backward(p, labels, leaps[b, :states], never)
            both = alphas[:steps, b, :states] + betas
            total = both[-1].logsumexp(0)
            share = (both - total).exp()
            posterior = cygrad.zeros_like(p).index_add(1, labels, share)
            result[:steps, b] = (p.exp() - posterior) * grad[b]
        return result, None, None, None, None, None


def _forward(lp: Tensor, row: Tensor, leaps: Tensor, outs: list[int], never: float) -> Tensor:
    """Logarithms of the probabilities of all ways to each state, at each step."""
    count = cygrad.tensor([2 * n + 1 for n in outs], dtype=cygrad.int64, device=row.device).view(-1, 1)
    beyond = cygrad.arange(row.shape[1], device=row.device) >= count
    emitted = lp.gather(2, row.expand(lp.shape[0], *row.shape)) if lp.shape[0] else lp.new_empty(0, *row.shape)
    state = cygrad.full(row.shape, never, dtype=lp.dtype, device=lp.device)
    state[:, :2] = 0
    state = state.masked_fill(beyond, never)
    alphas = []
    for t in range(lp.shape[0]):
        if t == 0:
            state = state + emitted[0]
        else:
            one = cygrad.constant_pad_nd(state, (1, -1), never)
            two = cygrad.constant_pad_nd(state, (2, -2), never) if row.shape[1] > 1 else one
            two = two.masked_fill(~leaps, never)
            state = (cygrad.stack([state, one, two]).logsumexp(0) + emitted[t]).masked_fill(beyond, never)
        alphas.append(state)
    return cygrad.stack(alphas) if alphas else lp.new_empty(0, *row.shape)


def _backward(p: Tensor, labels: Tensor, leaps: Tensor, never: float) -> Tensor:
    """The same from each state to the end, of one item, without the state's own step."""
    states = labels.shape[0]
    emitted = p[:, labels]
    state = cygrad.full((states,), never, dtype=p.dtype, device=p.device)
    state[max(0, states - 2) :] = 0
    betas = [state]
    for t in reversed(range(1, p.shape[0])):
        state = state + emitted[t]
        one = cygrad.constant_pad_nd(state, (-1, 1), never)
        two = cygrad.constant_pad_nd(state.masked_fill(~leaps, never), (-2, 2), never) if states > 1 else one
        state = cygrad.stack([state, one, two]).logsumexp(0)
        betas.append(state)
    return cygrad.stack(betas[::-1])

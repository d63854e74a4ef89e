"""The steps of recurrent layers: one direction of one layer over whole sequences."""

from __future__ import annotations

from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd import Function
from cygrad.autograd._core import _autocasts, all_plain, differentiated, recurrent, recurrent_backward
from cygrad.nn import functional as F

__all__ = ["Weights", "run", "step"]

State = tuple[Tensor, ...]
Options = tuple[str, bool, tuple[int, ...]]  # mode, whether the last step comes first, rows of each step


class Weights:
    """The parameters of one direction of one layer."""

    def __init__(self, owner: Any, suffix: str) -> None:
        def named(name: str) -> Any:
            return getattr(owner, f"{name}{suffix}", None)

        self.ih, self.hh, self.hr = named("weight_ih"), named("weight_hh"), named("weight_hr")
        self.bias_ih, self.bias_hh = named("bias_ih"), named("bias_hh")


# ---- one step ----------------------------------------------------------------------------------------------------
def _plain_step(mode: str, gates: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    total = gates + F.linear(h, w, b)
    return total.tanh() if mode == "RNN_TANH" else total.relu()


def _lstm_step(
    gates: Tensor, h: Tensor, c: Tensor, w: Tensor, b: Tensor | None, projection: Tensor | None
) -> tuple[Tensor, Tensor]:
    enter, keep, new, out = (gates + F.linear(h, w, b)).chunk(4, 1)
    c = keep.sigmoid() * c + enter.sigmoid() * new.tanh()
    h = out.sigmoid() * c.tanh()
    return (h if projection is None else F.linear(h, projection)), c


def _gru_step(gates: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    reset, update, new = gates.chunk(3, 1)
    old_reset, old_update, old_new = F.linear(h, w, b).chunk(3, 1)
    candidate = (new + (reset + old_reset).sigmoid() * old_new).tanh()
    return candidate + (update + old_update).sigmoid() * (h - candidate)


def step(mode: str, gates: Tensor, state: State, weights: Weights) -> State:
    """The next state, from the input's share of the gates."""
    if mode == "LSTM":
        return _lstm_step(gates, *state, weights.hh, weights.bias_hh, weights.hr)
    if mode == "GRU":
        return (_gru_step(gates, state[0], weights.hh, weights.bias_hh),)
    return (_plain_step(mode, gates, state[0], weights.hh, weights.bias_hh),)


# ---- all steps ---------------------------------------------------------------------------------------------------
def run(
    mode: str, data: Tensor, counts: list[int], state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """Results of all steps, and the state of each sequence after its last.

    `data` is packed: `counts` sequences have each step, those that have more first.
    """
    inputs = (data, *state, weights.ih, weights.hh, weights.bias_ih, weights.bias_hh)
    in_one_piece = data.dtype in (cygrad.float32, cygrad.float64) and weights.hr is None and not _autocasts()
    in_one_piece = in_one_piece and data.device.type == "cpu"  # other devices have no loop over all steps
    if not in_one_piece or not all_plain(*inputs):
        return _step_by_step(mode, data, counts, state, weights, backwards)
    options = mode, backwards, tuple(counts)
    if mode != "LSTM":
        inputs = (data, *state, None, *inputs[2:])
    if differentiated(*inputs):
        results = _Sequence.apply(options, *inputs)
    else:
        results = _sequence(options, False, *inputs)[:2]
    results = [r for r in results if r is not None]
    return results[0], tuple(_last(r, counts, backwards) for r in results)


def _sequence(
    options: Options,
    keep: bool,
    data: Tensor,
    h: Tensor,
    c: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> list[Tensor | None]:
    return recurrent(*options, keep, F.linear(data, w_ih, b_ih), w_hh, b_hh, h, c)


def _last(states: Tensor, counts: list[int], backwards: bool) -> Tensor:
    """The state of each sequence after its last step."""
    if backwards:
        return states[: counts[0]]
    if counts[-1] == counts[0]:
        return states[states.shape[0] - counts[0] :]
    rows, start = [0] * counts[0], 0
    for count in counts:
        rows[:count] = range(start, start + count)
        start += count
    return states.index_select(0, cygrad.tensor(rows, device=states.device))


def _step_by_step(
    mode: str, data: Tensor, counts: list[int], state: State, weights: Weights, backwards: bool
) -> tuple[Tensor, State]:
    """`run` by recorded operations; the input's share of the gates is computed for all steps at once."""
    gates = F.linear(data, weights.ih, weights.bias_ih).split(counts)
    outputs: list[Tensor] = [data] * len(counts)
    first, ended = state, []
    count = counts[-1] if backwards else counts[0]
    state = tuple(s[:count] for s in state) if count < state[0].shape[0] else state
    for t in reversed(range(len(counts))) if backwards else range(len(counts)):
        if counts[t] < count:  # some sequences have ended
            ended.append(tuple(s[counts[t] :] for s in state))
            state = tuple(s[: counts[t]] for s in state)
        elif counts[t] > count:  # going backwards, some begin
            state = tuple(cygrad.cat([s, f[count : counts[t]]]) for s, f in zip(state, first, strict=True))
        count = counts[t]
        state = step(mode, gates[t], state, weights)
        outputs[t] = state[0]
    if ended:
        parts = [state, *reversed(ended)]
        state = tuple(cygrad.cat([part[i] for part in parts]) for i in range(len(state)))
    return cygrad.cat(outputs), state


class _Sequence(Function):
    """All steps as one node: the loop over them is a kernel, forwards and backwards.

    The gates of all steps are one product with the input, and the gradients of the weights are one product each. A
    gradient that is itself differentiated, or belongs to vmap, is made of tensor operations instead.
    """

    generate_vmap_rule = True
    _transposed = True

    @staticmethod
    def forward(ctx: Any, options: Options, *inputs: Tensor | None) -> tuple[Tensor | None, ...]:
        y, cells, kept = _sequence(options, True, *inputs)
        ctx.save_for_backward(*inputs, y, cells, kept)
        ctx.options = options
        ctx.set_materialize_grads(False)
        return y, cells

    @staticmethod
    def backward(ctx: Any, gy: Tensor | None, gc: Tensor | None) -> tuple[Tensor | None, ...]:
        *inputs, y, cells, kept = ctx.saved_tensors
        data, h, c, w_ih, w_hh, b_ih, b_hh = inputs
        gy = cygrad.zeros_like(y) if gy is None else gy
        if cygrad.is_grad_enabled() or not all_plain(gy, gc, *inputs):
            gates = F.linear(data, w_ih, b_ih)
            gx, gh, gh0, gc0, before = _steps_back(*ctx.options, gy, gc, gates, w_hh, b_hh, h, c, y, cells)
        else:
            gx, gh, gh0, gc0, before = recurrent_backward(*ctx.options, gy, gc, w_hh, h, c, y, cells, kept)
        gh = gx if gh is None else gh
        needs = ctx.needs_input_grad
        return (
            None,
            gx @ w_ih if needs[1] else None,
            gh0 if needs[2] else None,
            gc0 if needs[3] else None,
            gx.t() @ data if needs[4] else None,
            gh.t() @ before if needs[5] else None,
            gx.sum(0) if needs[6] else None,
            gh.sum(0) if needs[7] else None,
        )


# ---- the gradient by tensor operations ---------------------------------------------------------------------------
def _earlier(states: Tensor, start: Tensor, counts: tuple[int, ...], backwards: bool) -> Tensor:
    """The state before each step."""
    steps = states.split(counts)
    parts: list[Tensor] = []
    for t, count in enumerate(counts):
        s = t + 1 if backwards else t - 1
        known = min(counts[s], count) if 0 <= s < len(counts) else 0
        if known:
            parts.append(steps[s][:known])
        if known < count:
            parts.append(start[known:count])
    return cygrad.cat(parts)


def _lstm_back(acts: list[Tensor], dh: Tensor, dc: Tensor) -> tuple[Tensor, None, Tensor | None, Tensor]:
    enter, keep, new, out, before, shown = acts
    dc = dc + dh * out * (1 - shown * shown)
    gates = [
        dc * new * (enter * (1 - enter)),
        dc * before * (keep * (1 - keep)),
        dc * enter * (1 - new * new),
        dh * shown * (out * (1 - out)),
    ]
    return cygrad.cat(gates, 1), None, None, dc * keep


def _gru_back(acts: list[Tensor], dh: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    reset, keep, new, old, before = acts
    d = dh * (1 - keep) * (1 - new * new)
    gates = [d * old * (reset * (1 - reset)), dh * (before - new) * (keep * (1 - keep))]
    return cygrad.cat([*gates, d], 1), cygrad.cat([*gates, d * reset], 1), dh * keep, None


def _activities(
    mode: str, gates: Tensor, share: Tensor, y: Tensor, cells: Tensor | None, before: Tensor
) -> list[Tensor]:
    """What the gradient of a step reads, for all steps at once; `before` is the cell (the state) before each step."""
    if mode == "LSTM":
        enter, keep, new, out = (gates + share).chunk(4, 1)
        return [enter.sigmoid(), keep.sigmoid(), new.tanh(), out.sigmoid(), before, cells.tanh()]
    if mode == "GRU":
        (reset, keep, new), (old_reset, old_keep, old) = gates.chunk(3, 1), share.chunk(3, 1)
        reset = (reset + old_reset).sigmoid()
        return [reset, (keep + old_keep).sigmoid(), (new + reset * old).tanh(), old, before]
    return [1 - y * y if mode == "RNN_TANH" else (y > 0).to(y.dtype)]


def _steps_back(
    mode: str,
    backwards: bool,
    counts: tuple[int, ...],
    gy: Tensor,
    gc: Tensor | None,
    gates: Tensor,
    w: Tensor,
    b: Tensor | None,
    h: Tensor,
    c: Tensor | None,
    y: Tensor,
    cells: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor]:
    """What `recurrent_backward` computes. All states are known, so only their gradients go from step to step."""
    before = _earlier(y, h, counts, backwards)
    held = _earlier(cells, c, counts, backwards) if cells is not None else before
    acts = [a.split(counts) for a in _activities(mode, gates, F.linear(before, w, b), y, cells, held)]
    gys, gcs = gy.split(counts), None if gc is None else gc.split(counts)
    gxs: list[Any] = [None] * len(counts)
    ghs: list[Any] = [None] * len(counts)
    ended: list[tuple[Tensor, Tensor]] = []
    dh = dc = cygrad.zeros(0, h.shape[1], dtype=h.dtype, device=h.device)
    for t in range(len(counts)) if backwards else reversed(range(len(counts))):
        count = dh.shape[0]
        if count > counts[t]:
            ended.append((dh[counts[t] :], dc[counts[t] :]))
            dh, dc = dh[: counts[t]], dc[: counts[t]]
        elif count < counts[t]:
            more = h.new_zeros(counts[t] - count, h.shape[1])
            dh, dc = cygrad.cat([dh, more]), cygrad.cat([dc, more])
        dh = dh + gys[t]
        values, direct = [a[t] for a in acts], None
        if mode == "LSTM":
            gxs[t], ghs[t], direct, dc = _lstm_back(values, dh, dc if gcs is None else dc + gcs[t])
        elif mode == "GRU":
            gxs[t], ghs[t], direct, _ = _gru_back(values, dh)
        else:
            gxs[t] = dh * values[0]
        dh = (gxs[t] if ghs[t] is None else ghs[t]) @ w
        dh = dh if direct is None else dh + direct
    ends = [(dh, dc), *reversed(ended)]
    gh0, gc0 = (cygrad.cat([end[i] for end in ends]) for i in range(2))
    return cygrad.cat(gxs), cygrad.cat(ghs) if mode == "GRU" else None, gh0, gc0 if mode == "LSTM" else None, before

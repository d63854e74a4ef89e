"""Recurrent layers: RNN, LSTM and GRU, over sequences or step by step."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import Any

import cygrad
from cygrad import Tensor
from cygrad.autograd._core import _autocasts, entitled
from cygrad.autograd.autocasting import lowered
from cygrad.nn import functional as F
from cygrad.nn import init
from cygrad.nn.modules.module import Module
from cygrad.nn.modules.rnn_steps import Weights, run, step
from cygrad.nn.modules.utils import _check_room
from cygrad.nn.parameter import Parameter
from cygrad.nn.utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}
_TITLES = {False: "StackBackward0", True: "CatBackward0"}  # of what joins the steps, or the directions
State = Tensor | tuple[Tensor, Tensor]


class RNNBase(Module):
    """What the recurrent layers share; see `RNN`, `LSTM` and `GRU`.

    Parameters
    ----------
    mode : {"RNN_TANH", "RNN_RELU", "LSTM", "GRU"}
    input_size, hidden_size : int
        Length of an element of the sequences, and of the state.
    num_layers : int, default 1
        Layers on top of each other.
    bias : bool, default True
        Whether there are biases.
    batch_first : bool, default False
        Whether sequences have shape (B, T, F) or (T, B, F).
    dropout : float, default 0
        Dropout between layers.
    bidirectional : bool, default False
        A second set of layers that goes backwards.
    proj_size : int, default 0
        For LSTM: length of the results, if they are projected.
    device, dtype : optional
        Of the parameters.

    Raises
    ------
    ValueError
        If an option is out of its range.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed, "
                f"got {dropout!r}"
            )
        for name, value in (("bias", bias), ("batch_first", batch_first)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if not isinstance(size, int):
                raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
            if size <= 0:
                raise ValueError(f"{name} must be greater than zero, got {size}")
        _check_room(num_layers)
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"proj_size should be a positive integer smaller than hidden_size, or zero: got {proj_size}"
            )
        if proj_size and mode != "LSTM":
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=2,
            )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._make_parameters({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _suffixes(self) -> list[str]:
        directions = ("", "_reverse") if self.bidirectional else ("",)
        return [f"_l{layer}{direction}" for layer in range(self.num_layers) for direction in directions]

    def _make_parameters(self, place: dict[str, Any]) -> None:
        gates = GATES[self.mode] * self.hidden_size
        result = self.proj_size or self.hidden_size
        for suffix in self._suffixes():
            below = self.input_size if suffix.startswith("_l0") else result * (2 if self.bidirectional else 1)
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, below), "weight_hh": (gates, result)}
            if self.bias:
                shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
            if self.proj_size:
                shapes["weight_hr"] = (self.proj_size, self.hidden_size)
            for name, shape in shapes.items():
                self.register_parameter(f"{name}{suffix}", Parameter(cygrad.empty(shape, **place)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The parameters of each direction of each layer."""
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else [])]
        names += ["weight_hr"] if self.proj_size else []
        return [[getattr(self, name + suffix) for name in names] for suffix in self._suffixes()]

    def flatten_parameters(self) -> None:
        """Does nothing: parameters need not lie side by side here."""

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            value = getattr(self, name)
            same = value is usual if isinstance(usual, bool) else value == usual
            text += "" if same else f", {name}={value}"
        return text

    # ---- running
    def forward(self, input: Tensor | PackedSequence, hx: State | None = None) -> tuple[Any, State]:
        packed = isinstance(input, PackedSequence)
        if packed:
            data, counts = input.data, input.batch_sizes.tolist()
            batch, alone = counts[0], False
        else:
            self._check_input(input)
            alone = input.dim() == 2
            steps = input.unsqueeze(1) if alone else input.transpose(0, 1) if self.batch_first else input
            counts, batch = [steps.shape[1]] * steps.shape[0], steps.shape[1]
            data = steps.reshape(-1, steps.shape[2])
        if data.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {data.shape[-1]}"
            )
        if not counts:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        order = input.sorted_indices if packed else None
        state = self._start(hx, batch, alone, data, order)
        if self.mode == "LSTM" or data.is_cuda:  # inside autocast the state is kept in the low dtype too, as in PyTorch
            data, *state = lowered(data, *state)
        data, state = self._layers(data, counts, tuple(state))
        if packed:
            output: Any = PackedSequence(data, *input[1:])
        else:
            steps = entitled(data.view(len(counts), batch, -1), _TITLES[bool(self.bidirectional)])
            output = steps.squeeze(1) if alone else steps.transpose(0, 1) if self.batch_first else steps
        back = input.unsorted_indices if packed else None
        if back is not None:
            state = tuple(s.index_select(1, back) for s in state)
        if alone:
            state = tuple(s.squeeze(1) for s in state)
        return output, (state if self.mode == "LSTM" else state[0])

    def _check_input(self, input: Tensor) -> None:
        if not isinstance(input, Tensor):
            raise TypeError(f"{type(self).__name__}: argument 'input' must be Tensor, not {type(input).__name__}")
        if input.dim() not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        weight = getattr(self, "weight_ih_l0")  # noqa: B009 - made by register_parameter
        if input.dtype != weight.dtype and not _autocasts():
            raise ValueError(f"{type(self).__name__}: input must have the type {weight.dtype}, got type {input.dtype}")

    def _start(
        self, hx: State | None, batch: int, alone: bool, like: Tensor, order: Tensor | None
    ) -> tuple[Tensor, ...]:
        """The states to start from, each of shape (layers * directions, B, size)."""
        rows = self.num_layers * (2 if self.bidirectional else 1)
        sizes = [self.proj_size or self.hidden_size, *([self.hidden_size] if self.mode == "LSTM" else [])]
        if hx is None:
            return tuple(cygrad.zeros(rows, batch, size, dtype=like.dtype, device=like.device) for size in sizes)
        given = hx if self.mode == "LSTM" else (hx,)
        if not isinstance(given, (tuple, list)) or len(given) != len(sizes):
            raise TypeError(f"{type(self).__name__}: the state must be {len(sizes)} tensors, got {type(hx).__name__}")
        state = []
        for value, size in zip(given, sizes, strict=True):
            if value.dim() != (2 if alone else 3):
                raise RuntimeError(
                    f"For {'unbatched 2' if alone else 'batched 3'}-D input, hx should be {2 if alone else 3}-D but "
                    f"got {value.dim()}-D tensor"
                )
            value = value.unsqueeze(1) if alone else value
            if tuple(value.shape) != (rows, batch, size):
                raise RuntimeError(f"Expected hidden size {(rows, batch, size)}, got {list(value.shape)}")
            state.append(value if order is None else value.index_select(1, order))
        return tuple(state)

    def _layers(self, data: Tensor, counts: list[int], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        directions = 2 if self.bidirectional else 1
        ends = []
        suffixes = self._suffixes()
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                row = layer * directions + direction
                start = tuple(s[row] for s in state)
                weights = Weights(self, suffixes[row])
                output, end = run(self.mode, data, counts, start, weights, direction == 1)
                outputs.append(output)
                ends.append(end)
            data = outputs[0] if directions == 1 else cygrad.cat(outputs, 1)
            if self.dropout and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, self.training)
        return data, tuple(cygrad.stack([end[i] for end in ends]) for i in range(len(state)))


class RNN(RNNBase):
    """Recurrent layers, ``h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)``.

    Elman, "Finding structure in time" (1990). A call takes sequences of shape (T, B, F), (B, T, F) or (T, F), or a
    `PackedSequence`, and the states to start from; it returns the last layer's results, and the states at the end.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        See `RNNBase`.
    nonlinearity : {"tanh", "relu"}
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory; the state is a pair (h, c).

    Hochreiter and Schmidhuber, "Long short-term memory" (1997), with forget gates (Gers et al., 2000) and, if wanted, a
    projection (Sak et al., 2014). See `RNN` for calls.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        See `RNNBase`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )


class GRU(RNNBase):
    """Layers of gated recurrent units.

    Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), with the reset gate after the
    product. See `RNN` for calls.

    Parameters
    ----------
    input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype
        See `RNNBase`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )


# ---- cells -------------------------------------------------------------------------------------------------------
class RNNCellBase(Module):
    """What the cells share: one step of a recurrent layer.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool
    num_chunks : int
        How many gates there are.
    device, dtype : optional
        Of the parameters.
    """

    _mode = ""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        place = {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(cygrad.empty(gates, input_size, **place))
        self.weight_hh = Parameter(cygrad.empty(gates, hidden_size, **place))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(cygrad.empty(gates, **place)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform in ±1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias is True else f", bias={self.bias}"
        kind = getattr(self, "nonlinearity", "tanh")
        return text if kind == "tanh" else text + f", nonlinearity={kind}"

    def _next(self, input: Tensor, state: tuple[Tensor, ...] | None) -> tuple[Tensor, ...]:
        """One step; an input of one dimension is a batch of one."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        x = input if input.dim() == 2 else input.unsqueeze(0)
        if x.shape[1] != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {self.input_size}: {name}"
            )
        if state is None:
            count = 2 if self._mode == "LSTM" else 1
            state = (cygrad.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device),) * count
        for i, value in enumerate(state):
            if value.dim() not in (1, 2):
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {value.dim()}D instead")
            rows = value if value.dim() == 2 else value.unsqueeze(0)
            if tuple(rows.shape) != (x.shape[0], self.hidden_size):
                raise RuntimeError(
                    f"{name}: state {i} has shape {tuple(value.shape)}, wanted is {(x.shape[0], self.hidden_size)}"
                )
        state = tuple(s if s.dim() == 2 else s.unsqueeze(0) for s in state)
        if x.is_cuda:
            x, *state = lowered(x, *state)
        weights = Weights(self, "")
        result = step(self._mode, F.linear(x, weights.ih, weights.bias_ih), tuple(state), weights)
        return result if input.dim() == 2 else tuple(r.squeeze(0) for r in result)


class RNNCell(RNNCellBase):
    """One step of an `RNN`: from input (B, F) or (F,) and state to the next state.

    Parameters
    ----------
    input_size, hidden_size : int
    bias : bool, default True
    nonlinearity : {"tanh", "relu"}
    device, dtype : optional
        Of the parameters.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        self._mode = f"RNN_{self.nonlinearity.upper()}"
        return self._next(input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: from input (B, F) or (F,) and the pair (h, c) to the next pair; see `RNNCell`."""

    _mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        return self._next(input, hx)


class GRUCell(RNNCellBase):
    """One step of a `GRU`: from input (B, F) or (F,) and state to the next state; see `RNNCell`."""

    _mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(input, None if hx is None else (hx,))[0]

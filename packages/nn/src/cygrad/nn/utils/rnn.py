"""Sequences of different lengths in one batch: padded to one length, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cygrad
from cygrad import Tensor
from cygrad.nn.functional.checks import require_tensor, tensors_of

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another; None stands for the identity."""
    if permutation is None:
        return None
    require_tensor("invert_permutation", "permutation", permutation)
    numbers = cygrad.arange(permutation.numel(), dtype=permutation.dtype, device=permutation.device)
    return cygrad.empty_like(permutation).scatter_(0, permutation, numbers)


class PackedSequence(_Packed):
    """A batch of sequences, step by step: the first elements of all, then the second elements, and so on.

    Made by `pack_padded_sequence` and `pack_sequence`, and taken by recurrent layers.

    Attributes
    ----------
    data : Tensor, shape (sum of lengths, *)
        The elements.
    batch_sizes : Tensor of int64
        How many sequences have a step.
    sorted_indices, unsorted_indices : Tensor of int64, or None
        Order of the sequences by falling length, and back; None where they were in this order.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise TypeError("a PackedSequence is made from data and batch_sizes, or a pair of them")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with other data: see `Tensor.to`; the order of the sequences is on the device of the data."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order = [None if numbers is None else numbers.to(data.device) for numbers in self[2:]]
        return type(self)(data, self.batch_sizes, *order)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same on a CUDA device, by default the current one."""
        return self.to(*args, device="cuda", **kwargs)

    def pin_memory(self) -> PackedSequence:
        """The same with data in page-locked memory, from which CUDA devices copy on their own."""
        return type(self)(self.data.pin_memory(), *self[1:])

    def double(self) -> PackedSequence:
        """The same with data of float64."""
        return self.to(dtype=cygrad.float64)

    def float(self) -> PackedSequence:
        """The same with data of float32."""
        return self.to(dtype=cygrad.float32)

    def half(self) -> PackedSequence:
        """The same with data of float16."""
        return self.to(dtype=cygrad.float16)

    def long(self) -> PackedSequence:
        """The same with data of int64."""
        return self.to(dtype=cygrad.int64)

    def int(self) -> PackedSequence:
        """The same with data of int32."""
        return self.to(dtype=cygrad.int32)

    def short(self) -> PackedSequence:
        """The same with data of int16."""
        return self.to(dtype=cygrad.int16)

    def char(self) -> PackedSequence:
        """The same with data of int8."""
        return self.to(dtype=cygrad.int8)

    def byte(self) -> PackedSequence:
        """The same with data of uint8."""
        return self.to(dtype=cygrad.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device."""
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        """Whether the data lies in page-locked memory."""
        return self.data.is_pinned()


def _lengths(lengths: Tensor | Sequence[int]) -> Tensor:
    if isinstance(lengths, Tensor):
        if lengths.dim() != 1 or lengths.is_floating_point():
            raise RuntimeError(
                "`lengths` argument should be a 1D CPU int64 tensor, but got a tensor of shape "
                f"{tuple(lengths.shape)} and dtype {lengths.dtype}"
            )
        return lengths.long()
    return cygrad.tensor(list(lengths), dtype=cygrad.int64)


def _require_packed(function: str, argument: str, value: Any) -> None:
    if not isinstance(value, PackedSequence):
        raise TypeError(f"{function}(): argument '{argument}' must be PackedSequence, not {type(value).__name__}")


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences.

    Parameters
    ----------
    input : Tensor, shape (T, B, *), or (B, T, *) with `batch_first`
    lengths : Tensor or list of int
        Length of each sequence, at least 1.
    batch_first : bool
        See `input`.
    enforce_sorted : bool
        Ask that lengths fall; otherwise the sequences are sorted here.

    Raises
    ------
    RuntimeError
        If the lengths do not fit the input, one is 0, or they do not fall.
    """
    require_tensor("pack_padded_sequence", "input", input)
    lengths = _lengths(lengths)
    order = None
    if not enforce_sorted:
        lengths, order = lengths.cpu().sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    steps = input.transpose(0, 1) if batch_first else input
    sizes = lengths.tolist()
    if len(sizes) != steps.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={steps.shape[1]})"
        )
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element that is <= 0: {sizes}"
        )
    if sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            f"`enforce_sorted=False`: {sizes}"
        )
    if sizes[0] > steps.shape[0]:
        raise RuntimeError(f"Expected sequences of at most {steps.shape[0]} steps, got the length {sizes[0]}")
    counts = [sum(size > t for size in sizes) for t in range(sizes[0])]
    data = cygrad.cat([steps[t, :count] for t, count in enumerate(counts)])
    return PackedSequence(data, cygrad.tensor(counts, dtype=cygrad.int64), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool
        Whether the result has shape (B, T, *) or (T, B, *).
    padding_value : float
        What stands behind the end of a sequence.
    total_length : int, optional
        T, if it is to be larger than the longest sequence.

    Returns
    -------
    padded : Tensor
    lengths : Tensor of int64, shape (B,)

    Raises
    ------
    ValueError
        If `total_length` is less than the longest length.
    """
    _require_packed("pad_packed_sequence", "sequence", sequence)
    counts = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(counts):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {len(counts)}"
        )
    steps = list(sequence.data.split(counts))
    batch = counts[0]
    padded = [
        cygrad.cat([step, step.new_full((batch - n, *step.shape[1:]), padding_value)]) if n < batch else step
        for step, n in zip(steps, counts, strict=True)
    ]
    if total_length is not None and total_length > len(counts):
        padded += [padded[0].new_full(padded[0].shape, padding_value)] * (total_length - len(counts))
    result = cygrad.stack(padded, 1 if batch_first else 0)
    lengths = cygrad.tensor([sum(count > i for count in counts) for i in range(batch)], dtype=cygrad.int64)
    if sequence.unsorted_indices is not None:
        result = result.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return result, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, padded to the longest.

    Parameters
    ----------
    sequences : iterable of Tensor, shapes (T_i, *)
    batch_first : bool
        Whether the result has shape (B, T, *) or (T, B, *).
    padding_value : float
        What is put behind, or before.
    padding_side : {"right", "left"}

    Raises
    ------
    RuntimeError
        If the sides are another word or there is no sequence.
    """
    if padding_side not in ("right", "left"):
        raise RuntimeError(f"padding_side must be 'right' or 'left', got {padding_side!r}")
    items = (
        list(sequences.unbind(0))
        if isinstance(sequences, Tensor)
        else tensors_of("pad_sequence", "sequences", sequences)
    )
    if not items:
        raise RuntimeError("received an empty list of sequences")
    longest = max(item.shape[0] for item in items)
    padded = []
    for item in items:
        fill = item.new_full((longest - item.shape[0], *item.shape[1:]), padding_value)
        padded.append(cygrad.cat([item, fill] if padding_side == "right" else [fill, item]))
    return cygrad.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Undo `pad_sequence`: the sequences without their padding."""
    require_tensor("unpad_sequence", "padded_sequences", padded_sequences)
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows.unbind(0), _lengths(lengths).tolist(), strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences; see `pack_padded_sequence`."""
    sequences = tensors_of("pack_sequence", "sequences", sequences)
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Undo `pack_sequence`: the sequences of a packed one."""
    _require_packed("unpack_sequence", "packed_sequences", packed_sequences)
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

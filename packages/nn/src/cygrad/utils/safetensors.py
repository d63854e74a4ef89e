"""Weights files in the safetensors format: a header and raw numbers, from which nothing can run.

The functions are named as in ``safetensors.torch``. The format itself is read and written by the safetensors library.
"""

from __future__ import annotations

import errno
import json
import math
import mmap
import os
import struct
from collections.abc import Collection, Mapping
from typing import Any

import safetensors
from safetensors import SafetensorError, TensorSpec

import cygrad
from cygrad import Tensor
from cygrad.utils.files import replacing

__all__ = ["SafetensorError", "load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]

# Element types by their names in the format.
_DTYPES = {
    "BOOL": cygrad.bool,
    "U8": cygrad.uint8,
    "I8": cygrad.int8,
    "U16": cygrad.uint16,
    "I16": cygrad.int16,
    "U32": cygrad.uint32,
    "I32": cygrad.int32,
    "U64": cygrad.uint64,
    "I64": cygrad.int64,
    "F16": cygrad.float16,
    "BF16": cygrad.bfloat16,
    "F32": cygrad.float32,
    "F64": cygrad.float64,
    "C64": cygrad.complex64,
}
_LENGTH = struct.Struct("<Q")  # of the header, at the beginning of a file


def save(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return tensors as the bytes of a safetensors file.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        Contiguous tensors that share no memory.
    metadata : dict of str to str, optional
        Text that is kept in the header.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If it is no mapping of str to Tensor, or a tensor is not contiguous.
    RuntimeError
        If two tensors share memory; the message names both.
    """
    specs, _copies = _specs(tensors)
    return bytes(safetensors.serialize(specs, metadata=metadata))


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a file, which afterwards is either complete or as it was before.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        Contiguous tensors that share no memory.
    filename : path
        An existing file is replaced at the end.
    metadata : dict of str to str, optional
        Text that is kept in the header.

    Raises
    ------
    ValueError
        If it is no mapping of str to Tensor, or a tensor is not contiguous.
    RuntimeError
        If two tensors share memory; the message names both.
    OSError
        If the file cannot be written; FileNotFoundError if its folder does not exist.
    """
    specs, _copies = _specs(tensors)
    try:
        with replacing(filename, "a weights file") as part:
            safetensors.serialize_file(specs, part, metadata=metadata)
    except SafetensorError as error:
        raise OSError(errno.EIO, f"the weights file could not be written ({error})", os.fspath(filename)) from error


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a safetensors file; errors are those of `load_file`."""
    safetensors.deserialize(data)  # checks everything that the header says
    return {name: tensor.clone() for name, tensor in _Contents(data, "the data").tensors().items()}


def load_file(filename: str | os.PathLike, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, without reading it.

    The file is mapped: what is not used is not read, and what is written to the tensors stays in memory. Until they are
    gone, nobody may write into the file; that it is replaced, as `save_file` does, does no harm.

    Parameters
    ----------
    filename : path
    device : str or device, default "cpu"
        Where the tensors go.

    Returns
    -------
    dict of str to Tensor

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    SafetensorError
        If it is truncated, damaged or of another format; the message names file and reason.
    TypeError
        If it has a tensor of an element type that is not supported; the message names both.
    """
    with safe_open(filename, device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


class safe_open:
    """A safetensors file of which single tensors, and parts of them, are wanted. It is mapped, as by `load_file`.

    Parameters
    ----------
    filename : path
    framework : str, default "pt"
        "pt": cygrad's tensors take the place of PyTorch's.
    device : str or device, default "cpu"
        Where the tensors go.

    Raises
    ------
    FileNotFoundError, SafetensorError, TypeError
        As for `load_file`.
    """

    def __init__(self, filename: str | os.PathLike, framework: str = "pt", device: Any = "cpu") -> None:
        if framework not in ("pt", "torch", "pytorch"):
            raise SafetensorError(f"framework {framework!r} is none of 'pt': use safe_open of the safetensors package")
        self._device = cygrad.device(device)
        name = os.fspath(filename)
        with open(filename, "rb") as file:
            try:
                with safetensors.safe_open(filename, framework="np"):
                    pass  # checks everything that the header says
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            except (SafetensorError, ValueError) as error:
                raise SafetensorError(f"{name}: not a complete safetensors file ({error})") from error
        self._contents = _Contents(data, name)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        pass  # the mapping goes with the last tensor over it

    def keys(self) -> list[str]:
        """Return the names of the tensors."""
        return list(self._contents.entries)

    def offset_keys(self) -> list[str]:
        """Return the names of the tensors, in the order in which they lie in the file."""
        return sorted(self._contents.entries, key=lambda name: self._contents.entries[name]["data_offsets"])

    def metadata(self) -> dict[str, str] | None:
        """Return the text in the header, None if there is none."""
        return self._contents.metadata

    def get_tensor(self, name: str) -> Tensor:
        """Return a tensor.

        Raises
        ------
        SafetensorError
            If the file has none of that name.
        """
        return self._contents.tensor(name).to(self._device)

    def get_slice(self, name: str) -> _Slice:
        """Return an object whose ``[...]`` gives parts of a tensor; it also has ``get_shape()`` and ``get_dtype()``."""
        return _Slice(self._contents.tensor(name), self._contents.entries[name]["dtype"], self._device)


class _Slice:
    def __init__(self, tensor: Tensor, dtype: str, device: Any) -> None:
        self.tensor = tensor
        self.dtype = dtype
        self.device = device

    def get_shape(self) -> list[int]:
        """Return the shape of the whole tensor."""
        return list(self.tensor.shape)

    def get_dtype(self) -> str:
        """Return the format's name of the element type."""
        return self.dtype

    def __getitem__(self, index: Any) -> Tensor:
        return self.tensor[index].to(self.device)


class _Contents:
    """What a header, which the library has checked, says of the bytes behind it."""

    def __init__(self, data: Any, name: str) -> None:
        self.data = data
        self.name = name
        length = _LENGTH.unpack_from(data)[0]
        self.start = _LENGTH.size + length
        self.entries: dict[str, Any] = json.loads(bytes(data[_LENGTH.size : self.start]))
        self.metadata: dict[str, str] | None = self.entries.pop("__metadata__", None)
        for key, entry in self.entries.items():
            if entry["dtype"] not in _DTYPES:
                raise TypeError(f"{name}: {key!r} has the unsupported element type {entry['dtype']}")

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, over these bytes."""
        return {name: self.tensor(name) for name in self.entries}

    def tensor(self, name: str) -> Tensor:
        """One tensor, over these bytes where the processor can read it there."""
        if name not in self.entries:
            raise SafetensorError(f"{self.name}: it has no tensor {name!r}")
        entry = self.entries[name]
        dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
        count = math.prod(shape)
        if count == 0:
            return cygrad.empty(shape, dtype=dtype)
        start = self.start + entry["data_offsets"][0]
        if start % dtype.itemsize:
            part = bytearray(self.data[start : start + count * dtype.itemsize])
            return cygrad.frombuffer(part, dtype=dtype).view(shape)
        return cygrad.frombuffer(self.data, dtype=dtype, count=count, offset=start).view(shape)


def save_model(
    model: Any, filename: str | os.PathLike, metadata: dict[str, str] | None = None, force_contiguous: bool = True
) -> None:
    """Write the state of a module, tensors that share memory once.

    Parameters
    ----------
    model : Module
    filename : path
        An existing file is replaced at the end.
    metadata : dict of str to str, optional
        Text that is kept in the header; names that are left out are added to it, with the name that holds their values.
    force_contiguous : bool, default True
        Write tensors of other layouts as contiguous copies.

    Raises
    ------
    RuntimeError
        If tensors share memory and none of them contains all the others.
    ValueError
        If a tensor is not contiguous and `force_contiguous` is False.
    OSError
        As for `save_file`.
    """
    state = dict(model.state_dict())
    metadata = dict(metadata or {})
    for kept, names in _removable(state).items():
        for name in names:
            metadata.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(state, filename, metadata or None)


def load_model(
    model: Any, filename: str | os.PathLike, strict: bool = True, device: Any = "cpu"
) -> tuple[list[str], list[str]]:
    """Load a file that `save_model` wrote into a module.

    Parameters
    ----------
    model : Module
    filename : path
    strict : bool, default True
        Whether names that only one side has are an error; names that share memory with one that is there are not.
    device : str or device
        Where the file's tensors go first.

    Returns
    -------
    missing, unexpected : list of str
        Names that only the module, and only the file, has.

    Raises
    ------
    RuntimeError
        If names (with `strict`) or shapes differ; the module has not changed then.
    FileNotFoundError, SafetensorError
        As for `load_file`.
    """
    state = load_file(filename, device)
    own = model.state_dict()
    tied = {name: kept for kept, names in _removable(own, set(state)).items() for name in names}
    missing = sorted(name for name in own if name not in state and tied.get(name) not in state)
    unexpected = sorted(name for name in state if name not in own)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                lines.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names))
        raise RuntimeError("\n    ".join(lines))
    model.load_state_dict(state, strict=False)
    return missing, unexpected


def _span(tensor: Tensor) -> tuple[int, int]:
    """First and last byte (exclusive) that belong to a tensor."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (steps + 1) * tensor.element_size()


def _sharing(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """Groups of two or more names whose tensors overlap in memory."""
    spans = sorted((*_span(tensor), name) for name, tensor in tensors.items() if tensor.numel())
    groups: list[list[str]] = []
    reach = None
    for start, end, name in spans:
        if reach is not None and start < reach:
            groups[-1].append(name)
            reach = max(reach, end)
        else:
            groups.append([name])
            reach = end
    return [group for group in groups if len(group) > 1]


def _removable(state: Mapping[str, Tensor], preferred: Collection[str] = ()) -> dict[str, list[str]]:
    """For groups that share memory: the name to keep, and those that it makes superfluous."""
    removable = {}
    for group in _sharing(state):
        spans = {name: _span(state[name]) for name in group}
        whole = min(start for start, _ in spans.values()), max(end for _, end in spans.values())
        covering = sorted(name for name in group if spans[name] == whole)
        if not covering:
            raise RuntimeError(f"the tensors {sorted(group)} share memory, but none of them contains all the others")
        kept = next((name for name in covering if name in preferred), covering[0])
        removable[kept] = sorted(set(group) - {kept})
    return removable


def _specs(tensors: Mapping[str, Tensor]) -> tuple[dict[str, TensorSpec], dict[str, Tensor]]:
    """What the library is told of tensors, if a file can hold them; and the tensors that it reads, on the CPU."""
    if not isinstance(tensors, Mapping):
        raise ValueError(f"a mapping of str to Tensor is wanted, got {type(tensors).__name__}")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f"a mapping of str to Tensor is wanted, got {name!r}: {type(tensor).__name__}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"{name!r} is not contiguous (shape {tuple(tensor.shape)}, stride {tensor.stride()}): save "
                "contiguous() of it"
            )
        if tensor.dtype not in _DTYPES.values():
            raise ValueError(f"{name!r} has the dtype {tensor.dtype}, which a safetensors file cannot hold")
    groups = _sharing(tensors)
    if groups:
        raise RuntimeError(
            f"some tensors share memory and would come back as separate ones: {groups}; save one of each group, or "
            "the whole module by save_model"
        )
    read = {name: tensor.cpu() for name, tensor in tensors.items()}
    specs = {
        name: TensorSpec(
            dtype=repr(tensor.dtype).removeprefix("torch."),
            shape=tuple(tensor.shape),
            data_ptr=tensor.data_ptr(),
            data_len=tensor.numel() * tensor.element_size(),
        )
        for name, tensor in read.items()
    }
    return specs, read

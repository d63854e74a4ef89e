"""Weights files in the safetensors format: a header and raw numbers, from which nothing can run.

The functions are named as in ``safetensors.torch``. The format itself is read and written by the safetensors library.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError, safe_open

import cygrad
from cygrad import Tensor
from cygrad.utils.files import replacing

__all__ = ["SafetensorError", "load", "load_file", "load_model", "save", "save_file", "save_model"]

# Names of the file format for element types that numpy can hand over.
_DTYPES = ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "F32", "F64", "C64")


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
    return safetensors.numpy.save(_arrays(tensors), metadata=metadata)


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
    arrays = _arrays(tensors)
    try:
        with replacing(filename, "a weights file") as part:
            safetensors.numpy.save_file(arrays, part, metadata=metadata)
    except SafetensorError as error:
        raise OSError(errno.EIO, f"the weights file could not be written ({error})", os.fspath(filename)) from error


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a safetensors file; errors are those of `load_file`."""
    try:
        arrays = safetensors.numpy.load(data)
    except KeyError as error:
        raise TypeError(f"the data has a tensor of the unsupported element type {error}") from error
    return {name: cygrad.from_numpy(array.copy()) for name, array in arrays.items()}


def load_file(filename: str | os.PathLike, device: Any = "cpu") -> dict[str, Tensor]:
    """Return the tensors of a safetensors file.

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
    with open(filename, "rb"):
        pass  # the usual errors for files that cannot be read
    try:
        with safe_open(filename, framework="np") as file:
            names = list(file.keys())
            for name in names:
                dtype = file.get_slice(name).get_dtype()
                if dtype not in _DTYPES:
                    raise TypeError(f"{os.fspath(filename)}: {name!r} has the unsupported element type {dtype}")
            arrays = {name: file.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise SafetensorError(f"{os.fspath(filename)}: not a complete safetensors file ({error})") from error
    return {name: cygrad.from_numpy(array).to(device) for name, array in arrays.items()}


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


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The tensors as numpy arrays over the same memory, if a file can hold them."""
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
    groups = _sharing(tensors)
    if groups:
        raise RuntimeError(
            f"some tensors share memory and would come back as separate ones: {groups}; save one of each group, or "
            "the whole module by save_model"
        )
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}

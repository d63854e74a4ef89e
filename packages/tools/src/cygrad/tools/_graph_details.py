"""What is known of a vertex beyond its label: shapes, saved tensors, storages, views, the user's line, the module."""

import linecache

from cygrad.autograd._core import _kept_by, _line_of, _memory_of


class Storages:
    """Numbers memories in the order in which they are met; valid while the tensors that were asked about live."""

    def __init__(self):
        self._numbers = {}

    def of(self, tensor):
        """Return (number, bytes) of the memory of a tensor."""
        address, size = _memory_of(tensor)
        return self._numbers.setdefault(address, len(self._numbers)), size


def of_tensor(tensor, storages, name_of):
    """Details of a tensor that is there: ``shape``, ``dtype``, ``bytes``, ``storage``, ``version``, ``view_of``."""
    number, size = storages.of(tensor)
    details = {
        "shape": list(tensor.shape),
        "dtype": dtype_text(tensor.dtype),
        "bytes": tensor.numel() * tensor.element_size(),
        "storage": number,
        "storage_bytes": size,
        "version": tensor._version,
    }
    base = tensor._base
    if base is not None:
        details["view_of"] = name_of(base) or f"{tuple(base.shape)} {dtype_text(base.dtype)}"
    return details


def of_node(node, storages):
    """Details of an operation: ``outputs``, ``sequence``, ``line``, ``saved``, ``saved_bytes``."""
    details = {"outputs": [output(meta) for meta in node._output_meta], "sequence": node._sequence_nr()}
    line = _line_of(node)
    if line is not None:
        details["line"] = line_details(line)
    saved = [_kept(*entry, storages) for entry in _kept_by(node)]
    if saved:
        details["saved"] = saved
        details["saved_bytes"] = sum(entry.get("bytes", 0) for entry in saved)
    return details


def _kept(name, value, packed, storages):
    if not hasattr(value, "untyped_storage"):  # what a pack hook made of it
        return {"name": name, "packed": type(value).__name__}
    number, _ = storages.of(value)
    size = value.numel() * value.element_size()
    entry = {"name": name, "shape": list(value.shape), "dtype": dtype_text(value.dtype), "bytes": size}
    return entry | {"storage": number} | ({"packed": "Tensor"} if packed else {})


def output(meta):
    """Shape and dtype of an output that a node knows, or None."""
    return None if meta is None else {"shape": list(meta[0]), "dtype": dtype_text(meta[1])}


def line_details(line):
    """A line of the user's program, with its text where the file is there."""
    file, number, function, call = line
    details = {"file": file, "number": number, "function": function}
    source = linecache.getline(file, number).strip()
    return details | ({"source": source} if source else {}) | ({"call": call} if call else {})


def dtype_text(dtype):
    return str(dtype).removeprefix("torch.")

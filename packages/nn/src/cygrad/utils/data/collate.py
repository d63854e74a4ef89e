"""From samples to batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import cygrad
from cygrad import Tensor

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]


def default_convert(data: Any) -> Any:
    """Turn the numpy arrays and numbers in a nested sample into tensors, and leave the rest as it is.

    Parameters
    ----------
    data : object
        Mappings and sequences are converted inside; tuples become lists, named tuples stay.

    Returns
    -------
    object
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "SUO" else cygrad.as_tensor(data)
    if isinstance(data, (np.number, np.bool_)):
        return cygrad.as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return rebuilt_sequence(data, [default_convert(value) for value in data])
    return data


def rebuilt_mapping(like: Any, values: dict) -> Any:
    """A mapping of the type of `like`, with its other properties, if that type can be made."""
    try:
        if isinstance(like, MutableMapping):
            clone = copy.copy(like)
            clone.update(values)
            return clone
        return type(like)(values)
    except TypeError:
        return values


def rebuilt_sequence(like: Any, values: list) -> Any:
    """A sequence of the type of `like`, with its other properties, if that type can be made."""
    try:
        if isinstance(like, MutableSequence):
            clone = copy.copy(like)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(like)(values)
    except TypeError:
        return values


def _collate_tensors(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    return cygrad.stack(list(batch), 0)


def _collate_arrays(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise _cannot_collate(f"a numpy array of {batch[0].dtype}")
    return collate([cygrad.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _collate_numpy_numbers(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    return cygrad.as_tensor(np.asarray(batch))


def _collate_floats(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    return cygrad.tensor(list(batch), dtype=cygrad.float64)


def _collate_ints(batch: Any, *, collate_fn_map: dict | None = None) -> Tensor:
    return cygrad.tensor(list(batch))


def _collate_text(batch: Any, *, collate_fn_map: dict | None = None) -> Any:
    return batch


default_collate_fn_map: dict[Any, Callable] = {
    Tensor: _collate_tensors,
    np.ndarray: _collate_arrays,
    (np.bool_, np.number): _collate_numpy_numbers,
    float: _collate_floats,
    int: _collate_ints,
    str: _collate_text,
    bytes: _collate_text,
}


def _cannot_collate(what: str) -> TypeError:
    return TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists, got {what}")


def collate(batch: Any, *, collate_fn_map: dict[Any, Callable] | None = None) -> Any:
    """Put samples together, by the type of the first one.

    Parameters
    ----------
    batch : sequence
        Samples of one structure.
    collate_fn_map : dict, optional
        From a type, or a tuple of types, to a function ``f(batch, *, collate_fn_map)``. An exact type wins over a
        base class; mappings and sequences that it does not name are gone into.

    Returns
    -------
    object
        The structure of one sample, with a batch in each place; tuples become lists.

    Raises
    ------
    RuntimeError
        If the samples are sequences of different lengths.
    TypeError
        If there is no function for a type.
    """
    first = batch[0]
    functions = collate_fn_map or {}
    function = functions.get(type(first)) or next((f for kind, f in functions.items() if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return rebuilt_mapping(first, columns)
    if not isinstance(first, Sequence):
        raise _cannot_collate(str(type(first)))
    named = isinstance(first, tuple) and hasattr(first, "_fields")
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1 and not named:
        raise RuntimeError(f"each element in list of batch should be of equal size, got sizes {sorted(lengths)}")
    values = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=False)]
    if named:
        return type(first)(*values)
    return values if isinstance(first, tuple) else rebuilt_sequence(first, values)


def default_collate(batch: Any) -> Any:
    """Put samples together as `DataLoader` does unless told otherwise.

    Parameters
    ----------
    batch : sequence
        Samples: tensors, numpy arrays or numbers, Python numbers, text, and mappings and sequences of them.

    Returns
    -------
    object
        The structure of one sample. Tensors and arrays are stacked, Python floats become float64, integers int64,
        text stays a list.

    Raises
    ------
    RuntimeError
        If tensors differ in shape or sequences in length.
    TypeError
        If something else is found.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)

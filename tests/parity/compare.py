"""What two outcomes of the same call have to have in common, and in which words they differ."""

import numbers

import torch
from tensors import dtype_name, to_torch

# Relative and absolute differences that are no difference, by the dtype of the result.
TOLERANCE = {
    torch.float16: (4e-3, 2e-3), torch.bfloat16: (3.2e-2, 1e-2), torch.float32: (2e-5, 1e-5),
    torch.float64: (1e-7, 1e-9), torch.complex64: (2e-5, 1e-5), torch.complex128: (1e-7, 1e-9),
}


# Errors that are mistakes of PyTorch's own, of embedding_bag for empty bags and of norms for no channels.
MISTAKES = ("INTERNAL ASSERT FAILED", "step must be nonzero", "select(): index 0 out of range for tensor of size [0")


def is_sequence(x):
    return isinstance(x, list | tuple) and type(x).__name__ != "Size"


def flat(result):
    """The parts of a result, in order."""
    return [y for x in result for y in flat(x)] if is_sequence(result) else [result]


def fields(result):
    """Names that a returned tuple gives to its parts."""
    names = getattr(result, "_fields", None)
    if names is None and hasattr(result, "n_fields"):
        names = type(result).__match_args__
    return names or ()


def structure(theirs, ours):
    """The first difference in how the results are put together."""
    if is_sequence(theirs) != is_sequence(ours):
        return f"type: a {type(ours).__name__} instead of a {type(theirs).__name__}"
    if is_sequence(theirs):
        if len(theirs) != len(ours):
            return f"type: {len(ours)} results instead of {len(theirs)}"
        if isinstance(theirs, list) != isinstance(ours, list):
            return f"type: a {type(ours).__name__} instead of a {type(theirs).__name__}"
        lacking = [n for n in fields(theirs) if not hasattr(ours, n)]
        if lacking:
            return f"type: result without the field {lacking[0]}"
        return next((d for a, b in zip(theirs, ours, strict=True) if (d := structure(a, b))), None)
    return None


def values(theirs, ours, scale=1.0):
    """The first difference between two tensors' values: both torch's, of one shape and dtype."""
    if theirs.numel() == 0:
        return None
    if not (theirs.dtype.is_floating_point or theirs.dtype.is_complex):
        bad = theirs != ours
    else:
        rtol, atol = (scale * t for t in TOLERANCE[theirs.dtype])
        wide = torch.complex128 if theirs.dtype.is_complex else torch.float64
        bad = ~torch.isclose(ours.to(wide), theirs.to(wide), rtol=rtol, atol=atol, equal_nan=True)
        if theirs.dtype.is_complex and bad.any():
            bad &= ~(torch.isnan(theirs) & torch.isnan(ours))
    if not bad.any():
        return None
    where = tuple(bad.nonzero()[0].tolist())
    return f"{ours[where].item()!r} instead of {theirs[where].item()!r} at {list(where)}"


def tensors(theirs, ours, *, strides=True, content=True, scale=1.0, ties=None, what="result"):
    """The first difference between a torch tensor and ours. ties: the tensor in which both are places, and the dim."""
    if dtype_name(theirs.dtype) != dtype_name(ours.dtype):
        return f"{what} dtype: {dtype_name(ours.dtype)} instead of {dtype_name(theirs.dtype)}"
    if tuple(theirs.shape) != tuple(ours.shape):
        return f"{what} shape: {tuple(ours.shape)} instead of {tuple(theirs.shape)}"
    if strides and theirs.numel():
        long = [i for i, n in enumerate(theirs.shape) if n > 1]
        a, b = ([x.stride()[i] for i in long] for x in (theirs, ours))
        if a != b:
            return f"{what} strides: {ours.stride()} instead of {theirs.stride()} (shape {tuple(theirs.shape)})"
    if content:
        difference = values(theirs.detach().resolve_conj().resolve_neg(), to_torch(ours), scale)
        if difference and ties and same_elements(theirs, ours, *ties):
            return None
        return difference and f"{what} value: {difference}"
    return None


def same_elements(theirs, ours, x, dim):
    """Whether two results are different places of equal elements of x along `dim`, none of them twice."""
    ours = to_torch(ours)
    if theirs.dtype != torch.int64 or ours.dtype != torch.int64 or x.ndim == 0:
        return False
    if theirs.ndim < x.ndim:
        theirs, ours = theirs.unsqueeze(dim), ours.unsqueeze(dim)
    if ours.numel() and not 0 <= int(ours.min()) <= int(ours.max()) < x.shape[dim]:
        return False
    if (ours.sort(dim)[0].diff(dim=dim) == 0).any():
        return False
    return values(x.detach().gather(dim, theirs), x.detach().gather(dim, ours)) is None


def numbers_(theirs, ours):
    if isinstance(theirs, torch.Size) and type(ours).__name__ == "Size":
        return None if tuple(theirs) == tuple(ours) else f"result value: {tuple(ours)} instead of {tuple(theirs)}"
    if isinstance(theirs, torch.dtype):
        return None if dtype_name(theirs) == dtype_name(ours) else f"result value: {ours} instead of {theirs}"
    if type(theirs) is not type(ours):
        return f"type: a {type(ours).__name__} instead of a {type(theirs).__name__}"
    if isinstance(theirs, numbers.Number):
        same = theirs == ours or (theirs != theirs and ours != ours) or abs(theirs - ours) <= 1e-5 * abs(theirs)
        return None if same else f"result value: {ours!r} instead of {theirs!r}"
    return None if theirs == ours else f"result value: {ours!r} instead of {theirs!r}"


def errors(theirs, ours):
    """The first difference between two outcomes of which one is an exception."""
    if theirs is NotImplemented and isinstance(ours, TypeError):
        return None     # what an operator's method says of operands that it does not know
    if not isinstance(ours, Exception) and str(theirs).startswith(("the derivative for", "derivative for")):
        return None     # there is one here
    if str(ours).startswith("unsupported operation: more than one element of the written-to tensor"):
        return None     # ours refuses every write into memory that overlaps itself, PyTorch most
    if any(mistake in str(theirs) for mistake in MISTAKES):
        return None
    if not isinstance(theirs, Exception):
        return f"raises {type(ours).__name__}: {str(ours)[:160]}"
    if not isinstance(ours, Exception):
        return f"accepts what raises {type(theirs).__name__}: {str(theirs).splitlines()[0][:120]}"
    wanted, got = type(theirs), type(ours)
    # Torch's linear algebra error is one of ours by name; NotImplementedError says that a kernel is missing there.
    names = {c.__name__ for c in got.__mro__}
    if wanted.__name__.strip("_") in {n.strip("_") for n in names} or (
        wanted is NotImplementedError and issubclass(got, RuntimeError | TypeError)
    ):
        return None
    said = f"{str(ours)[:100]} | {str(theirs).splitlines()[0][:100]}"
    return f"raises {got.__name__} instead of {wanted.__name__} ({said})"


def owner(tensor, memory):
    """The number of the input whose memory this tensor is in, if any."""
    return memory.get(tensor.untyped_storage().data_ptr()) if tensor.numel() else None


def addresses(made):
    return {x.untyped_storage().data_ptr(): i for i, x in enumerate(made) if x.numel()}


def aliasing(theirs, ours, their_inputs, our_inputs, exact=True):
    """The first difference in which results share memory with which inputs, and where.

    exact: the strides of dimensions of size 1, which matter to views only, count too.
    """
    a, b = addresses(their_inputs), addresses(our_inputs)
    for i, (t, o) in enumerate(zip(theirs, ours, strict=True)):
        if not isinstance(t, torch.Tensor) or not t.numel():
            continue
        x, y = owner(t, a), owner(o, b)
        if (x is None) != (y is None):
            return f"alias: result {i} shares memory with input {y} instead of {x}"
        places = [tuple(s for s, n in zip(r.stride(), t.shape, strict=True) if exact or n > 1) for r in (t, o)]
        if x is not None and (t.storage_offset() != o.storage_offset() or places[0] != places[1]):
            return (f"alias: result {i} lies at {o.storage_offset()} with strides {tuple(o.stride())} instead of "
                    f"{t.storage_offset()}, {tuple(t.stride())} (shape {tuple(t.shape)})")
    return None

"""Arguments of a call, as a recipe from which the same tensors are made in both libraries, fresh for every call."""

import copy
from dataclasses import dataclass

import numpy as np
import torch

DTYPES = (
    "bool", "uint8", "int8", "int16", "int32", "int64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)
FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


class Lacking(Exception):
    """The other library has no such dtype or constant: the call cannot be made at all."""


def dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


def named(lib, name):
    if not hasattr(lib, name):
        raise Lacking(name)
    return getattr(lib, name)


@dataclass
class Recipe:
    """A strided view of memory, which several recipes may share (then ``flat`` is the same object)."""

    flat: torch.Tensor      # one-dimensional, contiguous; never handed out, only copies of it
    size: tuple
    stride: tuple
    offset: int
    requires_grad: bool

    @property
    def dtype(self):
        return self.flat.dtype

    def values(self):
        """Its elements as a torch tensor that shares the recipe's memory."""
        return self.flat.as_strided(self.size, self.stride, self.offset)

    def make(self, lib, made):
        """The tensor in ``lib``; ``made`` maps memory that was already made."""
        key = id(self.flat)
        if key not in made:
            made[key] = self.flat.clone() if lib is torch else to_lib(lib, self.flat)
        tensor = made[key].as_strided(self.size, self.stride, self.offset)
        return tensor.requires_grad_() if self.requires_grad else tensor

    def literal(self, name, bases):
        """Statements that make it, for a reader who has neither this file nor the samples."""
        lines = []
        if id(self.flat) not in bases:
            bases[id(self.flat)] = base = f"base_{name}"
            lines.append(f"{base} = lib.tensor({self.flat.tolist()!r}, dtype=lib.{dtype_name(self.dtype)})")
        grad = ".requires_grad_()" if self.requires_grad else ""
        base = bases[id(self.flat)]
        lines.append(f"{name} = {base}.as_strided({self.size}, {self.stride}, {self.offset}){grad}")
        return lines


def to_lib(lib, tensor):
    """A copy of a contiguous torch tensor."""
    dtype = named(lib, dtype_name(tensor.dtype))
    if tensor.dtype is torch.bfloat16:
        return lib.from_numpy(tensor.float().numpy()).to(dtype)
    return lib.from_numpy(np.array(tensor.numpy(), copy=True))


def to_torch(tensor):
    """A copy of a tensor of the other library."""
    name = dtype_name(tensor.dtype)
    plain = tensor.detach()
    if name == "bfloat16":
        return torch.from_numpy(np.array(plain.float().numpy(), copy=True)).bfloat16()
    return torch.from_numpy(np.array(plain.numpy(), copy=True))


def recipe(tensor, memory):
    """What makes this torch tensor again; ``memory`` keeps what tensors share."""
    requires_grad = tensor.requires_grad and tensor.is_leaf
    tensor = tensor.detach().resolve_conj().resolve_neg()
    storage = tensor.untyped_storage()
    key = (storage.data_ptr(), tensor.dtype)
    if key not in memory or not storage.nbytes():
        whole = torch.empty(0, dtype=tensor.dtype).set_(storage) if storage.nbytes() else tensor.reshape(-1)
        memory[key] = (whole.clone(), storage)      # the storage is kept, so that its address stays its own
    return Recipe(memory[key][0], tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), requires_grad)


def recipes(tree, memory):
    """The tree with recipes in place of tensors."""
    return walk(tree, lambda x: recipe(x, memory) if isinstance(x, torch.Tensor) else x)


def walk(tree, f):
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(walk(x, f) for x in tree))
    if isinstance(tree, torch.Size):
        return f(tree)
    if isinstance(tree, list | tuple):
        return type(tree)(walk(x, f) for x in tree)
    if isinstance(tree, dict):
        return {k: walk(v, f) for k, v in tree.items()}
    if isinstance(tree, slice):
        return slice(*(walk(x, f) for x in (tree.start, tree.stop, tree.step)))
    return f(tree)


def leaves(tree, kind):
    found = []
    walk(tree, lambda x: found.append(x) if isinstance(x, kind) else None)
    return found


def make(lib, tree, made=None):
    """The tree with tensors of ``lib``, and what torch calls by its own objects by those of ``lib``."""
    made = {} if made is None else made

    def one(x):
        if isinstance(x, Recipe):
            return x.make(lib, made)
        if lib is torch:
            return x
        if isinstance(x, torch.dtype):
            return named(lib, dtype_name(x))
        if isinstance(x, torch.Size):
            return tuple(x)
        if isinstance(x, torch.device):
            return lib.device(str(x))
        if isinstance(x, torch.layout):
            return named(lib, str(x).removeprefix("torch."))
        if isinstance(x, torch.memory_format):
            return named(lib, str(x).removeprefix("torch."))
        if callable(x) and not isinstance(x, type):         # a distance, say, that is an argument
            from translate import translate

            return translate(x)
        return x

    return walk(tree, one)


# ---- layouts

LAYOUTS = ("contiguous", "transposed", "step", "offset", "expanded", "narrowed")


def laid_out(r, layout):
    """The recipe's values in another layout, in memory of its own. ``expanded`` repeats its first row."""
    x = r.values()
    if layout == "contiguous" or x.numel() == 0:
        y = x.contiguous().clone()
    elif layout == "transposed":
        order = tuple(range(x.dim()))[::-1]
        y = x.permute(order).contiguous().permute(order)
        y = y.clone(memory_format=torch.preserve_format)
    elif layout == "step":
        big = x.new_zeros([2 * n + 1 for n in x.shape] or [3])
        y = big[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)] if x.dim() else big[1]
        y.copy_(x)
    elif layout == "offset":
        y = x.new_zeros(x.numel() + 3)[3:].view(x.shape)
        y.copy_(x)
    elif layout == "narrowed":
        big = x.new_zeros([*x.shape[:-1], x.shape[-1] + 2] if x.dim() else [2])
        y = big[..., 1 : x.shape[-1] + 1] if x.dim() else big[1]
        y.copy_(x)
    else:
        y = x[:1].clone().expand(x.shape) if x.dim() else x.clone()
    made = recipe(y, {})
    made.requires_grad = r.requires_grad
    return made


def shrunk(r, shape):
    """One or no element of the recipe, as a tensor of this shape."""
    x = r.values().reshape(-1)
    x = x[:1].reshape(()) if x.numel() else x.new_zeros(())
    made = recipe(x.expand(shape).clone(), {})
    made.requires_grad = r.requires_grad
    return made


SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30)


def with_special(r, picks):
    """The recipe with some elements replaced by values at which functions change their behaviour."""
    made = copy.copy(r)
    made.flat = r.flat.clone()
    if r.dtype.is_floating_point and made.flat.numel():
        for position, value in picks:
            made.flat[position % made.flat.numel()] = SPECIAL[value % len(SPECIAL)]
    return made

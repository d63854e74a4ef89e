"""Operations of tensors as nodes of ONNX; those of layers are in `_onnx_layers`."""

import operator

import numpy as np

import cygrad
from cygrad.tools._onnx_trace import ExportError, Traced, composed, nodes

_UNARY = {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "abs": "Abs",
    "neg": "Neg", "negative": "Neg", "reciprocal": "Reciprocal", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "sign": "Sign", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
    "softsign": "Softsign", "logical_not": "Not", "isnan": "IsNaN", "isinf": "IsInf",
}  # fmt: skip
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "multiply": "Mul", "subtract": "Sub", "pow": "Pow"}
_COMPARED = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_FLOAT_ONLY = {"floor", "ceil", "round"}  # of integers they are the integers


def _register():
    for name, kind in _UNARY.items():
        nodes(name)(_unary(name, kind))
    for name, kind in _BINARY.items():
        nodes(name)(_binary(kind))
    for name, kind in (_COMPARED | _LOGICAL).items():
        nodes(name)(_compared(kind, name in _LOGICAL))


def _unary(name, kind):
    def add(t, y, input):
        if name in _FLOAT_ONLY and not y.is_floating_point():
            return t.name_of(input)
        dtype = y.dtype if y.dtype != cygrad.bool else cygrad.bool if name == "logical_not" else None
        return t.add(kind, [t.name_of(input, dtype)])

    return add


def _binary(kind):
    def add(t, y, input, other, *, alpha=1):
        right = t.name_of(other, y.dtype)
        if alpha != 1:
            right = t.add("Mul", [right, t.name_of(alpha, y.dtype)])
        if y.dtype == cygrad.bool:
            raise ExportError(f"{kind.lower()} of truth values cannot be exported; use logical_and, logical_or")
        return t.add(kind, [t.name_of(input, y.dtype), right])

    return add


def _compared(kind, logical):
    def add(t, y, input, other):
        dtype = cygrad.bool if logical else _common(input, other)
        return t.add(kind, [t.name_of(input, dtype), t.name_of(other, dtype)])

    return add


def _common(*values):
    """The dtype that a comparison is made in."""
    real = [v.value if isinstance(v, Traced) else v for v in values]
    return cygrad.result_type(*real)


@nodes("ne")
def _ne(t, y, input, other):
    dtype = _common(input, other)
    return t.add("Not", [t.add("Equal", [t.name_of(input, dtype), t.name_of(other, dtype)])])


@nodes("div", "true_divide", "divide")
def _div(t, y, input, other, *, rounding_mode=None):
    quotient = t.add("Div", [t.name_of(input, y.dtype), t.name_of(other, y.dtype)])
    if rounding_mode is None:
        return quotient
    if not y.is_floating_point():
        raise ExportError("divisions of integers with a rounding mode cannot be exported")
    floor = t.add("Floor", [quotient])
    if rounding_mode == "floor":
        return floor
    return t.add("Where", [t.add("Less", [quotient, t.name_of(0, y.dtype)]), t.add("Ceil", [quotient]), floor])


@nodes("maximum")
def _maximum(t, y, input, other):
    return t.add("Max", [t.name_of(input, y.dtype), t.name_of(other, y.dtype)])


@nodes("minimum")
def _minimum(t, y, input, other):
    return t.add("Min", [t.name_of(input, y.dtype), t.name_of(other, y.dtype)])


@nodes("where")
def _where(t, y, condition, input, other):
    return t.add("Where", [condition, t.name_of(input, y.dtype), t.name_of(other, y.dtype)])


@nodes("masked_fill")
def _masked_fill(t, y, input, mask, value):
    return t.add("Where", [mask, t.name_of(value, y.dtype), t.name_of(input, y.dtype)])


@nodes("clamp", "clip")
def _clamp(t, y, input, min=None, max=None):
    if any(isinstance(limit, (Traced, cygrad.Tensor)) for limit in (min, max)):
        raise ExportError("clamp with tensors as limits cannot be exported")
    limits = [None if limit is None else t.name_of(limit, y.dtype) for limit in (min, max)]
    return t.add("Clip", [t.name_of(input, y.dtype), *limits])


# ---- products
@nodes("matmul", "mm", "bmm", "mv", "dot")
def _matmul(t, y, input, other):
    return t.add("MatMul", [input, other])


@nodes("addmm")
def _addmm(t, y, input, mat1, mat2, *, beta=1, alpha=1):
    return t.add("Gemm", [mat1, mat2, input], alpha=float(alpha), beta=float(beta))


@nodes("einsum")
def _einsum(t, y, equation, *operands):
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return t.add("Einsum", list(operands), equation=equation)


# ---- reductions
def _axes(t, dim):
    if dim is None or dim == ():
        return None
    return t.integers(*(dim if isinstance(dim, (list, tuple)) else [dim]))


def _reduction(kind, converts):
    def add(t, y, input, dim=None, keepdim=False, *, dtype=None):
        source = t.name_of(input, y.dtype if converts else None)
        return t.add(kind, [source, _axes(t, dim)], keepdims=int(keepdim))

    return add


for _name, _kind, _converts in (
    ("sum", "ReduceSum", True),
    ("mean", "ReduceMean", True),
    ("amax", "ReduceMax", False),
    ("amin", "ReduceMin", False),
    ("logsumexp", "ReduceLogSumExp", True),
):
    nodes(_name)(_reduction(_kind, _converts))


@nodes("max")
def _max(t, y, input, dim=None, keepdim=False):
    return _both(t, y, "Max", input, dim, keepdim)


@nodes("min")
def _min(t, y, input, dim=None, keepdim=False):
    return _both(t, y, "Min", input, dim, keepdim)


def _both(t, y, kind, input, dim, keepdim):
    """An extremum, and its place where a dimension is given; of two tensors, the larger or smaller elements."""
    if isinstance(dim, (Traced, cygrad.Tensor)):
        return t.add(kind, [t.name_of(input, y.dtype), t.name_of(dim, y.dtype)])
    if dim is None:
        return t.add(f"Reduce{kind}", [input], keepdims=0)
    values = t.add(f"Reduce{kind}", [input, t.integers(dim)], keepdims=int(keepdim))
    return values, t.add(f"Arg{kind}", [input], axis=dim, keepdims=int(keepdim))


@nodes("argmax")
def _argmax(t, y, input, dim=None, keepdim=False):
    return _arg(t, "ArgMax", input, dim, keepdim)


@nodes("argmin")
def _argmin(t, y, input, dim=None, keepdim=False):
    return _arg(t, "ArgMin", input, dim, keepdim)


def _arg(t, kind, input, dim, keepdim):
    if dim is None:
        flat = t.add("Reshape", [input, t.integers(-1)])
        return t.add(kind, [flat], axis=0, keepdims=0)
    return t.add(kind, [input], axis=dim, keepdims=int(keepdim))


@nodes("cumsum")
def _cumsum(t, y, input, dim, *, dtype=None):
    return t.add("CumSum", [t.name_of(input, y.dtype), t.constant(np.int64(dim))])


@composed("var")
def _var(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = correction if correction is not None else 1 if unbiased is None else int(unbiased)
    dims = tuple(range(input.dim())) if dim is None else tuple(dim) if isinstance(dim, (list, tuple)) else (dim,)
    count = 1
    for d in dims:
        count *= input.shape[d]
    away = input - input.mean(dims, keepdim=True)
    return (away * away).sum(dims, keepdim=keepdim) / max(0, count - correction)


@composed("std")
def _std(input, dim=None, unbiased=None, keepdim=False, *, correction=None):
    return _var(input, dim, unbiased, keepdim, correction=correction).sqrt()


# ---- shapes
def _reshaped(t, y, input):
    """A new shape; a first size that stays is said to stay, so that it may differ when the file is run."""
    sizes = list(y.shape)
    if t.dynamic and sizes and input.dim() and sizes[0] == input.shape[0] and sizes[0] != 0:
        sizes[0] = 0  # as in the input
    return t.add("Reshape", [input, t.integers(*sizes)], allowzero=0 if 0 not in y.shape else 1)


@nodes("view", "reshape", "unflatten", "flatten", "ravel", view=True)
def _reshape(t, y, input, *args, **kwargs):
    if args and isinstance(args[0], cygrad.dtype):
        raise ExportError("view of another dtype cannot be exported")
    return _reshaped(t, y, input)


@nodes("squeeze", "unsqueeze", view=True)
def _squeeze(t, y, input, *args, **kwargs):
    return _reshaped(t, y, input)


@nodes("permute", view=True)
def _permute(t, y, input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    return t.add("Transpose", [input], perm=[d % input.dim() for d in dims])


@nodes("transpose", "swapaxes", "swapdims", view=True)
def _transpose(t, y, input, dim0, dim1):
    perm = list(range(input.dim()))
    if perm:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return t.add("Transpose", [input], perm=perm)


@nodes("t", view=True)
def _t(t, y, input):
    return t.add("Transpose", [input], perm=list(range(input.dim()))[::-1])


@nodes("expand", "expand_as", "broadcast_to", view=True)
def _expand(t, y, input, *sizes, **kwargs):
    return t.add("Expand", [input, t.integers(*y.shape)])


@nodes("repeat", "tile")
def _repeat(t, y, input, *sizes):
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    sizes = (1,) * (input.dim() - len(sizes)) + tuple(sizes)
    wide = t.add("Reshape", [input, t.integers(*(1,) * (len(sizes) - input.dim()), *input.shape)])
    return t.add("Tile", [wide, t.integers(*sizes)])


@nodes("cat", "concat", "concatenate")
def _cat(t, y, tensors, dim=0):
    return t.add("Concat", [t.name_of(x, y.dtype) for x in tensors], axis=dim)


@nodes("stack")
def _stack(t, y, tensors, dim=0):
    dim %= y.dim()
    return t.add("Concat", [t.add("Unsqueeze", [t.name_of(x, y.dtype), t.integers(dim)]) for x in tensors], axis=dim)


@nodes("split", "chunk", "tensor_split", "split_with_sizes", view=True)
def _split(t, y, input, sizes=None, dim=0, **kwargs):
    made = t.add("Split", [input, t.integers(*(part.shape[dim] for part in y))], outputs=len(y), axis=dim)
    return made if len(y) > 1 else [made]


@nodes("unbind", view=True)
def _unbind(t, y, input, dim=0):
    return [t.add("Gather", [input, t.constant(np.int64(k))], axis=dim) for k in range(len(y))]


@nodes("select", view=True)
def _select(t, y, input, dim, index):
    return t.add("Gather", [input, t.constant(np.int64(index))], axis=dim)


@nodes("narrow", view=True)
def _narrow(t, y, input, dim, start, length):
    return t.add("Slice", [input, t.integers(start), t.integers(start + length), t.integers(dim)])


@nodes("index_select")
def _index_select(t, y, input, dim, index):
    return t.add("Gather", [input, index], axis=dim)


@nodes("gather")
def _gather(t, y, input, dim, index):
    if any(a != b for d, (a, b) in enumerate(zip(input.shape, index.shape, strict=True)) if d != dim % input.dim()):
        raise ExportError("gather with an index of another shape than the input cannot be exported")
    return t.add("GatherElements", [input, index], axis=dim)


@nodes("getitem", view=True)
def _getitem(t, y, input, index):
    parts = index if isinstance(index, tuple) else (index,)
    if sum(isinstance(p, (Traced, cygrad.Tensor, list)) for p in parts) > 1:
        raise ExportError("an index of several tensors cannot be exported")
    given = sum(p is not None and p is not Ellipsis and not isinstance(p, bool) for p in parts)
    name, dim, shape = t.name_of(input), 0, list(input.shape)
    starts, ends, axes, steps, picks, tensor = [], [], [], [], [], None
    for p in parts:
        if p is Ellipsis:
            dim += len(shape) - given
        elif isinstance(p, slice):
            start, stop, step = p.indices(shape[dim])
            if (start, stop, step) != (0, shape[dim], 1):
                starts, ends = [*starts, start], [*ends, stop if p.stop is not None else 2**31 - 1]
                axes, steps = [*axes, dim], [*steps, step]
            dim += 1
        elif p is None or isinstance(p, bool):
            continue
        elif isinstance(p, (Traced, cygrad.Tensor, list)):
            tensor, dim = (dim, p), dim + 1
        else:
            picks, dim = [*picks, (dim, operator.index(p))], dim + 1
    if axes:
        name = t.add("Slice", [name, *(t.integers(*part) for part in (starts, ends, axes, steps))])
    if tensor is not None:
        name = _taken(t, name, *tensor, alone=len(picks) == 0)
    for d, k in reversed(picks):
        name = t.add("Gather", [name, t.constant(np.int64(k))], axis=d)
    return t.add("Reshape", [name, t.integers(*y.shape)]) if any(p is None for p in parts) else name


def _taken(t, name, dim, index, alone):
    """What a tensor of integers picks."""
    index = cygrad.tensor(index) if isinstance(index, list) else index
    if index.dtype == cygrad.bool or not alone:
        raise ExportError("an index of truth values, or of tensors beside numbers, cannot be exported")
    return t.add("Gather", [name, index], axis=dim)


@nodes("tril")
def _tril(t, y, input, diagonal=0):
    return t.add("Trilu", [input, t.constant(np.int64(diagonal))], upper=0)


@nodes("triu")
def _triu(t, y, input, diagonal=0):
    return t.add("Trilu", [input, t.constant(np.int64(diagonal))], upper=1)


# ---- dtypes and copies
@nodes("to", "type", "float", "double", "half", "int", "long", "bool", "type_as")
def _to(t, y, input, *args, **kwargs):
    return t.name_of(input, y.dtype)


@nodes("contiguous", "clone", "detach", "requires_grad_", "cpu")
def _same(t, y, input, **kwargs):
    return t.name_of(input)


def _constant(name):
    def made(input, *args, **kwargs):
        return getattr(input.value, name)(*args, **kwargs)

    return made


for _name in ("new_zeros", "new_ones", "new_full", "new_tensor"):
    composed(_name)(_constant(_name))


@composed("zeros_like")
def _zeros_like(input, **kwargs):
    return cygrad.zeros(input.shape, **{"dtype": input.dtype} | kwargs)


@composed("ones_like")
def _ones_like(input, **kwargs):
    return cygrad.ones(input.shape, **{"dtype": input.dtype} | kwargs)


@composed("full_like")
def _full_like(input, value, **kwargs):
    return cygrad.full(input.shape, value, **{"dtype": input.dtype} | kwargs)


@composed("rsqrt")
def _rsqrt(input):
    return input.sqrt().reciprocal()


@composed("square")
def _square(input):
    return input * input


@composed("log1p")
def _log1p(input):
    return (input + 1).log()


@composed("expm1")
def _expm1(input):
    return input.exp() - 1


_register()

"""What programs ask about kinds of tensors that are not here (sparse, quantised, on other devices), and old names."""

from cygrad.storage import cuda as devices
from cygrad.storage.core import Storage
from cygrad.storage.core import device as Device
from cygrad.storage.typed import TypedStorage

from .. import _core
from .._core import Tensor, add_methods
from . import composed
from ._args import ints_arg, tensor_arg

NO_ACCELERATOR = "Cannot access accelerator device when none is available"


def constant(value, doc):
    return property(lambda self: value, doc=doc)


add_methods({
    **{f"is_{kind}": constant(False, f"Whether the tensor is {what}: no.") for kind, what in {
        "sparse": "sparse", "sparse_csr": "sparse by rows", "quantized": "quantised", "nested": "a list of tensors",
        "meta": "without memory", "mkldnn": "in oneDNN's layout", "xpu": "on an Intel GPU", "mps": "on an Apple GPU",
        "ipu": "on an IPU", "xla": "XLA's", "vulkan": "Vulkan's", "mtia": "on an MTIA", "maia": "on a MAIA",
    }.items()},
    "name": constant(None, "None: tensors have no names."),
    "volatile": constant(False, "False: old PyTorch's word for a tensor that records nothing."),
})


@composed("method")
def is_pinned(input: Tensor, device=None) -> bool:
    """Whether the memory is page-locked, so that CUDA devices read it on their own."""
    return devices.why_not() is None and devices.extension().is_pinned(input.untyped_storage())


@composed("method")
def pin_memory(input: Tensor, device=None) -> Tensor:
    """The tensor in page-locked memory, from which CUDA devices copy on their own; itself if it lies there already.

    Raises
    ------
    RuntimeError
        There is no CUDA device, or the tensor is on one.
    """
    if devices.why_not() is not None:
        raise RuntimeError(f"{NO_ACCELERATOR}: {devices.why_not()}")
    if input.is_cuda:
        raise RuntimeError(f"cannot pin {input.type()!r}: only tensors on the CPU can be pinned")
    if is_pinned(input):
        return input
    blank = _core.empty_like(input)
    memory = devices.extension().pinned_storage(blank.untyped_storage().nbytes())
    y = _core.empty(0, dtype=input.dtype, device=input.device).set_(memory, 0, blank.shape, blank.stride())
    y.copy_(input.detach())
    return y


@composed("method")
def record_stream(input: Tensor, stream) -> None:
    """Say that a stream uses the memory too, which is then not given to others before the stream is done with it."""
    if not input.is_cuda:
        raise RuntimeError("record_stream(): the tensor is on the CPU, whose memory no stream uses")
    devices.extension().record_stream(input.untyped_storage(), stream)


@composed("method")
def cuda(input: Tensor, device=None, non_blocking=False, memory_format=None) -> Tensor:
    """The tensor on a CUDA device, by default the current one.

    Raises
    ------
    RuntimeError
        There is none, or `device` is no CUDA device.
    """
    place = "cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else Device(device)
    if isinstance(place, Device) and place.type != "cuda":
        raise RuntimeError(f"Invalid device, must be cuda device: cuda() got {str(place)!r}")
    return input.to(place, non_blocking=non_blocking, memory_format=memory_format)


@composed("method")
def to_dense(input: Tensor, dtype=None, *, masked_grad=None) -> Tensor:
    """The tensor itself, which is no sparse one; in another dtype if one is given."""
    return input if dtype is None else input.to(dtype)


@composed("function method")
def dequantize(input: Tensor) -> Tensor:
    """The tensor itself as float32: it is not quantised."""
    return input.float()


@composed("function method")
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is spread over processes: no."""
    tensor_arg(input, "is_distributed")
    return False


@composed("method")
def dim_order(input: Tensor, *, ambiguity_check: bool = False) -> tuple:
    """The dimensions in the order in which they lie in memory, the outermost first; of equal strides, as they are.

    Raises
    ------
    RuntimeError
        With `ambiguity_check`, if some other order would describe the strides as well.
    """
    strides, sizes = input.stride(), input.shape
    order = tuple(sorted(range(input.dim()), key=lambda d: -strides[d]))
    if ambiguity_check and (len(set(strides)) < len(strides) or any(n < 2 for n in sizes)):
        raise RuntimeError(f"The tensor does not have unique dim order: sizes {tuple(sizes)}, strides {strides}")
    return order


@composed("method")
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same elements of the same memory: equal offset, shape and strides."""
    tensor_arg(tensor, "is_set_to", "tensor")
    return (input.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            and input.storage_offset() == tensor.storage_offset() and input.dtype is tensor.dtype
            and input.shape == tensor.shape and input.stride() == tensor.stride())


@composed("function")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return input.shape == tensor_arg(other, "is_same_size", "other").shape


@composed("function")
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return tensor_arg(input, "is_signed").is_signed()


@composed("function")
def is_storage(obj) -> bool:
    """Whether `obj` is the memory of tensors: a TypedStorage or an UntypedStorage."""
    return isinstance(obj, Storage | TypedStorage)


@composed("function")
def typename(obj) -> str:
    """The name of a tensor's type, such as ``torch.FloatTensor``; of other objects, of their class with its module."""
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__name__
    return name if module in (None, "builtins") else f"{module}.{name}"


@composed("function method out")
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of ``nonzero``, filled up with `fill_value` if there are fewer.

    Parameters
    ----------
    input : Tensor
    size : int
        Number of rows of the result, not negative.
    fill_value : int

    Returns
    -------
    Tensor
        int64, of shape (size, input.ndim).
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, but got {size}")
    found = _core.nonzero(input)[:size]
    y = _core.full((size, input.dim()), fill_value, dtype=found.dtype, device=found.device)
    y[: found.shape[0]] = found
    return y


@composed("function")
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False) -> Tensor:
    """A tensor without values whose dimensions lie in memory in the order `physical_layout`, the outermost first.

    Raises
    ------
    RuntimeError
        `physical_layout` is no order of the dimensions.
    """
    size = ints_arg(size, "empty_permuted", "size")
    order = ints_arg(physical_layout, "empty_permuted", "physical_layout")
    if len(order) != len(size):
        raise RuntimeError("Number of dimensions in size does not match the length of the physical_layout; i.e. "
                           f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(order)}")
    for d in order:
        if not 0 <= d < len(size):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d})")
    if len(set(order)) < len(order):
        raise RuntimeError(f"Duplicate dim not allowed, got physical_layout={order}")
    y = _core.empty([size[d] for d in order], dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
    y = y.permute([order.index(d) for d in range(len(size))])
    return y.requires_grad_() if requires_grad else y


def each(name, input, function, others):
    """Python's `function` of each element of `input`, and of those of the others, written over `input`."""
    if input.requires_grad:
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for i, t in enumerate(others):
        tensor_arg(t, name, "other")
        if t.dtype is not input.dtype:
            raise TypeError(f"{name}: expected a tensor of {input.dtype} for other {i}, got one of {t.dtype}")
    values = [t.expand(input.shape).reshape(-1).tolist() for t in (input, *others)]
    kind = complex if input.is_complex() else float if input.is_floating_point() else int
    found = [kind(function(*row)) for row in zip(*values, strict=True)]
    return input.copy_(_core.tensor(found, dtype=input.dtype, device=input.device).reshape(input.shape))


@composed("method")
def apply_(input: Tensor, callable) -> Tensor:
    """Python's `callable` of each element, in place: slow, for what there is no operation for."""
    return each("apply_", input, callable, ())


@composed("method")
def map_(input: Tensor, tensor: Tensor, callable) -> Tensor:
    """Python's `callable` of each element and the one of `tensor` (expanded), in place: slow."""
    return each("map_", input, callable, (tensor,))


@composed("method")
def map2_(input: Tensor, x: Tensor, y: Tensor, callable) -> Tensor:
    """Python's `callable` of each element and those of `x` and `y` (expanded), in place: slow."""
    return each("map2_", input, callable, (x, y))


@composed("method")
def new(input: Tensor, *args, device=None) -> Tensor:
    """Old PyTorch's constructor: a tensor of this dtype, without values of the given sizes, or of the given values.

    Raises
    ------
    TypeError
        Neither sizes, a sequence, a tensor nor a storage are given.
    """
    if len(args) == 1 and (isinstance(args[0], Tensor) or not hasattr(args[0], "__index__")):
        given = args[0]
        if isinstance(given, Tensor):
            if given.dtype is not input.dtype:
                raise TypeError(f"new(): expected a tensor of {input.dtype}, got one of {given.dtype}")
            return given.detach().view(given.shape)
        if isinstance(given, tuple) and type(given) is not tuple:      # a Size
            return _core.empty(given, dtype=input.dtype, device=device)
        if isinstance(given, list | tuple):
            return _core.tensor(given, dtype=input.dtype, device=device)
        raise TypeError(f"new(): data must be a sequence (got {type(given).__name__})")
    return _core.empty(tuple(args) or (0,), dtype=input.dtype, device=device)

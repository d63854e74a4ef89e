"""Tensors and the arrays of other libraries over the same memory: NumPy, DLPack, Python's buffers, files."""

import sys

from cygrad.storage import cuda
from cygrad.storage.core import device as Device
from cygrad.storage.core import dtypes
from cygrad.storage.interop import dlpack_from_storage, storage_from_dlpack, storage_from_file

from . import _core
from ._core import Tensor, add_methods, as_tensor, empty, frombuffer, rebuild, tensor
from .composed._args import tensor_arg

__all__ = ["asarray", "from_dlpack", "from_file"]


def _flag(value, function, name):
    if not isinstance(value, bool):
        raise TypeError(f"{function}(): argument '{name}' must be bool, not {type(value).__name__}")
    return value


def _is_buffer(obj):
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def _shared(obj, dtype):
    """(a tensor over the memory of `obj`, whether it had to be copied); (None, True) for numbers and sequences."""
    numpy = sys.modules.get("numpy")
    if isinstance(obj, Tensor):
        return obj, False
    if numpy is not None and isinstance(obj, numpy.ndarray):
        copied = min(obj.strides, default=0) < 0 or not obj.dtype.isnative
        return (tensor if copied else as_tensor)(obj), copied
    if numpy is not None and isinstance(obj, numpy.generic):
        return tensor(obj), True
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return from_dlpack(obj), False
    if _is_buffer(obj):
        return frombuffer(obj, dtype=_core.get_default_dtype() if dtype is None else dtype), False
    return None, True


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """`obj` as a tensor, over the same memory where that is possible.

    Parameters
    ----------
    obj : Tensor, numpy.ndarray, DLPack array or capsule, buffer, number or nested sequence
        The bytes of a buffer that is no array (``bytes``, ``bytearray``, ...) are read as elements of `dtype`.
    dtype : dtype, optional
        Of the result; default: that of `obj`.
    device : str or device, optional
        Where the tensor is to lie; default: where `obj` does.
    copy : bool, optional
        True always copies, False never does, None where it must.
    requires_grad : bool
        Whether the result is a leaf that wants a gradient. A Tensor keeps its history.

    Raises
    ------
    ValueError
        ``copy=False``, and a copy is needed.
    """
    if copy is not None:
        _flag(copy, "asarray", "copy")
    _flag(requires_grad, "asarray", "requires_grad")
    if dtype is not None:
        dtype = empty(0, dtype=dtype).dtype
    t, copied = _shared(obj, dtype)
    if t is None:
        if copy is False:
            raise ValueError(f"can't alias arbitrary sequence into a tensor: {type(obj).__name__} has no memory to "
                             "share")
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    if copied and copy is False:
        raise ValueError(f"can't alias {type(obj).__name__}: a scalar, negative strides or a foreign byte order need "
                         "a copy")
    if dtype is not None and dtype is not t.dtype:
        if copy is False:
            raise ValueError(f"can't alias tensor with dtype {t.dtype} into dtype {dtype}.")
        t = t.to(dtype)
    elif copy and not copied:
        t = t.clone()
    if device is not None:
        t = t.to(device)
    if requires_grad and not t.requires_grad:
        t = t.detach().requires_grad_(True)
    return t


def over(storage, sizes, strides, dtype):
    return rebuild(Tensor, storage, dtype, tuple(sizes), strides, 0, False, None)


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of another library's array.

    Parameters
    ----------
    ext_tensor : object with ``__dlpack__`` and ``__dlpack_device__``, or a DLPack capsule
        The memory stays alive as long as the tensor; memory that is marked read-only is not written.
    device : str or device, optional
        Where the tensor is to lie; default: where the array does.
    copy : bool, optional
        True gives memory of its own; False refuses an array that cannot be shared.

    Raises
    ------
    RuntimeError
        The capsule was used before, or its elements are of a type that tensors do not have.
    BufferError
        The array lies on another device, or the producer cannot share it.
    ValueError
        Negative strides; or ``copy=False``, and the array lies elsewhere than `device`.
    """
    if copy is not None:
        _flag(copy, "from_dlpack", "copy")
    if type(ext_tensor).__name__ != "PyCapsule" and not hasattr(ext_tensor, "__dlpack__"):
        raise RuntimeError(f"from_dlpack received an invalid capsule: {type(ext_tensor).__name__} has no __dlpack__, "
                           "and is none")
    t = over(*storage_from_dlpack(ext_tensor, False if copy is False else None))
    if copy is False and device is not None and empty(0, device=device).device != t.device:
        raise ValueError(f"from_dlpack(): an array on {t.device} is not brought to {device} without a copy, which "
                         "copy=False does not allow")
    t = t.clone() if copy else t
    return t if device is None else t.to(device)


def from_file(filename, shared=None, size=0, *, dtype=None, device=None, requires_grad=False):
    """A 1-d tensor whose memory is a file.

    Parameters
    ----------
    filename : str
        With `shared`, the file is made or lengthened where needed.
    shared : bool
        Whether writes go to the file, and are seen by other processes; otherwise they stay in this tensor.
    size : int
        Number of elements.
    dtype : dtype, optional
        Element type.

    Raises
    ------
    RuntimeError
        The file cannot be opened, or is too short.
    """
    if not isinstance(filename, str):
        raise TypeError(f"from_file(): argument 'filename' (position 1) must be str, not {type(filename).__name__}")
    if not hasattr(size, "__index__") or isinstance(size, bool):
        raise TypeError(f"from_file(): argument 'size' must be int, not {type(size).__name__}")
    size = size.__index__()
    made = empty(0, dtype=dtype, device=device, requires_grad=requires_grad)
    if made.is_cuda:
        raise RuntimeError(f"from_file(): a file is mapped into the memory of the CPU, not of {made.device}")
    if size == 0:
        return made
    if size < 0 or size * made.itemsize >= 1 << 63:
        raise RuntimeError(f"from_file(): {size} elements of file <{filename}> cannot be mapped")
    storage = storage_from_file(filename, bool(shared), size * made.itemsize)
    return over(storage, (size,), (1,), made.dtype).requires_grad_(requires_grad)


def bytes_of(storage):
    """A storage's memory, as a memoryview; of one on a device, a copy."""
    return memoryview(empty(0, dtype=dtypes["uint8"]).set_(storage.cpu()).numpy())


# ---- methods of Tensor


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule over this tensor's memory.

    Parameters
    ----------
    stream : int, optional
        Of a CUDA device: the consumer's, which waits for the values; 1: the default one; -1: nobody waits.
    max_version : tuple of int, optional
        The newest version that the consumer reads; capsules are of version 1.0, or 0 where it names none.
    dl_device : tuple of int, optional
        Where the consumer wants it, as ``__dlpack_device__`` names devices: a tensor elsewhere is copied there.
    copy : bool, optional
        True gives away a copy, False never does.

    Raises
    ------
    BufferError
        The tensor requires a gradient, lies elsewhere than is wanted while no copy is allowed, there is no such
        device, or the consumer cannot be told that the memory is read-only.
    """
    tensor_arg(self, "__dlpack__", "self")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    if stream not in (None, -1) and not self.is_cuda:
        raise AssertionError(f"stream should be None on cpu, got {stream}.")
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_cuda and stream == 0:
        raise AssertionError("unsupported stream on CUDA: 0, which may be either default stream; 1 is that of all "
                             "threads")
    if self.is_cuda and stream == 2:
        raise BufferError("per-thread default stream is not supported.")
    if dl_device is not None and tuple(dl_device) != __dlpack_device__(self):
        t, copy = _moved(self, tuple(dl_device), copy), True
    else:
        t = self.clone() if copy else self
    if t.is_cuda and stream != -1:
        _hand_over(t, 0 if stream in (None, 1) else stream)
    lent = t.is_cuda and stream not in (None, 1, -1)
    return dlpack_from_storage(t.untyped_storage(), t.dtype, tuple(t.shape), t.stride(), t.storage_offset(),
                               max_version is not None and max_version[0] >= 1, bool(copy), lent)


def _moved(t, dl_device, copy):
    """A copy on the device that DLPack names so."""
    kind, index = dl_device
    why = "copy=False does not allow the copy that it takes" if copy is False else "there is no such device here"
    if copy is not False and (kind, index) == (1, 0):
        return t.cpu()
    if copy is not False and kind == 2 and index < cuda.device_count():
        return t.to(f"cuda:{index}")
    raise BufferError(f"a tensor on {t.device}, which is DLPack device {__dlpack_device__(t)}, cannot be exported to "
                      f"device {dl_device}: {why}")


def __dlpack_device__(self):
    """DLPack's name of the device: ``(1, 0)`` for the CPU, ``(2, k)`` for ``cuda:k``."""
    return (2, self.device.index) if self.is_cuda else (1, 0)


def _hand_over(t, address):
    """Let the consumer's stream wait for the work that makes the values; memory of others waits for the default one."""
    from cygrad.cuda import Stream, current_stream

    stream = Stream(t.device, stream_ptr=address)
    stream.wait_stream(current_stream(t.device))
    if not address:
        t.record_stream(stream)


def _cuda_array(self):
    """What Numba, CuPy and others ask for to share the memory of a tensor on a CUDA device (version 2).

    Raises
    ------
    AttributeError
        The tensor is on the CPU, or its elements have no name there.
    RuntimeError
        It requires a gradient.
    """
    if not self.is_cuda:
        raise AttributeError(f"__cuda_array_interface__ is for tensors on CUDA devices, not on {self.device}: cuda() "
                             "copies one there")
    if self.requires_grad:
        raise RuntimeError("__cuda_array_interface__ cannot be taken of a tensor that requires grad: use detach()")
    kind = _KINDS.get(self.dtype)
    if kind is None:
        raise AttributeError(f"__cuda_array_interface__ has no name for elements of {self.dtype}")
    size = self.element_size()
    return {
        "typestr": f"{'|' if size == 1 else _ORDER}{kind}{size}",
        "shape": tuple(self.shape),
        "strides": None if self.is_contiguous() else tuple(s * size for s in self.stride()),
        "data": (self.data_ptr() if self.numel() else 0, self.untyped_storage()._readonly),
        "version": 2,
    }


_ORDER = "<" if sys.byteorder == "little" else ">"
_KINDS = {dtypes["bool"]: "b"}     # dtype -> letter of its kind, as NumPy has them
for _letter, _names in (("i", "int8 int16 int32 int64"), ("u", "uint8 uint16 uint32 uint64"),
                        ("f", "float16 float32 float64"), ("c", "complex64 complex128")):
    _KINDS.update((dtypes[name], _letter) for name in _names.split())


def __array_wrap__(self, array, context=None, return_scalar=False):
    """What NumPy's functions return for tensors: a tensor over the result's memory."""
    try:
        return as_tensor(array)
    except TypeError:          # elements that tensors do not have
        return array


def __array_namespace__(self, /, *, api_version=None):
    """The module that has the functions of the Python array API standard."""
    from cygrad import array_api

    return array_api.__array_namespace__(api_version)


def to_device(self, device, /, *, stream=None):
    """On another device, by the array API standard's name."""
    tensor_arg(self, "to_device", "self")
    if stream is not None and not self.is_cuda:
        raise ValueError(f"to_device(): the CPU has no streams, got {stream!r}")
    return self.to(Device(device))


def __reversed__(self):
    """The tensor with its first dimension reversed."""
    tensor_arg(self, "__reversed__", "self")
    return self.flip(0) if self.ndim else self


def is_shared(self):
    """Whether the tensor lies in memory that can be shared with other processes, which then see what is written."""
    tensor_arg(self, "is_shared", "self")
    return self.untyped_storage().is_shared()


def share_memory_(self):
    """Move this tensor's memory, in place, to where other processes can share it.

    Those are processes that are forked from now on, and those that get the tensor through `cygrad.multiprocessing`.
    Tensors over the same memory, such as views, move along. Memory of a device stays where it is, as in PyTorch.

    Returns
    -------
    Tensor
        This one.

    Raises
    ------
    RuntimeError
        Something that is no tensor has the memory's address, a NumPy array for example; or there is no room left.
    """
    tensor_arg(self, "share_memory_", "self")
    if not self.is_cuda and not self.is_shared():
        from cygrad.multiprocessing.memory import move

        if not move(self):
            raise RuntimeError("share_memory_(): this memory cannot be moved, because something that is no tensor has "
                               "its address, such as a NumPy array or a slice of its storage: share a clone() of it")
    return self


add_methods({f.__name__: f for f in (__dlpack__, __dlpack_device__, __array_wrap__, __array_namespace__, __reversed__,
                                     is_shared, share_memory_, to_device)})
add_methods({"__cuda_array_interface__": property(_cuda_array)})

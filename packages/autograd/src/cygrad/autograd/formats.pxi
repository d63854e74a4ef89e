# formats: the order in which a tensor's elements lie in memory, and changes of shape in place. May use: args, construct.

class memory_format:
    """The order of a tensor's dimensions in memory: `contiguous_format` (row-major), `preserve_format` (as the argument's),
    `channels_last` and `channels_last_3d` (of four and five dimensions, the second one innermost)."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return self.name


class layout:
    """How a tensor stores its elements; there is one: `strided`."""

    def __repr__(self):
        return "torch.strided"

    def __reduce__(self):
        return "strided"


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout()
cdef object _memory_format = memory_format          # in methods the argument has that name


cdef enum Format:
    PRESERVE, ROWMAJOR, CHANNELS_LAST


cdef Format format_of(object f, int ndim, str name) except *:
    """What the argument memory_format asks of a tensor of so many dimensions; None preserves."""
    if f is None or f is preserve_format:
        return PRESERVE
    if f is contiguous_format:
        return ROWMAJOR
    if not isinstance(f, memory_format):
        wrong_type(f, name, "memory_format", "torch.memory_format")
    wanted = 4 if f is channels_last else 5
    if ndim != wanted:
        raise RuntimeError(f"{name}(): required rank {wanted} tensor to use {f.name} format, got {ndim} dimensions")
    return CHANNELS_LAST


cdef int check_layout(object given, object pin_memory, str name) except -1:
    """The layout of new tensors, which has one value here; returns whether their memory is to be page-locked, for `pin_new`."""
    if given is not None and given is not strided:
        wrong_type(given, name, "layout", "torch.strided")
    return pin_memory is not None and pin_memory is not False and check_pin(pin_memory, name)


cdef int check_pin(object pin_memory, str name) except -1:
    if not as_flag(pin_memory, name, "pin_memory"):
        return 0
    from cygrad.storage import cuda
    reason = cuda.why_not()
    if reason is not None:
        raise RuntimeError(f"{name}(): memory can be pinned for an accelerator only, and there is none: {reason}")
    return 1


cdef Tensor pin_new(Tensor y, int pin, bint written=True):
    """y, which nobody else holds yet, in page-locked memory if that is wanted."""
    cdef Tensor z
    cdef Storage memory
    if not pin:
        return y
    if y.mem is None or y.flags & BATCHED:
        raise NotImplementedError("pin_memory=True is not supported inside of vmap")
    if y.mem.device:
        raise RuntimeError(f"only tensors on the CPU can be pinned, not one on {device_object(y.mem.device)}")
    from cygrad.storage import cuda
    memory = cuda.extension().pinned_storage(y.mem.nbytes)
    if written and y.mem.nbytes:
        memcpy(memory.ptr, y.mem.ptr, y.mem.nbytes)
    memory.origin, memory.version = y.mem.origin, y.mem.version
    z = tensor_new()
    meta_like(&z.m, &y.m)
    z.m.data = memory.ptr + (y.m.data - y.mem.ptr)
    adopt(z, memory)
    z.flags |= y.flags & REQUIRES_GRAD
    return z


cdef int channels_strides(const Meta* m, int64_t* strides) noexcept:
    """Strides of a tensor of m's shape whose second dimension is innermost."""
    cdef int64_t step = m.sizes[1]
    cdef int i
    strides[1] = 1
    for i in range(m.ndim - 1, 1, -1):
        strides[i] = step
        step *= m.sizes[i]
    strides[0] = step
    return 0


cdef bint lies_in(const Meta* m, Format f) noexcept:
    """Whether the elements lie in this order; dimensions of size 1 do not count."""
    cdef int64_t strides[5]
    cdef int i
    if f != CHANNELS_LAST:
        return f == PRESERVE or m.flags & CONTIGUOUS != 0
    channels_strides(m, strides)
    for i in range(m.ndim):
        if m.sizes[i] != 1 and m.strides[i] != strides[i]:
            return False
    return True


cdef int meta_in_format(Meta* y, const Meta* like, Format f, int code) except -1:
    """Shape of `like`, in this order, without data."""
    cdef int64_t strides[5]
    y.device = like.device
    if f == PRESERVE:
        return meta_dense_like(y, like, code)
    if f == ROWMAJOR:
        return meta_contig(y, like.ndim, like.sizes, code)
    channels_strides(like, strides)
    return meta_strided(y, like.ndim, like.sizes, strides, code, NULL)


cdef Tensor in_format(Tensor x, Format f, bint copy):
    """x in this order: itself if it lies so (and no copy is wanted), else a differentiable copy."""
    cdef Tensor y
    cdef Node n
    cdef int64_t began = op_began()
    if lies_in(&x.m, f) or (x.flags & BATCHED and f == ROWMAJOR and rowmajor_example(x)):
        return op_clone(x) if copy else x
    if f == ROWMAJOR:
        return op_contiguous(x)
    if x.flags & BATCHED:
        there = [0, *range(2, x.m.ndim), 1]
        back = [0, x.m.ndim - 1, *range(1, x.m.ndim - 1)]
        return permute(op_contiguous(permute(x, there)), back)
    y = tensor_new()
    meta_in_format(&y.m, &x.m, f, x.m.dtype)
    adopt(y, meta_storage(&y.m))
    ops.copy_into(&y.m, &x.m)
    if records(x):
        n = node_new(&OPS[OP_CLONE])
        set_edge(n, 0, x)
        node_set_output(n, y)
    if cyg_mode & MODE_PROFILE:
        note_op(OP_CLONE, y, (x,), began)
    return y


cdef Tensor converted(Tensor x, object dtype, bint copy, object f, str name):
    """x in a dtype and order: itself where it has both, unless a copy is wanted."""
    cdef Format wanted = format_of(f, x.m.ndim, name)
    cdef Tensor y = x if dtype is None else to_dtype(x, dtype, False)
    if y is not x:
        return in_format(y, wanted, False)
    # PyTorch takes what is not channels_last to be contiguous: nothing is copied for that.
    if copy or (wanted == CHANNELS_LAST and not lies_in(&x.m, wanted)) or (wanted == ROWMAJOR and channels_innermost(&x.m)):
        return in_format(x, wanted, True)
    return x


cdef bint channels_innermost(const Meta* m) noexcept:
    return (m.ndim == 4 or m.ndim == 5) and not m.flags & CONTIGUOUS and lies_in(m, CHANNELS_LAST)


# ---- new tensors -----------------------------------------------------------------------------------------------------

def empty_strided(size=REQUIRED, stride=REQUIRED, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """An uninitialised tensor of a shape with the given strides; some elements may share a place in memory.

    Parameters
    ----------
    size, stride : tuple of ints
        Of the same length, not negative.
    """
    cdef Dims d, s
    cdef Tensor y = tensor_new()
    cdef Storage memory
    cdef int code = code_or_default(dtype)
    cdef int64_t end = 0, part
    cdef int i
    parse_ints(size, &d, "empty_strided", "size")
    parse_ints(stride, &s, "empty_strided", "stride")
    if d.n != s.n:
        raise RuntimeError(f"empty_strided(): dimensionality of sizes ({d.n}) must match dimensionality of strides ({s.n})")
    pin = check_layout(layout, pin_memory, "empty_strided")
    on = check_new(device, requires_grad, code, "empty_strided")
    for i in range(d.n):
        if d.v[i] < 0 or s.v[i] < 0:
            raise RuntimeError(f"empty_strided(): sizes and strides must not be negative, got {size} and {stride}")
    meta_strided(&y.m, d.n, d.v, s.v, code, NULL)
    if y.m.numel:
        for i in range(d.n):
            if s.v[i] and d.v[i] - 1 > ((<int64_t>1 << 62) // ITEMSIZE[code] - end) // s.v[i]:
                raise RuntimeError(f"empty_strided(): a tensor of sizes {size} and strides {stride} needs more memory than "
                                   f"can be addressed")
            end += (d.v[i] - 1) * s.v[i]
    memory = storage_on(on >> 1, (end + 1) * ITEMSIZE[code] if y.m.numel else 0)
    adopt(y, memory)
    y.m.data = memory.ptr
    return pin_new(finish_new(y, on), pin, False)


# ---- in place --------------------------------------------------------------------------------------------------------

cdef Tensor reshaped(Tensor x, const Dims* d, Format f, str name):
    """x with another shape in place; its memory is kept where it is large enough, else replaced by a larger copy.

    Other tensors over the old memory keep that.
    """
    cdef Meta m
    cdef Storage s = x.mem
    cdef int64_t offset = byte_offset(x), held = 0
    cdef int code = x.m.dtype
    if needs(x) and not cyg_mode & MODE_INFERENCE:
        raise RuntimeError(f"{name}(): cannot resize variables that require grad")
    if x.flags & BATCHED:
        raise RuntimeError(f"{name}(): vmap: a batched tensor cannot be resized")
    check_sizes(d, name)
    if f == PRESERVE and same_sizes(d, &x.m):
        return x
    check_own_mode(x)
    memset(&m, 0, sizeof(m))
    m.device = x.m.device
    meta_contig(&m, d.n, d.v, code)
    try:
        held = m.numel * ITEMSIZE[code]
        if offset + held > s.nbytes:
            if s.readonly:
                raise RuntimeError(f"{name}(): the tensor's memory is borrowed and cannot grow; clone() it before resizing")
            s = grown(x.mem, offset + held)
        tensor_strip(x)
        if f == CHANNELS_LAST:
            meta_in_format(&x.m, &m, f, code)
        else:
            x.m.device = s.device
            meta_contig(&x.m, d.n, d.v, code)
        adopt(x, s)
        x.m.data = s.ptr + offset
    finally:
        meta_clear(&m)
    bump(x, named_write(name))
    return x


cdef Storage grown(Storage s, int64_t nbytes):
    """A larger storage on the same device that starts with the same bytes."""
    cdef Storage y = storage_on(s.device, nbytes)
    cdef Tensor old = tensor_new(), new = tensor_new()
    if s.nbytes:
        old.m.device = new.m.device = s.device
        meta_contig(&old.m, 1, &s.nbytes, UINT8)
        meta_contig(&new.m, 1, &s.nbytes, UINT8)
        old.m.data, new.m.data = s.ptr, y.ptr
        ops.copy_into(&new.m, &old.m)
    return y


cdef bint same_sizes(const Dims* d, const Meta* m) noexcept:
    return d.n == m.ndim and memcmp(d.v, m.sizes, d.n * sizeof(int64_t)) == 0


cdef int check_sizes(const Dims* d, str name) except -1:
    cdef int i
    for i in range(d.n):
        if d.v[i] < 0:
            raise RuntimeError(f"{name}(): sizes must not be negative, got {[d.v[i] for i in range(d.n)]}")
    return 0


cdef Tensor become(Tensor x, object view):
    """x takes the shape and strides of view(x), in place: the view becomes the last step of its history."""
    cdef Tensor h, y
    cdef bint owner = dual_root(x) is x
    check_own_mode(x)
    check_history(x, needs(x))
    h = history_alias(x, False)
    y = view(h)
    tensor_strip(x)
    meta_like(&x.m, &y.m)
    adopt(x, y.mem)
    if y.flags & BATCHED:
        inherit(x, y)
    bump(x, OP_AS_STRIDED)
    if needs(y) and y.fn is not None:        # else a view is taken again when somebody asks
        x.view_version = x.mem.version
        replace_history(numbered(y, 1).fn, x)
    if owner:
        share_tangents(x, y)
    return x


cdef int move_to(Tensor x, Tensor y, uint32_t version) except -1:
    """x over the memory of y, in place, with a version counter of its own."""
    cdef Storage memory = storage_alias(y.mem)
    cdef Tensor shown = alias_of(y)          # y may be x itself
    memory.version = version
    memory.origin = COUNTED if memory.origin else 0
    tensor_strip(x)
    meta_like(&x.m, &shown.m)
    return adopt(x, memory)


cdef Tensor reinterpreted(Tensor x, int code):
    """The bytes of x as elements of another dtype, without history, for a write through it has no gradient."""
    cdef Tensor y = tensor_new()
    cdef Dims d, s
    cdef int64_t old = ITEMSIZE[x.m.dtype], new = ITEMSIZE[code], n
    cdef int i, last = x.m.ndim - 1
    if old != new and last < 0:
        raise RuntimeError(f"view(): self.dim() cannot be 0 to view {dtype_object(x.m.dtype)} as {dtype_object(code)} (different "
                           f"element sizes)")
    if old != new and x.m.strides[last] != 1 and x.m.sizes[last] != 1:
        raise RuntimeError(f"view(): self.stride(-1) must be 1 to view {dtype_object(x.m.dtype)} as {dtype_object(code)} (different "
                           f"element sizes), but got {x.m.strides[last]}")
    d.n = s.n = x.m.ndim
    for i in range(d.n):
        n = x.m.strides[i] * old
        if new > old and i != last and n % new:
            raise RuntimeError(f"view(): self.stride({i}) must be divisible by {new // old} to view {dtype_object(x.m.dtype)} as "
                               f"{dtype_object(code)} (different element sizes), but got {x.m.strides[i]}")
        d.v[i] = x.m.sizes[i]
        s.v[i] = 1 if i == last and old != new else n // new
    if old != new:
        if x.m.sizes[last] * old % new:
            raise RuntimeError(f"view(): self.size(-1) must be divisible by {new // old} to view {dtype_object(x.m.dtype)} as "
                               f"{dtype_object(code)} (different element sizes), but got {x.m.sizes[last]}")
        if byte_offset(x) % new:
            raise RuntimeError(f"view(): self.storage_offset() must be divisible by {new // old} to view {dtype_object(x.m.dtype)} "
                               f"as {dtype_object(code)} (different element sizes), but got {offset_of(x)}")
        d.v[last] = x.m.sizes[last] * old // new
    adopt(y, x.mem)
    meta_strided(&y.m, d.n, d.v, s.v, code, x.m.data)
    if x.flags & BATCHED:
        inherit(y, x)
    return y


cdef Tensor put_over(Tensor x, object source, object storage_offset, object size, object stride):
    """x over other memory, in place. The view is made first, so that all its checks come before x changes."""
    cdef Tensor whole = tensor_new(), y
    cdef Storage memory
    cdef int64_t n = 0
    cdef int origin
    check_own_mode(x)
    check_history(x, needs(x))
    if x.fn is not None:
        raise RuntimeError(f"set_(): a tensor with a history cannot be put over other memory, this one was made by {node_name(x.fn)}; "
                           "use detach() first")
    if x.flags & BATCHED or (isinstance(source, Tensor) and (<Tensor>source).flags & BATCHED):
        raise RuntimeError("set_(): vmap: a batched tensor cannot be put over other memory")
    if isinstance(source, Tensor):
        y = <Tensor>source
        if y.m.dtype != x.m.dtype:
            raise RuntimeError(f"set_(): expected a source of dtype {dtype_object(x.m.dtype)}, got {dtype_object(y.m.dtype)}")
        if size is not None:
            y = as_strided(alias_of(y), size, stride, storage_offset)
    else:
        if source is not None and not isinstance(source, Storage):
            wrong_type(source, "set_", "source", "Tensor or UntypedStorage")
        memory = storage_new(0) if source is None else source
        n = memory.nbytes // ITEMSIZE[x.m.dtype]
        adopt(whole, memory)
        meta_contig(&whole.m, 1, &n, x.m.dtype)
        whole.m.data = memory.ptr
        y = whole
        if size is not None:
            if stride is None:
                stride = empty(size, dtype=dtype_object(BOOL), device=device_object(0)).stride()
            y = as_strided(whole, size, stride, storage_offset)
    origin = x.mem.origin
    move_to(x, y, x.mem.version + 1)
    x.mem.origin = origin                    # what it is does not change with its memory
    x.base = None
    return x

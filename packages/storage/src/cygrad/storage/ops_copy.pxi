# Copies, casts, fills, and the way to Python numbers.

cdef enum:
    COPY_CHUNK = 1 << 18   # bytes that one thread copies at a time
    COPY_ALONE = 1 << 20   # bytes below which a copy is left to one thread
    # A tile of a transposed copy: rows along the source's contiguous dimension, so that cache lines are read once.
    # It goes through a dense block, so that strides of 2**k evict nothing.
    TILE_ROWS = 64
    TILE_COLUMNS = 64


cdef void copy_bytes(char* y, const char* x, int64_t n) noexcept:
    cdef int64_t i, chunks = (n + COPY_CHUNK - 1) // COPY_CHUNK
    cdef int threads = num_threads() if n >= COPY_ALONE else 1
    if threads == 1:
        if n < COPY_ALONE:
            memcpy(y, x, n)
        else:
            with nogil:
                memcpy(y, x, n)
        return
    for i in prange(chunks, nogil=True, num_threads=threads, schedule="static"):
        memcpy(y + i * COPY_CHUNK, x + i * COPY_CHUNK, COPY_CHUNK if i < chunks - 1 else n - i * COPY_CHUNK)


cdef int transposed_dim(Iter* it, int64_t y_size, int64_t x_size) noexcept nogil:
    """The dimension along which the source is contiguous, where that is another one than the result's; else 0."""
    cdef int d
    if it.ndim < 2 or it.sizes[0] < 16 or it.st[0][0] != y_size or it.st[0][1] == x_size or it.st[0][1] == 0:
        return 0
    for d in range(1, it.ndim):
        if it.st[d][1] == x_size and it.sizes[d] >= 16:
            return d
    return 0


cdef void copy_tile(Iter* it, Loop loop, int across, int64_t tile, int64_t wide, int64_t high) noexcept nogil:
    """One tile: TILE_ROWS x TILE_COLUMNS over `across` and dimension 0, at one place of the other dimensions."""
    cdef char block[TILE_ROWS * TILE_COLUMNS * 16]
    cdef char* p[2]
    cdef int64_t st[2]
    cdef int64_t column = tile % wide * TILE_COLUMNS
    cdef int64_t row = tile // wide % high * TILE_ROWS
    cdef int64_t rest = tile // (wide * high), size = it.st[across][1], i
    cdef int64_t columns = min(TILE_COLUMNS, it.sizes[0] - column)
    cdef int64_t rows = min(TILE_ROWS, it.sizes[across] - row)
    cdef char* y = it.p[0] + column * it.st[0][0] + row * it.st[across][0]
    cdef char* x = it.p[1] + column * it.st[0][1] + row * size
    cdef int d
    for d in range(1, it.ndim):
        if d != across:
            y += rest % it.sizes[d] * it.st[d][0]
            x += rest % it.sizes[d] * it.st[d][1]
            rest = rest // it.sizes[d]
    for i in range(columns):
        memcpy(block + i * TILE_ROWS * size, x + i * it.st[0][1], rows * size)
    st[0], st[1] = it.st[0][0], TILE_ROWS * size
    for i in range(rows):
        p[0], p[1] = y + i * it.st[across][0], block + i * size
        loop(p, st, columns, NULL)


cdef void copy_transposed(Iter* it, Loop loop, int across) noexcept:
    cdef int64_t wide = (it.sizes[0] + TILE_COLUMNS - 1) // TILE_COLUMNS
    cdef int64_t high = (it.sizes[across] + TILE_ROWS - 1) // TILE_ROWS
    cdef int64_t i, tiles = wide * high * (it.numel // (it.sizes[0] * it.sizes[across]))
    cdef int threads = num_threads() if it.numel >= GRAIN else 1
    if threads == 1:
        for i in range(tiles):
            copy_tile(it, loop, across, i, wide, high)
        return
    for i in prange(tiles, nogil=True, num_threads=threads, schedule="static"):
        copy_tile(it, loop, across, i, wide, high)


cdef void copy_broadcast(Meta* y, Meta* x) noexcept:
    """y = x cast and broadcast; shapes fit, memory does not overlap."""
    cdef Iter it
    cdef Meta* operands[2]
    cdef Loop loop
    cdef int across
    if y.numel == 0:
        return
    if y.dtype == x.dtype and y.flags & x.flags & CONTIGUOUS and y.numel == x.numel:
        copy_bytes(y.data, x.data, y.numel * ITEMSIZE[y.dtype])
        return
    operands[0] = y
    operands[1] = x
    iter_build(&it, operands, 2, y.ndim, y.sizes)
    loop = <Loop> hand_kernel(H_CAST + x.dtype, y.dtype)
    across = transposed_dim(&it, ITEMSIZE[y.dtype], ITEMSIZE[x.dtype])
    if across:
        copy_transposed(&it, loop, across)
    else:
        iter_run_gil(&it, loop, NULL)


cdef int check_castable(str op, int code, int source_code) except -1:
    if hand_kernel(H_CAST + source_code, code) == NULL:
        raise NotImplementedError(f"{op}: there is no conversion from {name_of(source_code)} to {name_of(code)}")
    return 0


cdef Storage op_clone(Meta* y, Meta* x, int dtype, bint rowmajor):
    cdef Storage s
    if dtype < 0:
        dtype = x.dtype
    check_castable("clone", dtype, x.dtype)
    if rowmajor:
        meta_contig(y, x.ndim, x.sizes, dtype)
    else:
        meta_dense_like(y, x, dtype)
    s = allocate(y)
    copy_broadcast(y, x)
    return s


cdef Storage op_cast(Meta* y, Meta* x, int dtype):
    return op_clone(y, x, dtype, False)


cdef int copy_into(Meta* dst, Meta* src) except -1:
    cdef Meta held
    cdef Storage s
    cdef int d, lead = dst.ndim - src.ndim
    cdef bint fits = lead >= 0
    if fits:
        for d in range(src.ndim):
            fits = fits and (src.sizes[d] == 1 or src.sizes[d] == dst.sizes[d + lead])
    if not fits:
        raise RuntimeError(f"copy_: a source of shape {shape_text(src)} does not broadcast to the shape "
                           f"{shape_text(dst)} of the tensor written to")
    check_castable("copy_", dst.dtype, src.dtype)
    check_writable("copy_", dst)
    if not may_share_memory(dst, src):
        copy_broadcast(dst, src)
        return 0
    memset(&held, 0, sizeof(Meta))
    s = op_clone(&held, src, dst.dtype, False)
    copy_broadcast(dst, &held)
    meta_clear(&held)
    return 0


# ---- dtypes without kernels of their own

cdef Storage computed(Meta* held, Meta* x):
    """x as hand-written kernels take it: held becomes x itself, or a row-major copy in the dtype that x's computes in.

    The caller clears `held` and keeps what is returned. `recast` gives a result x's dtype back.
    """
    if COMPUTED[x.dtype] == x.dtype:
        meta_like(held, x)
        return None
    return op_clone(held, x, COMPUTED[x.dtype], True)


# ---- numbers in

cdef int refuse_number(object value, int code) except -1:
    raise RuntimeError(f"value {value!r} cannot be converted to {name_of(code)} without overflow")


cdef object int_in_range(object value, int code):
    """A Python integer or finite float as an integer dtype takes it.

    As in PyTorch, an unsigned type also takes negative integers down to the negative of its range, and wraps them.
    """
    top = largest_integer(code)
    bottom = -top - 1 if not is_unsigned(code) else -top if isinstance(value, int) else 0
    if not bottom <= value <= top:
        refuse_number(value, code)
    return int(value)


cdef object wrapped(object value):
    """The low 64 bits of a Python integer, with sign."""
    value &= 0xffffffffffffffff
    return value - (1 << 64) if value >> 63 else value


cdef object plain_number(object value):
    """bool, int, float or complex of what stands for a number."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if hasattr(type(value), "__index__"):
        return value.__index__()
    if hasattr(type(value), "__float__"):
        return float(value)
    if hasattr(type(value), "__complex__"):
        return value.__complex__()
    raise TypeError(f"a number is wanted, got {type(value).__name__}")


cdef double finite_in(object value, object original, double most, int code) except? -1.5:
    """A Python number as a double; refused when finite and beyond `most`."""
    cdef double d
    try:
        d = value
    except OverflowError:
        refuse_number(original, code)
    if fabs(d) > most and isfinite(d):
        refuse_number(original, code)
    return d


cdef void convert_one(char* to, int code, void* cell, int source_code) noexcept nogil:
    cdef char* p[2]
    cdef int64_t st[2]
    p[0], p[1] = to, <char*> cell
    st[0] = st[1] = 0
    (<Loop> hand_kernel(H_CAST + source_code, code))(p, st, 1, NULL)


cdef int number_bytes(char* to, object value, int code) except -1:
    """Write a Python number as one element of this dtype; RuntimeError where PyTorch's fill_ overflows."""
    cdef double cell[2]
    cdef int64_t whole
    cdef double most = largest_float(real_of(code))
    value = plain_number(value)
    if isinstance(value, complex) and code != BOOL and not is_complex(code):
        if value.imag != 0:
            refuse_number(value, code)
        value = value.real
    if code == BOOL:
        to[0] = 1 if value else 0                  # NaN is true
    elif is_complex(code):
        cell[0] = finite_in(value.real, value, most, code)
        cell[1] = finite_in(value.imag, value, most, code)
        convert_one(to, code, cell, COMPLEX128)
    elif is_float(code):
        cell[0] = finite_in(value, value, most, code)
        convert_one(to, code, cell, FLOAT64)
    else:
        if isinstance(value, float) and not isfinite(<double> value):
            refuse_number(value, code)
        whole = wrapped(int_in_range(value, code))
        convert_one(to, code, &whole, INT64)
    return 0


cdef void fill_element(Meta* y, void* value, int code) noexcept:
    """Every element of y (which may overlap itself) = one element of dtype `code`, cast."""
    cdef Iter it
    cdef Meta one
    cdef Meta* operands[2]
    if y.numel == 0:
        return
    scalar_meta(&one, value, code)
    operands[0] = y
    operands[1] = &one
    iter_build(&it, operands, 2, y.ndim, y.sizes)
    iter_run_gil(&it, <Loop> hand_kernel(H_CAST + code, y.dtype), NULL)


cdef int fill_number(Meta* dst, object value) except -1:
    cdef int64_t cell[2]
    cell[0] = cell[1] = 0
    number_bytes(<char*> cell, value, dst.dtype)
    if dst.numel == 0:
        return 0
    if cell[0] == 0 and cell[1] == 0 and dst.flags & CONTIGUOUS and dst.numel < COPY_ALONE:
        memset(dst.data, 0, dst.numel * ITEMSIZE[dst.dtype])
    else:
        fill_element(dst, cell, dst.dtype)
    return 0


cdef int fill_double(Meta* dst, double value) except -1:
    fill_element(dst, &value, FLOAT64)
    return 0


# ---- numbers out

cdef object number_at(const char* p, int code):
    cdef double cell[2]
    cdef int64_t whole
    if code == FLOAT32:
        return <double> (<const float*> p)[0]
    if code == FLOAT64:
        return (<const double*> p)[0]
    if code == INT64:
        return (<const int64_t*> p)[0]
    if code == BOOL:
        return p[0] != 0
    if code == UINT64:
        return (<const uint64_t*> p)[0]
    if is_complex(code):
        convert_one(<char*> cell, COMPLEX128, <void*> p, code)
        return complex(cell[0], cell[1])
    if is_float(code):
        convert_one(<char*> cell, FLOAT64, <void*> p, code)
        return cell[0]
    convert_one(<char*> &whole, INT64, <void*> p, code)
    return whole


cdef object item(Meta* x):
    if x.numel != 1:
        raise RuntimeError(f"item: a tensor of one element is wanted, got shape {shape_text(x)} "
                           f"with {x.numel} elements")
    return number_at(x.data, x.dtype)


cdef object list_at(Meta* x, const char* p, int d):
    cdef int64_t i, n, step
    cdef object value
    cdef list out
    if d == x.ndim:
        return number_at(p, x.dtype)
    n = x.sizes[d]
    step = x.strides[d] * ITEMSIZE[x.dtype]
    try:
        out = PyList_New(n)
    except MemoryError:             # of tensors without elements, which may have any shape
        raise RuntimeError(f"can't allocate memory for a list of {n} items") from None
    for i in range(n):
        value = list_at(x, p + i * step, d + 1)
        Py_INCREF(value)
        PyList_SET_ITEM(out, i, value)
    return out


cdef object to_list(Meta* x):
    return list_at(x, x.data, 0)

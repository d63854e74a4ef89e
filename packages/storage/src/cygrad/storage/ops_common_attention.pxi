# What attention on any device is checked for.

cdef int check_row_major(str what, const Meta* x, int64_t numel, int code) except -1:
    if x.numel != numel or x.dtype != code or not x.flags & CONTIGUOUS:
        raise RuntimeError(f"attention: {what} must be row-major, have {numel} elements and dtype {name_of(code)}, got shape "
                           f"{shape_text(x)} and {name_of(x.dtype)}")
    return 0


cdef bint attention_rows(const Meta* m) noexcept:
    """Whether rows are apart and their elements side by side, as BLAS wants them."""
    cdef int d = m.ndim - 2
    if d < 0 or max(m.sizes[d], m.sizes[d + 1]) > 0x7fffffff or max(m.strides[d], m.sizes[d + 1]) > 0x7fffffff:
        return False
    return (m.strides[d + 1] == 1 or m.sizes[d + 1] == 1) and (m.strides[d] >= m.sizes[d + 1] or m.sizes[d] == 1)


cdef int check_attention_sizes(int64_t* sizes, Meta* q, Meta* k, Meta* v, Meta* mask) except -1:
    """Same batch dimensions, rows whose elements are neighbours, sizes that BLAS takes, no empty dimension.

    Gives the numbers of items, queries and keys, and the lengths of a key and of a value.
    """
    cdef int d, n = q.ndim
    cdef bint fits = n >= 2 and k.ndim == n and v.ndim == n and (mask == NULL or mask.ndim == n)
    for d in range(n - 2):
        fits = fits and q.sizes[d] == k.sizes[d] == v.sizes[d] and (mask == NULL or mask.sizes[d] == q.sizes[d])
    if fits:
        sizes[1], sizes[3], sizes[2], sizes[4] = q.sizes[n - 2], q.sizes[n - 1], k.sizes[n - 2], v.sizes[n - 1]
        fits = k.sizes[n - 1] == sizes[3] and v.sizes[n - 2] == sizes[2] and min(q.numel, min(k.numel, v.numel)) > 0
        fits = fits and (mask == NULL or (mask.sizes[n - 2] == sizes[1] and mask.sizes[n - 1] == sizes[2]))
    fits = fits and attention_rows(q) and attention_rows(k) and attention_rows(v)
    if not fits or q.dtype not in (FLOAT32, FLOAT64) or k.dtype != q.dtype or v.dtype != q.dtype or (
            mask != NULL and mask.dtype not in (BOOL, q.dtype)):
        raise RuntimeError(f"attention: queries {shape_text(q)}, keys {shape_text(k)} and values {shape_text(v)} of "
                           f"{name_of(q.dtype)}, {name_of(k.dtype)} and {name_of(v.dtype)} do not go together")
    sizes[0] = q.numel // (sizes[1] * sizes[3])
    return 0

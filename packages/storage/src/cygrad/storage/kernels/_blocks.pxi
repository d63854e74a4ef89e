# What the groups of pointwise kernels share: a loop over operands of any stride, through dense blocks on the stack.
cdef enum:
    BLOCK = 256        # elements; six operands of 16 bytes are 24 KB of stack, which the first-level cache holds
    WIDEST = 16        # bytes of the largest element


cdef inline void gather(char* to, const char* x, int64_t step, int64_t size, int64_t n) noexcept nogil:
    """Copy n elements that lie step bytes apart into a dense block; size is 1, 2, 4 or 8."""
    cdef int64_t i
    if size == 4:
        for i in range(n):
            (<uint32_t*>to)[i] = (<const uint32_t*>(x + i * step))[0]
    elif size == 8:
        for i in range(n):
            (<uint64_t*>to)[i] = (<const uint64_t*>(x + i * step))[0]
    elif size == 1:
        for i in range(n):
            (<uint8_t*>to)[i] = (<const uint8_t*>(x + i * step))[0]
    else:
        for i in range(n):
            (<uint16_t*>to)[i] = (<const uint16_t*>(x + i * step))[0]


cdef inline void scatter(char* y, const char* block, int64_t step, int64_t size, int64_t n) noexcept nogil:
    """The reverse of gather."""
    cdef int64_t i
    if size == 4:
        for i in range(n):
            (<uint32_t*>(y + i * step))[0] = (<const uint32_t*>block)[i]
    elif size == 8:
        for i in range(n):
            (<uint64_t*>(y + i * step))[0] = (<const uint64_t*>block)[i]
    elif size == 1:
        for i in range(n):
            (<uint8_t*>(y + i * step))[0] = (<const uint8_t*>block)[i]
    else:
        for i in range(n):
            (<uint16_t*>(y + i * step))[0] = (<const uint16_t*>block)[i]


cdef void in_blocks(Loop dense_loop, int nop, const int64_t* dense, char** p, const int64_t* st, int64_t n,
                    const double* attr) noexcept nogil:
    """Run a loop over operands of any stride through dense blocks, so that its vector body does the arithmetic.

    dense holds the element sizes, which are the strides of a dense block. Operands that are dense already are used in place.
    """
    cdef char[MAXOPS * BLOCK * WIDEST] block
    cdef char* q[MAXOPS]
    cdef int64_t done = 0, m = n if n < BLOCK else BLOCK
    cdef int k
    for k in range(nop):
        q[k] = p[k] if st[k] == dense[k] else &block[k * BLOCK * WIDEST]
        if st[k] == 0 and k > 0:
            gather(q[k], p[k], 0, dense[k], m)
    while done < n:
        m = n - done if n - done < BLOCK else BLOCK
        for k in range(1, nop):
            if st[k] == dense[k]:
                q[k] = p[k] + done * st[k]
            elif st[k] != 0:
                gather(q[k], p[k] + done * st[k], st[k], dense[k], m)
        if st[0] == dense[0]:
            q[0] = p[0] + done * st[0]
        dense_loop(q, dense, m, attr)
        if st[0] != dense[0]:
            scatter(p[0] + done * st[0], q[0], st[0], dense[0], m)
        done += m

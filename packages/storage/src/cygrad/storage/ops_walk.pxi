# Walks over elements in the order of their indices (row-major), whatever the strides: for what depends on that order,
# such as the n-th element under a mask. And moving elements by their width alone, so that every dtype is served.

include "ops_common_index.pxi"

cdef enum:
    WALKERS = 3
    BLOCK = 512            # elements whose places are kept on the stack

cdef struct Walk:          # dimension 0 is the innermost; neighbours are merged where all operands step on evenly
    int ndim
    int64_t numel
    int64_t sizes[MAXDIM]
    int64_t st[MAXDIM][WALKERS]        # byte strides
    char* p[WALKERS]


cdef void walk_start(Walk* w) noexcept nogil:
    w.ndim = 0
    w.numel = 1
    w.p[0] = w.p[1] = w.p[2] = NULL


cdef void walk_dim(Walk* w, int64_t size, int64_t a, int64_t b, int64_t c) noexcept nogil:
    """The next dimension outwards."""
    cdef int k = w.ndim - 1
    w.numel *= size
    if size == 1:
        return
    if k >= 0 and (a == w.sizes[k] * w.st[k][0] and b == w.sizes[k] * w.st[k][1] and c == w.sizes[k] * w.st[k][2]):
        w.sizes[k] *= size
        return
    w.sizes[w.ndim] = size
    w.st[w.ndim][0], w.st[w.ndim][1], w.st[w.ndim][2] = a, b, c
    w.ndim += 1


cdef void walk_end(Walk* w) noexcept nogil:
    """A walk has at least one dimension."""
    if w.ndim == 0:
        w.ndim = w.sizes[0] = 1
        w.st[0][0] = w.st[0][1] = w.st[0][2] = 0


cdef void walk_over(Walk* w, const Meta* a, const Meta* b, int ndim, const int64_t* sizes) noexcept nogil:
    """A walk over one or two operands (b may be NULL) that broadcast to `sizes`."""
    cdef int d
    walk_start(w)
    for d in range(ndim - 1, -1, -1):
        walk_dim(w, sizes[d], byte_stride(a, ndim, d), byte_stride(b, ndim, d) if b != NULL else 0, 0)
    walk_end(w)
    w.p[0] = a.data
    w.p[1] = b.data if b != NULL else NULL


cdef int64_t byte_stride(const Meta* m, int ndim, int d) noexcept nogil:
    """Along dimension d of `ndim` to which m is broadcast."""
    cdef int e = d - ndim + m.ndim
    return 0 if e < 0 or m.sizes[e] == 1 else m.strides[e] * ITEMSIZE[m.dtype]


cdef void walk_seek(const Walk* w, int64_t at, int64_t* c, char** p) noexcept nogil:
    """Coordinates and addresses of element `at`."""
    cdef int d, k
    for k in range(WALKERS):
        p[k] = w.p[k]
    for d in range(w.ndim):
        c[d] = at
        if d < w.ndim - 1:
            c[d] = at % w.sizes[d]
            at = at // w.sizes[d]
        for k in range(WALKERS):
            p[k] += c[d] * w.st[d][k]


cdef inline void walk_on(const Walk* w, int64_t run, int64_t* c, char** p) noexcept nogil:
    """`run` elements further, none of them beyond the end of the innermost dimension."""
    cdef int d = 0, k
    c[0] += run
    for k in range(WALKERS):
        p[k] += run * w.st[0][k]
    while c[d] == w.sizes[d] and d < w.ndim - 1:
        for k in range(WALKERS):
            p[k] += w.st[d + 1][k] - c[d] * w.st[d][k]
        c[d] = 0
        d += 1
        c[d] += 1


# ---- moving elements by width

cdef extern from *:
    """
    typedef struct { uint64_t low, high; } cyg_sixteen;
    """
    ctypedef struct sixteen "cyg_sixteen":
        uint64_t low, high

ctypedef fused word:       # elements by their width alone, where they are only moved
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    sixteen

# Element i of x lies at xo[i], or at i * xs where xo is NULL; so for v. The kernels of group "update" are of this type.
ctypedef void (*Update)(char* x, const int64_t* xo, int64_t xs, const char* v, const int64_t* vo, int64_t vs,
                        int64_t n) noexcept nogil


cdef void move_words(word* x, const int64_t* xo, int64_t xs, const word* v, const int64_t* vo, int64_t vs,
                     int64_t n) noexcept nogil:
    cdef int64_t i
    cdef char* to = <char*> x
    cdef const char* source = <const char*> v
    if xo == NULL and vo == NULL:
        if xs == sizeof(word) and vs == sizeof(word):
            memcpy(to, source, n * sizeof(word))
            return
        for i in range(n):
            (<word*> (to + i * xs))[0] = (<const word*> (source + i * vs))[0]
    elif xo != NULL and vo != NULL:
        for i in range(n):
            (<word*> (to + xo[i]))[0] = (<const word*> (source + vo[i]))[0]
    elif xo != NULL:
        for i in range(n):
            (<word*> (to + xo[i]))[0] = (<const word*> (source + i * vs))[0]
    else:
        for i in range(n):
            (<word*> (to + i * xs))[0] = (<const word*> (source + vo[i]))[0]


# y[i] = the element of x at i * xs + step * index i; returns whether an index was outside [0, size), which reads place 0.
ctypedef bint (*Gather)(char* y, int64_t ys, const char* x, int64_t xs, const char* index, int64_t st, int64_t n, int64_t size,
                        int64_t step) noexcept nogil


cdef bint gather_words(word* y, int64_t ys, const char* x, int64_t xs, const char* index, int64_t st, int64_t n, int64_t size,
                       int64_t step) noexcept nogil:
    cdef int64_t i, k
    cdef bint out, bad = False
    cdef char* to = <char*> y
    if ys == sizeof(word) and st == sizeof(int64_t) and xs == 0 and step == sizeof(word):      # along contiguous rows
        for i in range(n):
            k = (<const int64_t*> index)[i]
            out = <uint64_t> k >= <uint64_t> size
            bad |= out
            y[i] = (<const word*> x)[0 if out else k]
        return bad
    for i in range(n):
        k = (<const int64_t*> (index + i * st))[0]
        out = <uint64_t> k >= <uint64_t> size
        bad |= out
        (<word*> (to + i * ys))[0] = (<const word*> (x + i * xs + (0 if out else k) * step))[0]
    return bad


cdef Gather gatherer(int size) noexcept nogil:
    if size == 1:
        return <Gather> gather_words[uint8_t]
    if size == 2:
        return <Gather> gather_words[uint16_t]
    if size == 4:
        return <Gather> gather_words[uint32_t]
    if size == 8:
        return <Gather> gather_words[uint64_t]
    return <Gather> gather_words[sixteen]


# The reverse: the element of x at i * xs + step * index i becomes element i of v, in order; what lies outside is left out.
ctypedef void (*Scatter)(char* x, int64_t xs, const char* v, int64_t vs, const char* index, int64_t st, int64_t n,
                         int64_t size, int64_t step) noexcept nogil


cdef void scatter_words(char* x, int64_t xs, const word* v, int64_t vs, const char* index, int64_t st, int64_t n,
                        int64_t size, int64_t step) noexcept nogil:
    cdef int64_t i, k
    for i in range(n):
        k = (<const int64_t*> (index + i * st))[0]
        if <uint64_t> k < <uint64_t> size:
            (<word*> (x + i * xs + k * step))[0] = (<const word*> (<const char*> v + i * vs))[0]


cdef Scatter scatterer(Update f, int code) noexcept nogil:
    """The loop that does what f does, from indices instead of places; NULL if there is none."""
    cdef int size = ITEMSIZE[code]
    if f == <Update> hand_kernel(H_UPDATE, code):
        return <Scatter> hand_kernel(H_SCATTER_ADD, code)
    if f != mover(size):
        return NULL
    if size == 1:
        return <Scatter> scatter_words[uint8_t]
    if size == 2:
        return <Scatter> scatter_words[uint16_t]
    if size == 4:
        return <Scatter> scatter_words[uint32_t]
    if size == 8:
        return <Scatter> scatter_words[uint64_t]
    return <Scatter> scatter_words[sixteen]


cdef Update mover(int size) noexcept nogil:
    """x = v for elements of this many bytes."""
    if size == 1:
        return <Update> move_words[uint8_t]
    if size == 2:
        return <Update> move_words[uint16_t]
    if size == 4:
        return <Update> move_words[uint32_t]
    if size == 8:
        return <Update> move_words[uint64_t]
    return <Update> move_words[sixteen]


# ---- how an element is joined with what lies there


cdef Update updater(str op, int mode, int code) except? NULL:
    """The loop of a mode; NotImplementedError where the dtype has none."""
    cdef void* loop
    if mode == WRITE:
        return mover(ITEMSIZE[code])
    loop = hand_kernel(H_UPDATE + (mode if mode != MEAN else PLUS) - PLUS, code)
    if loop == NULL or (mode == MEAN and hand_kernel(H_DIVIDE_COUNT, code) == NULL):
        no_kernel(op, code)
    return <Update> loop

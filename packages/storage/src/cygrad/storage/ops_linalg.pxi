# Matrix products. OpenBLAS runs with one thread; large products are cut here into tiles that our own threads take.
# Invariant: the tiles depend on sizes only, so every thread count gives the same bits.
import ctypes
from importlib.util import find_spec

include "ops_common_linalg.pxi"

cdef enum:                 # of the CBLAS interface
    ROW_MAJOR = 101
    PLAIN = 111
    TRANSPOSED = 112

cdef enum:
    SPLIT_WORK = 3 << 19   # multiply-adds, about 30 us, from which a product is halved for a second thread
    TILE_WORK = 1 << 23    # multiply-adds of a tile from which it is halved again, as long as that leaves it 256 wide:
                           # tiles of 256 cost 4 % more packing than the whole, tiles of 128 cost 10 % (512^3, one
                           # thread)
    SPLIT_VECTOR = 1 << 18 # the same where one operand is a vector: then the matrix is read once, which takes about 30 us
    QUIET_WORK = 1 << 18   # below this the GIL is kept

ctypedef void (*Sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc) noexcept nogil
ctypedef void (*Dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double* a, int lda,
                       const double* b, int ldb, double beta, double* c, int ldc) noexcept nogil
ctypedef void (*Zgemm)(int order, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int lda,
                       const void* b, int ldb, const void* beta, void* c, int ldc) noexcept nogil
ctypedef void (*Sgemv)(int order, int ta, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                       float beta, float* y, int incy) noexcept nogil
ctypedef void (*Dgemv)(int order, int ta, int m, int n, double alpha, const double* a, int lda, const double* x, int incx,
                       double beta, double* y, int incy) noexcept nogil
ctypedef void (*Zgemv)(int order, int ta, int m, int n, const void* alpha, const void* a, int lda, const void* x, int incx,
                       const void* beta, void* y, int incy) noexcept nogil
ctypedef void (*MatMul)(char* y, const char* a, const char* b, const int64_t* sizes,
                        const int64_t* strides) noexcept nogil

cdef Sgemm sgemm = NULL
cdef Dgemm dgemm = NULL
cdef Zgemm cgemm = NULL
cdef Zgemm zgemm = NULL
cdef Sgemv sgemv = NULL
cdef Dgemv dgemv = NULL
cdef Zgemv cgemv = NULL
cdef Zgemv zgemv = NULL
cdef object blas_library = None                # keeps the functions mapped


cdef size_t blas_function(str name):
    return <size_t> ctypes.cast(getattr(blas_library, "scipy_cblas_" + name), ctypes.c_void_p).value


cdef int bind_blas() except -1:
    """Take the addresses of the BLAS functions; a dynamic load works in wheels and in editable installs alike."""
    global sgemm, dgemm, cgemm, zgemm, sgemv, dgemv, cgemv, zgemv, blas_library
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    try:
        # The wheel's own __init__ is not run: it takes longer to import than all of cygrad.
        wheel = find_spec("scipy_openblas32")
        if wheel is None:
            raise ImportError("No module named 'scipy_openblas32'")
        folder = os.path.join(wheel.submodule_search_locations[0], "lib")
        library = next(f for f in sorted(os.listdir(folder)) if f.startswith(("libscipy_openblas", "scipy_openblas")))
        os.environ["OPENBLAS_NUM_THREADS"] = "1"       # its own threads, which we never use, are then not even started
        blas_library = ctypes.CDLL(os.path.join(folder, library))
    except (ImportError, OSError, StopIteration) as e:
        raise ImportError("cygrad-storage multiplies matrices with OpenBLAS, which could not be loaded: pip install "
                          f"scipy-openblas32 ({e})") from e
    finally:
        if before is None:
            os.environ.pop("OPENBLAS_NUM_THREADS", None)
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before
    blas_library.scipy_openblas_set_num_threads(1)
    sgemm, dgemm = <Sgemm> blas_function("sgemm"), <Dgemm> blas_function("dgemm")
    cgemm, zgemm = <Zgemm> blas_function("cgemm"), <Zgemm> blas_function("zgemm")
    sgemv, dgemv = <Sgemv> blas_function("sgemv"), <Dgemv> blas_function("dgemv")
    cgemv, zgemv = <Zgemv> blas_function("cgemv"), <Zgemv> blas_function("zgemv")
    return 0


bind_blas()


cdef object blas():
    return blas_library


cdef struct Matrix:        # one operand of a batched product
    Meta* meta             # the tensor itself, or `copy` where BLAS cannot take its strides
    Meta copy
    int trans              # PLAIN or TRANSPOSED
    int ld                 # leading dimension, elements
    int64_t batch          # bytes from one matrix to the next

cdef struct Product:
    Matrix a
    Matrix b
    char* y
    int64_t n, p, k, batches       # y is (batches, n, p) row-major, the inner size is k
    int64_t y_batch                # bytes
    int64_t rows, columns          # of one tile
    int64_t high, wide             # tiles in a matrix
    int dtype
    double alpha, beta


# ---- operands

cdef bint blas_layout(const Meta* m, Matrix* x) noexcept:
    """Whether the last two dimensions are row-major or column-major with a leading dimension that BLAS takes.

    The stride of a dimension of size 1 means nothing, so it fits either order.
    """
    cdef int d = m.ndim - 2
    cdef int64_t rows = m.sizes[d], columns = m.sizes[d + 1]
    cdef int64_t down = m.strides[d], right = m.strides[d + 1]
    if (columns == 1 or right == 1) and (rows == 1 or down >= max(columns, 1)):
        x.trans = PLAIN
        down = down if rows > 1 else max(columns, 1)
        x.ld = <int> down
        return down <= 0x7fffffff
    if (rows == 1 or down == 1) and (columns == 1 or right >= max(rows, 1)):
        x.trans = TRANSPOSED
        right = right if columns > 1 else max(rows, 1)
        x.ld = <int> right
        return right <= 0x7fffffff
    return False


cdef Storage take_matrix(Matrix* x, Meta* m):
    """Describe an operand to BLAS, through a row-major copy where its strides need one.

    Returns what keeps the copy alive.
    """
    cdef Storage s = None
    memset(x, 0, sizeof(Matrix))
    x.meta = m
    if not blas_layout(m, x):
        s = op_clone(&x.copy, m, m.dtype, True)
        x.meta = &x.copy
        blas_layout(x.meta, x)
    x.batch = x.meta.strides[0] * ITEMSIZE[m.dtype] if m.ndim == 3 else 0
    return s


# ---- execution

cdef void multiply_vector(const Product* g, const Matrix* m, int turned, int rows, int columns, const char* a, const char* x,
                          int step, char* y) noexcept nogil:
    """y = beta * y + alpha * a x, for `rows` numbers of y: BLAS packs the matrix of a product, but reads that of this once.

    `turned` says that the stored matrix has `columns` rows.
    """
    cdef int trans = TRANSPOSED if turned else PLAIN
    cdef int down = columns if turned else rows, right = rows if turned else columns
    cdef float single[4]
    cdef double wide[4]
    if g.beta == 0:            # some versions of OpenBLAS multiply what is there by 0: a NaN would stay
        memset(y, 0, rows * ITEMSIZE[g.dtype])
    if g.dtype == FLOAT32:
        sgemv(ROW_MAJOR, trans, down, right, <float> g.alpha, <const float*> a, m.ld, <const float*> x, step, <float> g.beta,
              <float*> y, 1)
    elif g.dtype == COMPLEX64:
        single[0], single[1], single[2], single[3] = <float> g.alpha, 0, <float> g.beta, 0
        cgemv(ROW_MAJOR, trans, down, right, single, a, m.ld, x, step, &single[2], y, 1)
    elif g.dtype == COMPLEX128:
        wide[0], wide[1], wide[2], wide[3] = g.alpha, 0, g.beta, 0
        zgemv(ROW_MAJOR, trans, down, right, wide, a, m.ld, x, step, &wide[2], y, 1)
    else:
        dgemv(ROW_MAJOR, trans, down, right, g.alpha, <const double*> a, m.ld, <const double*> x, step, g.beta, <double*> y,
              1)


cdef void multiply_tile(const Product* g, int64_t tile) noexcept nogil:
    cdef int64_t column = tile % g.wide * g.columns
    cdef int64_t row = tile // g.wide % g.high * g.rows
    cdef int64_t batch = tile // (g.wide * g.high)
    cdef int64_t size = ITEMSIZE[g.dtype]
    cdef int rows = <int> min(g.rows, g.n - row), columns = <int> min(g.columns, g.p - column)
    cdef float single[4]       # factors of complex numbers
    cdef double wide[4]
    cdef const char* a = g.a.meta.data + batch * g.a.batch + row * size * (g.a.ld if g.a.trans == PLAIN else 1)
    cdef const char* b = g.b.meta.data + batch * g.b.batch + column * size * (1 if g.b.trans == PLAIN else g.b.ld)
    cdef char* y = g.y + batch * g.y_batch + (row * g.p + column) * size
    if g.p == 1 and g.k:       # an inner size of 0 leaves gemv's y as it is, whatever beta is
        multiply_vector(g, &g.a, g.a.trans == TRANSPOSED, rows, <int> g.k, a, b, g.b.ld if g.b.trans == PLAIN else 1, y)
    elif g.n == 1 and g.k:
        multiply_vector(g, &g.b, g.b.trans == PLAIN, columns, <int> g.k, b, a, 1 if g.a.trans == PLAIN else g.a.ld, y)
    elif g.dtype == FLOAT32:
        sgemm(ROW_MAJOR, g.a.trans, g.b.trans, rows, columns, <int> g.k, <float> g.alpha, <const float*> a, g.a.ld,
              <const float*> b, g.b.ld, <float> g.beta, <float*> y, <int> g.p)
    elif g.dtype == COMPLEX64:
        single[0], single[1], single[2], single[3] = <float> g.alpha, 0, <float> g.beta, 0
        cgemm(ROW_MAJOR, g.a.trans, g.b.trans, rows, columns, <int> g.k, single, a, g.a.ld, b, g.b.ld, &single[2], y,
              <int> g.p)
    elif g.dtype == COMPLEX128:
        wide[0], wide[1], wide[2], wide[3] = g.alpha, 0, g.beta, 0
        zgemm(ROW_MAJOR, g.a.trans, g.b.trans, rows, columns, <int> g.k, wide, a, g.a.ld, b, g.b.ld, &wide[2], y,
              <int> g.p)
    else:
        dgemm(ROW_MAJOR, g.a.trans, g.b.trans, rows, columns, <int> g.k, g.alpha, <const double*> a, g.a.ld,
              <const double*> b, g.b.ld, g.beta, <double*> y, <int> g.p)


cdef void halve_tile(Product* g) noexcept nogil:
    """Sides stay multiples of 16, the unit of BLAS kernels."""
    if g.rows >= g.columns:
        g.rows = (g.rows // 2 + 15) // 16 * 16
    else:
        g.columns = (g.columns // 2 + 15) // 16 * 16


cdef void choose_tiles(Product* g) noexcept nogil:
    cdef int64_t split = SPLIT_VECTOR if g.p == 1 or g.n == 1 else SPLIT_WORK
    g.rows, g.columns = g.n, g.p
    if g.rows * g.columns * g.k > split and max(g.rows, g.columns) >= 128:
        halve_tile(g)
    while g.rows * g.columns * g.k > TILE_WORK and max(g.rows, g.columns) >= 512:
        halve_tile(g)
    g.high = (g.n + g.rows - 1) // g.rows
    g.wide = (g.p + g.columns - 1) // g.columns


cdef void multiply(Product* g) noexcept:
    cdef int64_t i, tiles
    cdef int64_t work = g.batches * g.n * g.p * g.k
    cdef int threads
    choose_tiles(g)
    tiles = g.high * g.wide * g.batches
    if work < QUIET_WORK:
        for i in range(tiles):
            multiply_tile(g, i)
        return
    with nogil:
        threads = num_threads() if tiles > 1 and work >= (SPLIT_VECTOR if g.p == 1 or g.n == 1 else SPLIT_WORK) else 1
        if threads == 1:
            for i in range(tiles):
                multiply_tile(g, i)
        else:
            for i in prange(tiles, num_threads=threads, schedule="dynamic"):
                multiply_tile(g, i)


cdef void multiply_integers(Meta* y, Meta* a, Meta* b) noexcept:
    """Integer matrices, batched or not: kernel calls of one matrix each."""
    cdef int64_t sizes[3]
    cdef int64_t strides[4]
    cdef int64_t batches = a.sizes[0] if a.ndim == 3 else 1
    cdef int d = a.ndim - 2
    cdef int64_t size = ITEMSIZE[a.dtype]
    cdef MatMul loop = <MatMul> hand_kernel(H_MM, a.dtype)
    sizes[0], sizes[1], sizes[2] = a.sizes[d], b.sizes[d + 1], a.sizes[d + 1]
    strides[0], strides[1] = a.strides[d] * size, a.strides[d + 1] * size
    strides[2], strides[3] = b.strides[d] * size, b.strides[d + 1] * size
    if y.numel * sizes[2] < QUIET_WORK:
        loop_batches(loop, y, a, b, batches, sizes, strides)
    else:
        with nogil:
            loop_batches(loop, y, a, b, batches, sizes, strides)


cdef void loop_batches(MatMul loop, Meta* y, Meta* a, Meta* b, int64_t batches, const int64_t* sizes,
                       const int64_t* strides) noexcept nogil:
    cdef int64_t i, size = ITEMSIZE[y.dtype]
    cdef int64_t step_a = a.strides[0] * size if a.ndim == 3 else 0
    cdef int64_t step_b = b.strides[0] * size if b.ndim == 3 else 0
    for i in range(batches):
        loop(y.data + i * sizes[0] * sizes[1] * size, a.data + i * step_a, b.data + i * step_b, sizes, strides)


cdef int multiply_into(Meta* y, Meta* a, Meta* b, double alpha, double beta) except -1:
    """y = beta * y + alpha * a @ b for a row-major y of floating dtype; shapes fit."""
    cdef Product g
    cdef Storage keep_a, keep_b
    cdef int d = a.ndim - 2
    if y.numel == 0:
        return 0
    if a.sizes[d + 1] == 0 and beta == 0:
        fill_double(y, 0)
        return 0
    if max(a.sizes[d], a.sizes[d + 1], b.sizes[d + 1]) > 0x7fffffff:
        raise RuntimeError(f"matrix product: sizes above 2147483647 are not supported, got {shape_text(a)} and "
                           f"{shape_text(b)}")
    keep_a = take_matrix(&g.a, a)
    try:
        keep_b = take_matrix(&g.b, b)
        g.y = y.data
        g.n, g.p, g.k = a.sizes[d], b.sizes[d + 1], a.sizes[d + 1]
        g.batches = a.sizes[0] if d else 1
        g.y_batch = g.n * g.p * ITEMSIZE[y.dtype]
        g.dtype = y.dtype
        g.alpha, g.beta = alpha, beta
        multiply(&g)
        meta_clear(&g.b.copy)
    finally:
        meta_clear(&g.a.copy)
    return 0


# ---- operations

cdef Storage product(str op, Meta* y, Meta* a, Meta* b, int ndim):
    cdef Meta wide_a, wide_b
    cdef Storage keep_a, keep_b, s
    cdef int code = a.dtype
    check_product(op, a, b, ndim)
    if COMPUTED[code] == code:
        return product_of(y, a, b, ndim)
    memset(&wide_a, 0, sizeof(Meta))
    memset(&wide_b, 0, sizeof(Meta))
    try:
        keep_a = computed(&wide_a, a)
        keep_b = computed(&wide_b, b)
        s = product_of(y, &wide_a, &wide_b, ndim)
    finally:
        meta_clear(&wide_a)
        meta_clear(&wide_b)
    return recast(y, s, code)


cdef Storage product_of(Meta* y, Meta* a, Meta* b, int ndim):
    """The product of operands that fit, in a dtype that has kernels."""
    cdef int64_t sizes[3]
    cdef Storage s
    memcpy(sizes, a.sizes, (ndim - 1) * sizeof(int64_t))
    sizes[ndim - 1] = b.sizes[ndim - 1]
    s = allocate_contig(y, ndim, sizes, a.dtype)
    try:
        if not is_integral(a.dtype):           # a plain loop gains 30 ns below 3 x 3 and loses from 4 x 4 on
            multiply_into(y, a, b, 1, 0)
        elif y.numel:
            multiply_integers(y, a, b)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_addmm(Meta* y, Meta* c, Meta* a, Meta* b, double beta, double alpha):
    cdef Meta wide_a, wide_b
    cdef Storage keep_a, keep_b, s
    check_addmm(c, a, b)
    if COMPUTED[a.dtype] == a.dtype:
        return blended_product(y, c, a, b, beta, alpha)
    memset(&wide_a, 0, sizeof(Meta))
    memset(&wide_b, 0, sizeof(Meta))
    try:
        keep_a = computed(&wide_a, a)
        keep_b = computed(&wide_b, b)
        s = blended_product(y, c, &wide_a, &wide_b, beta, alpha)
    finally:
        meta_clear(&wide_a)
        meta_clear(&wide_b)
    return recast(y, s, c.dtype)


cdef Storage blended_product(Meta* y, Meta* c, Meta* a, Meta* b, double beta, double alpha):
    cdef int64_t sizes[2]
    cdef Meta shown
    cdef Storage s
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    memset(&shown, 0, sizeof(Meta))
    view_expand(&shown, c, 2, sizes)
    try:
        s = allocate_contig(y, 2, sizes, a.dtype)
        if beta != 0:
            copy_broadcast(y, &shown)
    finally:
        meta_clear(&shown)
    try:
        if not is_integral(a.dtype):
            multiply_into(y, a, b, alpha, beta)
        else:
            add_integer_product(y, a, b, beta, alpha)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef int add_integer_product(Meta* y, Meta* a, Meta* b, double beta, double alpha) except -1:
    """y = beta * y + alpha * a @ b with integer factors; y holds the added tensor unless beta is 0."""
    cdef Meta held
    cdef Storage s
    memset(&held, 0, sizeof(Meta))
    s = product("addmm", &held, a, b, 2)
    if y.dtype == INT64 or y.dtype == UINT64:
        blend[int64_t](<int64_t*> y.data, <const int64_t*> held.data, y.numel, <int64_t> beta, <int64_t> alpha)
    elif y.dtype == INT32:
        blend[int32_t](<int32_t*> y.data, <const int32_t*> held.data, y.numel, <int64_t> beta, <int64_t> alpha)
    else:
        blend[uint8_t](<uint8_t*> y.data, <const uint8_t*> held.data, y.numel, <int64_t> beta, <int64_t> alpha)
    meta_clear(&held)
    return 0


cdef void blend(element* y, const element* x, int64_t n, int64_t beta, int64_t alpha) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        y[i] = <element> ((beta * <int64_t> y[i] if beta != 0 else 0) + alpha * <int64_t> x[i])


cdef Storage op_dot(Meta* y, Meta* a, Meta* b):
    cdef Meta wide_a, wide_b
    cdef Storage keep_a, keep_b
    check_dot(a, b)
    if COMPUTED[a.dtype] == a.dtype:
        return dot_of(y, a, b)
    memset(&wide_a, 0, sizeof(Meta))
    memset(&wide_b, 0, sizeof(Meta))
    try:
        keep_a = computed(&wide_a, a)
        keep_b = computed(&wide_b, b)
        return recast(y, dot_of(y, &wide_a, &wide_b), a.dtype)
    finally:
        meta_clear(&wide_a)
        meta_clear(&wide_b)


cdef Storage dot_of(Meta* y, Meta* a, Meta* b):
    cdef int64_t st[3]
    cdef char* p[3]
    cdef Storage s = allocate_contig(y, 0, NULL, a.dtype)
    p[0], p[1], p[2] = y.data, a.data, b.data
    st[0], st[1], st[2] = 0, a.strides[0] * ITEMSIZE[a.dtype], b.strides[0] * ITEMSIZE[a.dtype]
    (<Loop> hand_kernel(H_DOT, a.dtype))(p, st, a.numel, NULL)
    return s

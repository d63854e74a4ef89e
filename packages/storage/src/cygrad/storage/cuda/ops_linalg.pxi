# Matrix products on a device. May use: ops_copy, the checks that devices share.
# Invariant: cuBLAS is looked for when it is first needed, and a product without it is refused in words.
import os
import sys
from glob import glob

from cygrad.storage.cuda import matmul as matmul_settings

include "ops_common_linalg.pxi"

cdef extern from "kernels.h" nogil:
    ctypedef struct CygProduct:
        char* y
        const char* a
        const char* b
        int64_t m, n, k, batches
        int64_t a_row, a_column, a_batch, b_row, b_column, b_batch, y_batch
        double alpha, beta
        bint tf32
    int cyg_blas_open(const char* path)
    int cyg_product(int code, const CygProduct* product, void* stream)

cdef bint has_blas = False


def library_paths(str package, str name, tuple versions):
    """Where a library of NVIDIA's may lie: its wheels, then wherever the loader of this system looks."""
    found = []
    for folder in sys.path:
        for where in (package, "cu13", "cu12"):
            found += sorted(glob(os.path.join(folder, "nvidia", where, "lib", name + ".so.*")), reverse=True)
    return found + [f"{name}.so.{version}" for version in versions] + [name + ".so"]


cdef int open_blas() except -1:
    """Bind cuBLAS; RuntimeError where there is none."""
    global has_blas
    if has_blas:
        return 0
    for path in library_paths("cublas", "libcublas", (13, 12, 11)):
        if cyg_blas_open(os.fsencode(path)):
            has_blas = True
            return 0
    raise RuntimeError("matrix products on CUDA devices need cuBLAS, which was found neither in Python's packages nor by the "
                       "loader: pip install nvidia-cublas")


cdef bint takes_matrix(const Meta* x) noexcept:
    """Whether BLAS takes the last two dimensions as they are."""
    cdef int64_t row = x.strides[x.ndim - 2], column = x.strides[x.ndim - 1]
    cdef int64_t rows = x.sizes[x.ndim - 2], columns = x.sizes[x.ndim - 1]
    if x.ndim == 3 and x.strides[0] < 0 or max(row, column) > 0x7fffffff:
        return False
    return ((column == 1 or columns == 1) and (row >= columns or rows == 1)
            or (row == 1 or rows == 1) and (column >= rows or columns == 1))


cdef Storage take_matrix(Meta* held, Meta* x):
    if takes_matrix(x):
        meta_like(held, x)
        return None
    return op_clone(held, x, x.dtype, True)


cdef int multiply_into(Meta* y, Meta* a, Meta* b, double alpha, double beta) except -1:
    """y = beta * y + alpha * a @ b for a row-major y; shapes fit."""
    cdef CygProduct p
    cdef Meta left, right
    cdef Storage keep_left, keep_right
    cdef void* stream
    cdef int d = a.ndim - 2
    if y.numel == 0:
        return 0
    if a.sizes[d + 1] == 0 and beta == 0:
        fill_double(y, 0)
        return 0
    if max(a.sizes[d], a.sizes[d + 1], b.sizes[d + 1]) > 0x7fffffff:
        raise RuntimeError(f"matrix product: sizes above 2147483647 are not supported, got {shape_text(a)} and "
                           f"{shape_text(b)}")
    if not is_integral(y.dtype):
        open_blas()
    memset(&left, 0, sizeof(Meta))
    memset(&right, 0, sizeof(Meta))
    try:
        keep_left, keep_right = take_matrix(&left, a), take_matrix(&right, b)
        p.y, p.a, p.b = y.data, left.data, right.data
        p.m, p.n, p.k, p.batches = a.sizes[d], b.sizes[d + 1], a.sizes[d + 1], a.sizes[0] if d else 1
        p.a_row, p.a_column, p.a_batch = left.strides[d], left.strides[d + 1], left.strides[0] if d else 0
        p.b_row, p.b_column, p.b_batch = right.strides[d], right.strides[d + 1], right.strides[0] if d else 0
        p.y_batch, p.alpha, p.beta, p.tf32 = p.m * p.n, alpha, beta, matmul_settings.allow_tf32
        enter(y.device, &stream)
        ran(cyg_product(y.dtype, &p, stream), "matrix product", y.dtype)
    finally:
        meta_clear(&left)
        meta_clear(&right)
    return 0


cdef Storage product(str op, Meta* y, Meta* a, Meta* b, int ndim):
    cdef int64_t sizes[3]
    cdef Storage s
    check_product(op, a, b, ndim)
    memcpy(sizes, a.sizes, (ndim - 1) * sizeof(int64_t))
    sizes[ndim - 1] = b.sizes[ndim - 1]
    meta_place(y, a.device)
    s = allocate_contig(y, ndim, sizes, a.dtype)
    try:
        multiply_into(y, a, b, 1, 0)
    except BaseException:
        meta_clear(y)
        raise
    return s


cdef Storage op_addmm(Meta* y, Meta* c, Meta* a, Meta* b, double beta, double alpha):
    cdef int64_t sizes[2]
    cdef Meta shown
    cdef Storage s
    check_addmm(c, a, b)
    sizes[0], sizes[1] = a.sizes[0], b.sizes[1]
    memset(&shown, 0, sizeof(Meta))
    view_expand(&shown, c, 2, sizes)
    try:
        s = allocate_contig(y, 2, sizes, a.dtype)
        if beta != 0:
            copy_broadcast(y, &shown)
        multiply_into(y, a, b, alpha, beta)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&shown)
    return s


cdef Storage op_dot(Meta* y, Meta* a, Meta* b):
    """A row times a column."""
    cdef Meta row, column
    cdef Storage s
    check_dot(a, b)
    memset(&row, 0, sizeof(Meta))
    memset(&column, 0, sizeof(Meta))
    view_unsqueeze(&row, a, 0)
    view_unsqueeze(&column, b, 1)
    try:
        s = product("dot", y, &row, &column, 2)
    finally:
        meta_clear(&row)
        meta_clear(&column)
    y.ndim = 0
    return s

# The CPU's hand-written operations over Metas: everything that is not pointwise and not a view. One noun an include:
#   ops_copy copies, casts and fills; ops_create new tensors; ops_reduce reductions; ops_along softmax; ops_scan running
#   sums; ops_linalg products on BLAS; ops_recurrent recurrent layers; ops_attention attention; ops_conv convolutions; ops_norm layer normalisation; ops_pool pooling and patches; ops_index (slices), ops_lookup (single elements), ops_advanced (several indices)
#   and their engine ops_pick reading and writing through indices; ops_mask what depends on masks; ops_walk elements in
#   their order; ops_shape copies in another arrangement;
#   ops_sort sorting, selection, search; twister PyTorch's generator, ops_random numbers from it.
# What callers see is ops.pxd. May cimport: core, dispatch, ops. Invariant: arguments are checked before anything is written;
# loops see C structs only.

import os

from cython.parallel cimport prange, threadid
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.math cimport INFINITY, M_PI, NAN, ceil, cos, fabs, fma, fmaf, isfinite, log, log1p, pow, sin, sqrt
from libc.stdlib cimport free, malloc
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, memcmp
from cygrad.storage.core cimport (
    BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64,
    COMPLEX128, COMPUTED, N_DTYPES, CONTIGUOUS, GRAIN, ITEMSIZE, MAXDIM, MAXOPS, NOGIL, Iter, Loop, Meta, Storage,
    broadcast_shapes, complex_of, default_dtype, dtype_object, has_internal_overlap, is_complex, is_float, is_integral,
    is_unsigned, real_of, iter_build, iter_run_gil, may_share_memory, meta_clear, meta_contig, meta_dense_like, storage_new,
    block_alloc, block_free, meta_joint, meta_like, meta_same_shape, meta_storage, meta_strided, num_threads, promote, shape_tuple, stride_tuple,
    view_expand, view_narrow, view_parts, view_select, view_unsqueeze, view_view, view_whole, wrap_dim)
from cygrad.storage.dispatch cimport hand_kernel
from cygrad.storage.ops cimport (
    BERNOULLI, BY_RATE, BY_SHAPE, BY_TRIALS, CAUCHY, EXPONENTIAL, GEOMETRIC, INTEGER, INTEGER_WIDE, LOG_NORMAL, NORMAL, UNIFORM,
    DrawnBy, Generator, default_generator, enter_table)

include "abi.pxi"
include "_reduce.pxi"
include "_sort.pxi"
include "_recurrent.pxi"
include "_ops_table.pxi"

check_storage_abi("cygrad.storage.cpu")


include "ops_common.pxi"
include "ops_copy.pxi"
include "ops_create.pxi"
include "ops_reduce.pxi"
include "ops_linalg.pxi"
include "ops_recurrent.pxi"
include "ops_along.pxi"
include "ops_conv.pxi"
include "ops_slide.pxi"
include "ops_batch_norm.pxi"
include "ops_norm.pxi"
include "ops_attention.pxi"
include "ops_pool.pxi"
include "ops_scan.pxi"
include "ops_complex.pxi"
include "ops_walk.pxi"
include "ops_pick.pxi"
include "ops_index.pxi"
include "ops_lookup.pxi"
include "ops_mask.pxi"
include "ops_advanced.pxi"
include "ops_sort.pxi"
include "ops_shape.pxi"
include "twister.pxi"
include "ops_random.pxi"
include "_cpu_fill.pxi"


cdef Ops all_of_them
fill(&all_of_them)
enter_table(False, &all_of_them, sizeof(Ops))

# CUDA devices as a device of storage: memory, streams, copies, and the operations that the gate finds in the table at the end.
# May cimport: core, ops. Invariant: the processor follows no pointer into a device's memory; it hands it to kernels and copies.
import os
import struct
from bisect import bisect_left, bisect_right, insort

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, INT64_MAX, INT64_MIN
from libc.math cimport INFINITY, NAN
from libc.string cimport memcpy, memset
from cygrad.storage cimport ops
from cygrad.storage.core cimport (
    BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64,
    COMPLEX128, COMPUTED, N_DTYPES, CONTIGUOUS, DENSE, FLAT, ITEMSIZE, MAXDIM, MAXOPS, Iter, Meta, Storage,
    broadcast_shapes, complex_of, default_dtype, device_object, dtype_object, enter_memory, has_internal_overlap, is_complex,
    is_float, is_integral, is_unsigned, real_of, iter_build, may_share_memory, meta_alloc, meta_clear, meta_contig,
    meta_dense_like, meta_joint, meta_like, meta_place, meta_same_shape, meta_storage, meta_strided, promote, shape_tuple,
    stride_tuple, storage_borrow, storage_new, storage_on, view_as_strided, view_diagonal, view_expand, view_narrow,
    view_parts, view_permute, view_reshape, view_select, view_slice, view_squeeze, view_transpose, view_unsqueeze,
    view_view, view_whole, wrap_dim)
from cygrad.storage.ops cimport (
    BERNOULLI, BY_RATE, BY_SHAPE, BY_TRIALS, CAUCHY, EXPONENTIAL, GEOMETRIC, INTEGER, INTEGER_WIDE, LOG_NORMAL, NORMAL, UNIFORM,
    DrawnBy, Generator, default_generator, enter_table)

include "abi.pxi"
include "_ops_table.pxi"

check_storage_abi("cygrad.storage.cuda._cuda")

include "ops_common.pxi"     # of the CPU: allocation, errors
cdef extern from *:
    """
    #ifndef CYGRAD_CUDA_HOST
    #define CYGRAD_CUDA_HOST 0
    #endif
    #ifndef CYGRAD_CUDA_ARCHITECTURES
    #define CYGRAD_CUDA_ARCHITECTURES ""
    #endif
    #if CYGRAD_CUDA_HOST
    static int cyg_cuda_version(void) { return 0; }
    #else
    #ifdef __cplusplus
    extern "C"
    #endif
    int cudaRuntimeGetVersion(int*);
    static int cyg_cuda_version(void) { int v = 0; return cudaRuntimeGetVersion(&v) ? 0 : v; }
    #endif
    """
    bint CYGRAD_CUDA_HOST
    const char* CYGRAD_CUDA_ARCHITECTURES
    int cyg_cuda_version() noexcept

IS_HOST = bool(CYGRAD_CUDA_HOST)         # devices are imitated on the processor
VERSION = cyg_cuda_version()             # of CUDA's run time, as 13000; 0 where devices are imitated
ARCHITECTURES = tuple(CYGRAD_CUDA_ARCHITECTURES.decode().split())    # for which device code was compiled: sm_90, compute_80

include "runtime.pxi"        # devices, memory, streams, events
include "transfer.pxi"       # copies between devices, numbers out
include "_cuda_ops.pxi"      # the kernels' operations: all ops_*.pxi of this folder
include "_cuda_fill.pxi"

cdef Ops all_of_them
fill(&all_of_them)
enter_table(True, &all_of_them, sizeof(Ops))
enter_memory(take_memory, give_memory, move_memory)

# cygrad.autograd._core: the single translation unit of the engine, so that cdef calls inline. Includes its parts in order:
# each names what it is and what it may rely on. Generated from the op table: ops.pxi. Public forms of the table's rows
# are in _forms, their gradients in _gradients_pointwise and _gradients_others.
# distutils: language = c
cimport cython
import sys as _sys
import threading as _threading
from collections import namedtuple as _namedtuple
import builtins as _py                # max, min, sum, all, any, ... are operations in this module
from cpython.bool cimport PyBool_Check
from cpython.exc cimport PyErr_CheckSignals
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_New
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from cpython.weakref cimport PyWeakref_NewRef
from cpython.sequence cimport PySequence_Check
from libc.math cimport INFINITY, NAN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from cygrad.storage cimport dispatch, ops
from cygrad.storage.core cimport (
    BFLOAT16, BOOL, COMPLEX64, COMPLEX128, CONTIGUOUS, DENSE, FLAT, FLOAT16, FLOAT32, FLOAT64, INLINE, INT8, INT16, INT32, INT64,
    ITEMSIZE, KIND, KIND_COMPLEX, KIND_FLOAT, KIND_INT, MAXDIM, N_DTYPES, NOGIL, UINT8, UINT16, UINT32, UINT64, Iter, Loop, Meta, Storage, block_alloc, block_free, broadcast_shapes,
    default_dtype, device_code, device_object, dtype, dtype_code, dtype_object, has_internal_overlap, is_float, is_integral, is_unsigned, real_of, iter_build, iter_run, iter_run_gil, may_share_memory,
    meta_alloc, meta_clear, meta_contig, meta_dense_like, meta_joint, meta_like, meta_place, meta_same_shape, meta_storage, meta_strided, promote,
    set_default, settle, shape_tuple, storage_borrow, storage_new, storage_on, storage_origin, stride_tuple, view_as_strided, view_diagonal, view_expand,
    view_narrow, view_parts, view_permute, view_reshape, view_select, view_slice, view_squeeze, view_transpose, view_unfold,
    view_unsqueeze, view_view, view_whole, wrap_dim)
from cygrad.storage.lapack cimport LAPACK_RESULTS, lapack_call

from cygrad.storage.interop cimport export_buffer, release_buffer, storage_of_array, storage_of_buffer
from cygrad.storage.core import Size, device as Device, dtypes as _dtypes

include "abi.pxi"         # storage's: whether the installed one is the one that this was compiled for

check_storage_abi("cygrad.autograd._core")

cdef extern from *:
    const unsigned long long CYGRAD_AUTOGRAD_ABI


def abi():
    """Stamp of this module's C declarations, for modules that cimport it."""
    return CYGRAD_AUTOGRAD_ABI


include "mode.pxi"        # what is recorded: the thread's mode word
include "trace.pxi"       # what wrote a memory last; lines of the user's program
include "node.pxi"        # Node: one step of the backward graph
include "profile.pxi"     # when operations begin and end
include "saved.pxi"       # what saved_tensors_hooks took, and who is told of writes
include "promotion.pxi"   # dtype of a result
include "opcall.pxi"      # running and recording pointwise operations
include "numbers.pxi"     # Python numbers as operands
include "streams.pxi"     # of devices, on which nodes were made
include "view.pxi"        # views, and in-place writes through them
include "batch.pxi"       # tensors of vmap: one example that stands for a batch
include "batch_limits.pxi"
include "op_ids.pxi"      # generated: op ids
include "ops.pxi"         # generated: op_NAME functions
include "autocast.pxi"    # operations that compute in other dtypes
include "table.pxi"       # filled from what the op table says
from cygrad.storage import dispatch as _dispatch

if _dispatch.table_stamp() != TABLE_STAMP:
    raise ImportError("cygrad.autograd._core was generated from another op table than the installed cygrad-storage: "
                      "install all cygrad packages of one version together")

include "formulas.pxi"    # gradients too long for a row of the table
include "formulas_reduce.pxi"
include "formulas_complex.pxi"  # gradients of complex numbers
include "formulas_index.pxi"
include "slices.pxi"      # gradients of views and of writes through them
include "accumulate.pxi"  # where gradients meet
include "batching.pxi"    # operations on batched tensors that need rules of their own
include "batching_nn.pxi"
include "engine.pxi"      # backward passes
include "anomaly.pxi"     # where nodes were made, and what a failing backward says
include "hooks.pxi"       # what users attached to nodes
include "dual.pxi"        # forward mode
include "args.pxi"        # what users may pass: checks and conversions
include "construct.pxi"   # tensor(), zeros(), from_numpy() and so on
include "ranges.pxi"      # arange(), linspace(), eye()
include "indexing.pxi"    # x[...] and x[...] = v
include "indexed.pxi"     # public calls that read and write through indices, and those that rearrange
include "calls.pxi"       # public calls whose meaning depends on their arguments
include "calls_reduce.pxi"
include "random.pxi"      # random numbers
include "sorting.pxi"     # search in sorted tensors
include "lapack.pxi"      # LAPACK on tensors, for autograd/composed
include "layers.pxi"      # loops of whole layers, for cygrad.nn
include "formats.pxi"     # order in memory; changes of shape in place
include "tensor.pxi.in"   # class Tensor
include "rare.pxi"        # rows of the table that are called by name
include "entry.pxi"       # backward() and grad()
include "transforms.pxi"  # what transforms of functions need
include "function.pxi"    # custom Functions
include "observe.pxi"     # what find_nan(), strict() and profile() look at
include "function_dual.pxi"  # tangents through them

__all__ = [
    *GENERATED_FUNCTIONS, "Tensor", "allclose", "arange", "as_strided", "as_tensor", "broadcast_to", "can_cast",
    "cat", "chunk", "clamp", "clone", "conj", "div", "empty", "empty_like", "equal", "eye", "flatten", "flip",
    "from_numpy", "frombuffer", "full", "full_like", "gather", "get_default_dtype", "index_add", "index_put",
    "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_complex", "is_floating_point", "is_grad_enabled", "is_inference",
    "is_inference_mode_enabled", "is_tensor", "isclose", "linspace", "logsumexp",
    "manual_seed", "masked_scatter", "matmul", "max", "min", "movedim", "nonzero", "norm", "numel", "ones",
    "ones_like", "permute", "pow", "promote_types", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "repeat_interleave", "reshape", "result_type", "roll", "scatter", "set_default_dtype", "split", "squeeze", "stack",
    "std", "t", "take", "tensor", "unbind", "var", "where", "zeros", "zeros_like"]

__all__ += ["bucketize", "randint_like", "searchsorted"]
__all__ += ["channels_last", "channels_last_3d", "contiguous_format", "empty_strided", "layout", "memory_format", "preserve_format",
            "strided"]

# Which kernel runs: one table of pointers per kind of kernel, filled at import from the best instruction set.
# May cimport: core. Invariant: after import every row that the op table declares for a dtype is non-NULL.
import os
from importlib import import_module
from importlib.util import find_spec

from cpython.buffer cimport Py_buffer, PyObject_GetBuffer, PyBuffer_Release, PyBUF_STRIDES, PyBUF_WRITABLE
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset
from cygrad.storage.core cimport (
    Loop, MAXOPS, N_DTYPES, BOOL, UINT8, INT8, INT16, INT32, INT64, UINT16, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64,
    COMPLEX64, COMPLEX128)

include "abi.pxi"
include "kernel_ids.pxi"
include "kernel_names.pxi"
include "_hand_ids.pxi"

check_storage_abi("cygrad.storage.dispatch")

cdef extern from *:
    """
    /* The compiler wants literal names, and answers only on the machine that it compiles for. */
    #if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
    static int cyg_has_avx2(void) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    }
    static int cyg_has_avx512(void) {
        return cyg_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
    #else
    static int cyg_has_avx2(void) { return 0; }
    static int cyg_has_avx512(void) { return 0; }
    #endif
    """
    bint cyg_has_avx2() noexcept
    bint cyg_has_avx512() noexcept

ctypedef void (*Register)(void** table) noexcept

ISAS = ("avx512", "avx2", "base")              # best first
# The groups of POINTWISE are printed from the op table; the other GROUPS are hand-written, and fill the second table.
SINGLE = ("special", "complex", "complex_rows")          # groups that are compiled for the base instruction set only

cdef void* pointwise_table[N_KERNELS * N_DTYPES]
cdef void* hand_table[N_HAND * N_DTYPES]


cdef Loop kernel(int kid, int dtype) noexcept:
    return <Loop>pointwise_table[kid * N_DTYPES + dtype]


cdef void** kernel_row(int kid) noexcept:
    return &pointwise_table[kid * N_DTYPES]


cdef void* hand_kernel(int hid, int dtype) noexcept nogil:
    return hand_table[hid * N_DTYPES + dtype]


def module_name(group, isa):
    return f"cygrad.storage.kernels._k_{group}_{'base' if group in SINGLE else isa}"


def isas_available():
    """Instruction sets that this CPU has and this build contains, best first.

    Returns
    -------
    tuple of str
    """
    runs = {"base": True, "avx2": cyg_has_avx2(), "avx512": cyg_has_avx512()}
    return tuple(i for i in ISAS if runs[i] and find_spec(module_name("pointwise", i)) is not None)


def isa():
    """The instruction set whose kernels run; the environment variable CYGRAD_ISA chooses another one at import.

    Returns
    -------
    str
        "base", "avx2" or "avx512".
    """
    return CHOSEN


def choose():
    available = isas_available()
    if not available:
        raise ImportError("cygrad-storage was installed without its kernel modules: install it again")
    wanted = os.environ.get("CYGRAD_ISA", "").strip()
    if wanted and wanted not in available:
        raise ImportError(f"CYGRAD_ISA={wanted!r} is not available: this CPU and this build have {', '.join(available)}")
    return wanted or available[0]


def table_stamp():
    """A number that changes with the kernel ids; what was compiled with other ones would run other kernels.

    Returns
    -------
    int
    """
    return TABLE_STAMP


cdef int fill(void** table, str group, str isa) except -1:
    module = import_module(module_name(group, isa))
    if group in POINTWISE and module.table_stamp() != TABLE_STAMP:
        raise ImportError(f"{module.__name__} was compiled for another op table than {__name__}: install cygrad-storage again")
    cdef size_t address = module.register_address()
    (<Register>address)(table)
    return 0


cdef int check_complete() except -1:
    cdef int code
    for name, (kid, *_) in KERNELS.items():
        for code in range(N_DTYPES):
            if DECLARED[<int>kid] >> code & 1 and pointwise_table[<int>kid * N_DTYPES + code] == NULL:
                raise ImportError(f"the kernel {name} is missing for dtype code {code}: the kernel modules are of another build")
    return 0


CHOSEN = choose()
for _group in GROUPS:
    fill(&pointwise_table[0] if _group in POINTWISE else &hand_table[0], _group, CHOSEN)
check_complete()


cdef Loop find_loop(str name, int dtype, str isa) except NULL:
    cdef void* table[N_KERNELS * N_DTYPES]
    cdef Loop loop
    memset(table, 0, sizeof(table))
    for group in (KERNELS[name][3], "complex_rows"):
        fill(table, group, CHOSEN if isa is None else isa)
    loop = <Loop>table[<int>KERNELS[name][0] * N_DTYPES + dtype]
    if loop == NULL:
        raise TypeError(f"{name} has no kernel for dtype code {dtype}")
    return loop


def loop_address(str name, int dtype, str isa=None):
    """Where the machine code of one pointwise kernel begins; for tests that read it.

    Parameters are those of `run_loop`.
    """
    return <size_t>find_loop(name, dtype, isa)


def run_loop(str name, int dtype, out, tuple inputs, tuple attr=(), str isa=None):
    """Run one pointwise kernel over 1-d buffers; for tests of the kernels themselves.

    Parameters
    ----------
    name : str
        A key of ``KERNELS``.
    dtype : int
        Code of the element type.
    out, inputs : buffers
        1-d, of the kernel's own element types and of equal length; any stride, also 0 and negative.
    attr : tuple of float
        The scalar arguments.
    isa : str, optional
        One of `isas_available`; by default the one in use.

    Raises
    ------
    KeyError, ValueError, TypeError
        No such kernel; buffers of other lengths or counts; no kernel for this dtype.
    """
    cdef Py_buffer views[MAXOPS]
    cdef char* p[MAXOPS]
    cdef int64_t st[MAXOPS]
    cdef double scalars[MAXOPS]
    cdef int k, held = 0
    _, operands, names, _ = KERNELS[name]
    if len(inputs) != len(operands) or len(attr) != len(names):
        raise ValueError(f"{name} takes the operands {operands} and scalars {names}")
    cdef Loop loop = find_loop(name, dtype, isa)
    for k in range(len(attr)):
        scalars[k] = attr[k]
    try:
        for k, x in enumerate((out, *inputs)):
            PyObject_GetBuffer(x, &views[k], PyBUF_STRIDES | (PyBUF_WRITABLE if k == 0 else 0))
            held += 1
            if views[k].ndim != 1 or views[k].shape[0] != views[0].shape[0]:
                raise ValueError(f"{name}: operand {k} is not 1-d or not as long as the result")
            p[k] = <char*>views[k].buf
            st[k] = views[k].strides[0]
        loop(p, st, views[0].shape[0], scalars if names else NULL)
    finally:
        for k in range(held):
            PyBuffer_Release(&views[k])

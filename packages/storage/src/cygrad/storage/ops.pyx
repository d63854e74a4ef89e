# The gate: each function of ops.pxd calls that of the device where its operands are. Also the generator of random numbers.
# May cimport: core, dispatch. Invariant: no function of a device ever sees memory of another one, except copy_into.
from libc.math cimport M_PI, cos, log1p, sin, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
cimport cython
from cygrad.storage.core cimport (
    FLOAT32, Iter, Meta, Storage, device_object, iter_build, iter_run_gil, meta_contig, meta_storage)
from cygrad.storage.dispatch cimport hand_kernel, kernel

include "abi.pxi"
include "_hand_ids.pxi"
include "twister.pxi"
include "generator.pxi"
include "_ops_table.pxi"

check_storage_abi("cygrad.storage.ops")

cdef Ops cpu
cdef Ops elsewhere

cdef enum:
    MANY = 64          # operands of one list that are looked at together, as opgen/gate.py has it


cdef int enter_table(bint away, const void* table, size_t nbytes) except -1:
    if nbytes != sizeof(Ops):
        raise ImportError("a device's operations were compiled for other declarations than cygrad.storage.ops: install "
                          "cygrad-storage again")
    memcpy(&elsewhere if away else &cpu, table, nbytes)
    return 0


cdef extern from *:
    """
    #if defined(_MSC_VER)
    static __declspec(thread) int cyg_going_on = 0;
    #else
    static __thread int cyg_going_on = 0;
    #endif
    """
    int cyg_going_on                  # of this thread: others may run while a copy waits


cdef bint copies_go_on() noexcept:
    return cyg_going_on != 0


cdef bint let_copies_go_on(bint on) noexcept:
    global cyg_going_on
    cdef bint before = cyg_going_on != 0
    cyg_going_on = on
    return before


cdef int check_host_generator(Generator gen) except -1:
    if gen is not None and gen.device_code:
        raise RuntimeError("Expected a 'cpu' device type for generator but found 'cuda'")
    return 0


cdef inline int away(const Meta* m) noexcept:
    return 0 if m == NULL else m.device


cdef int any_away(Meta** list, int64_t n) noexcept:
    cdef int found = 0
    cdef int64_t i
    for i in range(n):
        found |= away(list[i])
    return found


cdef int collect(Meta** metas, int count, Meta** list, int64_t n) except -1:
    """Append a list's operands to `metas`, and say how many there are then; of a long list those that differ from the first."""
    cdef int64_t i
    for i in range(n):
        if i >= MANY - 1 and list[i] != NULL and list[i].device == list[0].device:
            continue
        if i >= MANY:
            two_devices(list[i].device, list[0].device)
        metas[count] = list[i]
        count += 1
    return count


cdef void* table_of(int place, int device) except NULL:
    """The operations of a device that has the one at `place`."""
    cdef Ops* table = &cpu if device == 0 else &elsewhere
    if (<void**>table)[place] == NULL:
        raise NotImplementedError(f"{OP_NAMES[place].removeprefix('op_')} is not implemented for tensors on {device_object(device)}: "
                                  "move them with .cpu()")
    return table


cdef int two_devices(int a, int b) except -1:
    names = sorted(str(device_object(code)) for code in (a, b))
    raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {names[1]} and {names[0]}!")


@cython.final
@cython.no_gc
cdef class Number:
    # a CPU's number where other operands are; made for one call
    cdef Meta m
    cdef Storage memory


cdef Number brought(const Meta* m, int device):
    cdef Number y = Number.__new__(Number)
    y.m.device = device
    meta_contig(&y.m, 0, NULL, m.dtype)
    y.memory = meta_storage(&y.m)
    copy_into(&y.m, <Meta*>m)
    return y


cdef int common_device(Meta** metas, int n, int single, bint between) except -1:
    """Where all operands are; of numbers on the CPU among the first `single`, and of results that are still empty, any device
    will do."""
    cdef int device = -1, weak = 0, i
    for i in range(n):
        if between and metas[i].device:
            return metas[i].device
        if metas[i] == NULL:
            continue
        if metas[i].sizes == NULL or (i < single and metas[i].ndim == 0 and metas[i].device == 0):
            weak |= metas[i].device
        elif device < 0:
            device = metas[i].device
        elif device != metas[i].device:
            two_devices(device, metas[i].device)
    return weak if device < 0 else device


cdef void* table_for(int place, Meta** metas, int n, int single, bint between, list held) except NULL:
    """The operations of the device where all operands are. Empty results are told that they will lie there, and numbers on
    the CPU among the first `single` operands are brought there, to live as long as `held`."""
    cdef int device = common_device(metas, n, single, between), i
    cdef void* table = table_of(place, device)
    for i in range(n):
        if metas[i] == NULL:
            continue
        if metas[i].sizes == NULL:
            metas[i].device = device
        elif i < single and metas[i].device != device:
            held.append(brought(metas[i], device))
            metas[i] = &(<Number>held[len(held) - 1]).m
    return table


cdef int run_pointwise(int kid, int code, Meta** ms, int n, int ndim, const int64_t* sizes, const double* attr) except -1:
    cdef Iter it
    if ms[0].numel == 0:
        return 0
    if any_away(ms, n):
        return away_pointwise(kid, code, ms, n, ndim, sizes, attr)
    iter_build(&it, ms, n, ndim, sizes)
    iter_run_gil(&it, kernel(kid, code), attr)
    return 0


cdef int away_pointwise(int kid, int code, Meta** ms, int n, int ndim, const int64_t* sizes, const double* attr) except -1:
    cdef Iter it
    cdef int device = common_device(ms, n, n, False), held = 0, i
    cdef Ops* table = <Ops*>table_of(PLACE_pointwise, device)
    if ms[0].device == 0:              # a number on the CPU cannot be written there
        two_devices(0, device)
    for i in range(1, n):
        if ms[i].device == 0:
            held |= 1 << i
    iter_build(&it, ms, n, ndim, sizes)
    return table.pointwise(device, kid, code, &it, held, attr)


include "_gate.pxi"

import cygrad.storage.cpu       # fills the CPU's table

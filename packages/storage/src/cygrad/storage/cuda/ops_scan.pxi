# Scans on a device. May use: ops_reduce (lines).

include "ops_common_scan.pxi"

cdef extern from "kernels.h" nogil:
    int CYG_SCAN_SUM, CYG_SCAN_PRODUCT, CYG_SCAN_MAX, CYG_SCAN_MIN, CYG_SCAN_LOGSUM, CYG_SCAN_RECURRENCE
    int64_t cyg_scan_scratch(const CygLines* lines)
    int cyg_scan(int what, int code, const CygLines* lines, void* scratch, void* stream)


cdef bint can_scan(int kid, int code) noexcept:
    return is_float(code) or is_integral(code) and kid != H_LOGCUMSUMEXP and kid != H_RECURRENCE


cdef int scan_into(int kid, Meta* y, Meta* x, Meta* third, int64_t dim, bint reverse) except -1:
    """Runs a kernel over Metas of one shape, of which y has memory; `third` may be NULL.

    A reversed scan begins at the far end, and takes each factor of a recurrence from the element before, in its own
    direction: the recurrence's transpose.
    """
    cdef CygLines l
    cdef Meta* operands[3]
    cdef Storage room = None
    cdef void* stream
    cdef char* d
    cdef int64_t nbytes
    cdef int k
    cdef int what = (CYG_SCAN_SUM if kid == H_CUMSUM else CYG_SCAN_PRODUCT if kid == H_CUMPROD else
                     CYG_SCAN_MAX if kid == H_CUMMAX else CYG_SCAN_MIN if kid == H_CUMMIN else
                     CYG_SCAN_LOGSUM if kid == H_LOGCUMSUMEXP else CYG_SCAN_RECURRENCE)
    if y.numel == 0:
        return 0
    operands[0], operands[1], operands[2] = y, x, third if third != NULL else x
    line_dims(&l, operands, 3, dim)
    l.y, l.x, l.w, l.b, l.attr = y.data, x.data, NULL, NULL, 0
    d = operands[2].data
    if reverse:
        l.y += (l.count - 1) * l.st[0]
        l.x += (l.count - 1) * l.st[1]
        d += (l.count - 1) * l.st[2]
        for k in range(3):
            l.st[k] = -l.st[k]
        if kid == H_RECURRENCE:
            d -= l.st[2]
    l.d = d
    nbytes = cyg_scan_scratch(&l)
    if nbytes:
        room = scratch(y.device, nbytes)
    enter(y.device, &stream)
    return ran(cyg_scan(what, x.dtype, &l, room.ptr if nbytes else NULL, stream), "scan", x.dtype)

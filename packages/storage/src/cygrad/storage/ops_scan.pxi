# Scans on the CPU, with the driver of ops_along.

include "ops_common_scan.pxi"


cdef bint can_scan(int kid, int code) noexcept:
    return hand_kernel(kid, code) != NULL


cdef int scan_into(int kid, Meta* y, Meta* x, Meta* third, int64_t dim, bint reverse) except -1:
    """Runs a kernel over Metas of one shape, of which y has memory; `third` may be NULL.

    A reversed scan begins at the far end, and takes each factor of a recurrence from the element before, in its own
    direction: the recurrence's transpose.
    """
    cdef Lines l
    cdef Meta* operands[3]
    cdef int k, count = 2 if third == NULL else 3
    if y.numel == 0:
        return 0
    operands[0], operands[1], operands[2] = y, x, third
    plan_lines(&l, operands, count, dim)
    l.kernel = <Along> hand_kernel(kid, x.dtype)
    if reverse:
        for k in range(count):
            l.p[k] += (l.n - 1) * l.st[k]
            l.st[k] = -l.st[k]
        if kid == H_RECURRENCE:
            l.p[2] -= l.st[2]
    run_along(&l, count, y.numel)
    return 0

# The update loops of the optimizers. Compiled once per instruction set.
# May cimport: cygrad.optim._job. Invariant: nothing here touches a Python object or the GIL.
#
# A loop works block by block: each formula is a short loop without branches over a block that the first-level cache
# holds, so every formula becomes vector instructions while each array passes through memory once.
from libc.math cimport sqrt, sqrtf
from libc.stdint cimport int64_t
from cygrad.optim._job cimport (ADAM_UPDATE, SGD_UPDATE, AdamRule, Job, SgdRule)

ctypedef fused real:
    float
    double

cdef enum:
    BLOCK = 512        # elements; the scratch block and five arrays of doubles are 24 KB


cdef inline void ascend_or_descend(real* d, const real* g, int64_t n, bint maximize) noexcept nogil:
    cdef int64_t i
    if maximize:
        for i in range(n):
            d[i] = -g[i]
    else:
        for i in range(n):
            d[i] = g[i]


cdef inline void add_scaled(real* y, const real* x, double factor, int64_t n) noexcept nogil:
    cdef real a = <real>factor
    cdef int64_t i
    for i in range(n):
        y[i] = y[i] + a * x[i]


cdef inline void scale(real* y, double factor, int64_t n) noexcept nogil:
    cdef real a = <real>factor
    cdef int64_t i
    for i in range(n):
        y[i] = y[i] * a


cdef inline void sgd_block(real* p, const real* g, real* b, int64_t n, bint fresh, const SgdRule* r) noexcept nogil:
    cdef real d[BLOCK]
    cdef real keep, enter
    cdef int64_t i
    ascend_or_descend(d, g, n, r.maximize)
    if r.weight_decay != 0:
        add_scaled(d, p, r.weight_decay, n)
    if r.momentum != 0:
        keep, enter = <real>r.momentum, <real>(1 - r.dampening)
        if fresh:
            for i in range(n):
                b[i] = d[i]
        else:
            for i in range(n):
                b[i] = b[i] * keep + enter * d[i]
        if r.nesterov:
            add_scaled(d, b, r.momentum, n)
        else:
            add_scaled(p, b, -r.lr, n)
            return
    add_scaled(p, d, -r.lr, n)


cdef inline void mean_towards(real* m, const real* d, double share, int64_t n) noexcept nogil:
    """m moves towards d by `share`; written from the nearer end, as lerp is, so that share 1 gives d itself."""
    cdef real w = <real>share
    cdef real rest = <real>1 - w
    cdef int64_t i
    if share < 0.5:
        for i in range(n):
            m[i] = m[i] + w * (d[i] - m[i])
    else:
        for i in range(n):
            m[i] = d[i] - (d[i] - m[i]) * rest


cdef inline void adam_block(real* p, const real* g, real* m, real* v, real* top, int64_t n, const Job* job,
                            const AdamRule* r) noexcept nogil:
    cdef real d[BLOCK]
    cdef real keep = <real>r.beta2
    cdef real enter = <real>(1 - r.beta2)
    cdef real rate = <real>-job.rate
    cdef real root = <real>job.root
    cdef real eps = <real>r.eps
    cdef int64_t i
    ascend_or_descend(d, g, n, r.maximize)
    if r.weight_decay != 0:
        if r.decoupled:
            scale(p, 1 - r.lr * r.weight_decay, n)
        else:
            add_scaled(d, p, r.weight_decay, n)
    mean_towards(m, d, 1 - r.beta1, n)
    for i in range(n):
        v[i] = v[i] * keep + enter * d[i] * d[i]
    if r.amsgrad:
        for i in range(n):
            top[i] = v[i] if v[i] > top[i] or v[i] != v[i] else top[i]      # NaN stays
        v = top
    for i in range(n):
        if real is float:
            p[i] = p[i] + rate * m[i] / (sqrtf(v[i]) / root + eps)
        else:
            p[i] = p[i] + rate * m[i] / (sqrt(v[i]) / root + eps)


cdef void sgd_update(real tag, const Job* job, int64_t start, int64_t n, const SgdRule* rule) noexcept nogil:
    cdef int64_t at = start, m
    while at < start + n:
        m = min(<int64_t>BLOCK, start + n - at)
        sgd_block(<real*>job.p + at, <const real*>job.g + at, <real*>job.s[0] + at, m, job.fresh, rule)
        at += BLOCK


cdef void adam_update(real tag, const Job* job, int64_t start, int64_t n, const AdamRule* rule) noexcept nogil:
    cdef int64_t at = start, m
    while at < start + n:
        m = min(<int64_t>BLOCK, start + n - at)
        adam_block(<real*>job.p + at, <const real*>job.g + at, <real*>job.s[0] + at, <real*>job.s[1] + at,
                   <real*>job.s[2] + at, m, job, rule)
        at += BLOCK


cdef void sgd_f32(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    sgd_update(<float>0, job, start, n, <const SgdRule*>rule)


cdef void sgd_f64(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    sgd_update(<double>0, job, start, n, <const SgdRule*>rule)


cdef void adam_f32(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    adam_update(<float>0, job, start, n, <const AdamRule*>rule)


cdef void adam_f64(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    adam_update(<double>0, job, start, n, <const AdamRule*>rule)


cdef void register_kernels(void** table) noexcept:
    table[2 * SGD_UPDATE] = <void*>&sgd_f32
    table[2 * SGD_UPDATE + 1] = <void*>&sgd_f64
    table[2 * ADAM_UPDATE] = <void*>&adam_f32
    table[2 * ADAM_UPDATE + 1] = <void*>&adam_f64


def register_address():
    return <size_t>&register_kernels

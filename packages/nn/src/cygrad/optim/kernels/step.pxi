# The update loops of the optimizers. Compiled once per instruction set.
# May cimport: cygrad.optim._job. Invariant: nothing here touches a Python object or the GIL.
#
# A loop works block by block: each formula is a short loop without branches over a block that the first-level cache
# holds, so every formula becomes vector instructions while each array passes through memory once.
from libc.math cimport fabs, fabsf, sqrt, sqrtf
from libc.stdint cimport int64_t
from cygrad.optim._job cimport (
    ADADELTA, ADAGRAD, ADAM_UPDATE, ADAMAX, ASGD, NADAM, RADAM, RMSPROP, RPROP, RULE_UPDATE, SGD_UPDATE, AdamRule, Job, Rule, SgdRule)

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
    cdef real unroot = <real>(1 / job.root)        # a division less for each element: it is what bounds this loop
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
            p[i] = p[i] + rate * m[i] / (sqrtf(v[i]) * unroot + eps)
        else:
            p[i] = p[i] + rate * m[i] / (sqrt(v[i]) * unroot + eps)


cdef inline real root_of(real x) noexcept nogil:
    if real is float:
        return sqrtf(x)
    else:
        return sqrt(x)


cdef inline real magnitude(real x) noexcept nogil:
    if real is float:
        return fabsf(x)
    else:
        return fabs(x)


cdef inline void square_towards(real* v, const real* d, double share, int64_t n) noexcept nogil:
    """v = keep * v + (1 - keep) * d * d, where keep is `share`."""
    cdef real keep = <real>share
    cdef real enter = <real>(1 - share)
    cdef int64_t i
    for i in range(n):
        v[i] = v[i] * keep + enter * d[i] * d[i]


cdef inline void adadelta_block(real* p, const real* d, real* v, real* u, int64_t n, const Rule* r) noexcept nogil:
    cdef real eps = <real>r.eps, lr = <real>r.lr, keep = <real>r.keep, enter = <real>(1 - r.keep), delta
    cdef int64_t i
    square_towards(v, d, r.keep, n)
    for i in range(n):
        delta = root_of[real](u[i] + eps) / root_of[real](v[i] + eps) * d[i]
        u[i] = u[i] * keep + enter * delta * delta
        p[i] = p[i] - lr * delta


cdef inline void adagrad_block(real* p, const real* d, real* total, int64_t n, const Job* job, const Rule* r) noexcept nogil:
    cdef real eps = <real>r.eps, rate = <real>job.rate
    cdef int64_t i
    for i in range(n):
        total[i] = total[i] + d[i] * d[i]
        p[i] = p[i] - rate * (d[i] / (root_of[real](total[i]) + eps))


cdef inline void adamax_block(real* p, const real* d, real* m, real* top, int64_t n, const Job* job, const Rule* r) noexcept nogil:
    cdef real eps = <real>r.eps, rate = <real>job.rate, keep = <real>r.keep_square, old, new
    cdef int64_t i
    mean_towards(m, d, 1 - r.keep, n)
    for i in range(n):
        old = top[i] * keep
        new = magnitude[real](d[i]) + eps
        top[i] = old if old > new or old != old else new             # NaN stays
        p[i] = p[i] - rate * (m[i] / top[i])


cdef inline void asgd_block(real* p, const real* d, real* mean, int64_t n, const Job* job) noexcept nogil:
    cdef real shrink = <real>job.root, eta = <real>job.rate, share = <real>job.extra
    cdef int64_t i
    for i in range(n):
        p[i] = p[i] * shrink - eta * d[i]
    if job.extra == 1:
        for i in range(n):
            mean[i] = p[i]
    else:
        for i in range(n):
            mean[i] = mean[i] + (p[i] - mean[i]) * share


cdef inline void nadam_block(real* p, const real* d, real* m, real* v, int64_t n, const Job* job, const Rule* r) noexcept nogil:
    cdef real eps = <real>r.eps, now = <real>job.rate, then = <real>job.extra, correction = <real>job.root, divisor
    cdef int64_t i
    mean_towards(m, d, 1 - r.keep, n)
    square_towards(v, d, r.keep_square, n)
    for i in range(n):
        divisor = root_of[real](v[i] / correction) + eps
        p[i] = p[i] - now * (d[i] / divisor)
        p[i] = p[i] - then * (m[i] / divisor)


cdef inline void radam_block(real* p, const real* d, real* m, real* v, int64_t n, const Job* job, const Rule* r) noexcept nogil:
    cdef real eps = <real>r.eps, rate = <real>job.rate, root = <real>job.root
    cdef int64_t i
    mean_towards(m, d, 1 - r.keep, n)
    square_towards(v, d, r.keep_square, n)
    if job.root == 0:                # the variance is not known well enough yet
        for i in range(n):
            p[i] = p[i] - rate * m[i]
    else:
        for i in range(n):
            p[i] = p[i] - rate * m[i] * (root / (root_of[real](v[i]) + eps))


cdef inline void rmsprop_block(real* p, const real* d, real* v, real* buffer, real* mean, int64_t n, const Rule* r) noexcept nogil:
    cdef real step[BLOCK]
    cdef real eps = <real>r.eps, lr = <real>r.lr, momentum = <real>r.momentum
    cdef int64_t i
    square_towards(v, d, r.keep, n)
    if r.centered:
        mean_towards(mean, d, 1 - r.keep, n)
        for i in range(n):
            step[i] = d[i] / (root_of[real](v[i] - mean[i] * mean[i]) + eps)
    else:
        for i in range(n):
            step[i] = d[i] / (root_of[real](v[i]) + eps)
    if r.momentum > 0:
        for i in range(n):
            buffer[i] = buffer[i] * momentum + step[i]
            p[i] = p[i] - lr * buffer[i]
    else:
        for i in range(n):
            p[i] = p[i] - lr * step[i]


cdef inline void rprop_block(real* p, const real* d, real* before, real* size, int64_t n, const Rule* r) noexcept nogil:
    cdef real shrink = <real>r.keep, grow = <real>r.keep_square, low = <real>r.low, high = <real>r.high, both, g
    cdef int64_t i
    for i in range(n):
        both = d[i] * before[i]
        size[i] = size[i] * (grow if both > 0 else shrink if both < 0 else 1)
        size[i] = low if size[i] < low else high if size[i] > high else size[i]
        g = 0 if both < 0 else d[i]
        p[i] = p[i] - (size[i] if g > 0 else -size[i] if g < 0 else g * size[i])
        before[i] = g


cdef inline void rule_block(real* p, const real* g, real* a, real* b, real* c, int64_t n, const Job* job, const Rule* r) noexcept nogil:
    cdef real d[BLOCK]
    ascend_or_descend(d, g, n, r.maximize)
    if r.weight_decay != 0:
        if r.decoupled:
            scale(p, 1 - r.lr * r.weight_decay, n)
        else:
            add_scaled(d, p, r.weight_decay, n)
    if r.kind == ADADELTA:
        adadelta_block(p, d, a, b, n, r)
    elif r.kind == ADAGRAD:
        adagrad_block(p, d, a, n, job, r)
    elif r.kind == ADAMAX:
        adamax_block(p, d, a, b, n, job, r)
    elif r.kind == ASGD:
        asgd_block(p, d, a, n, job)
    elif r.kind == NADAM:
        nadam_block(p, d, a, b, n, job, r)
    elif r.kind == RADAM:
        radam_block(p, d, a, b, n, job, r)
    elif r.kind == RMSPROP:
        rmsprop_block(p, d, a, b, c if r.momentum > 0 else b, n, r)
    elif r.kind == RPROP:
        rprop_block(p, d, a, b, n, r)


cdef void rule_update(real tag, const Job* job, int64_t start, int64_t n, const Rule* rule) noexcept nogil:
    cdef int64_t at = start, m
    while at < start + n:
        m = min(<int64_t>BLOCK, start + n - at)
        rule_block(<real*>job.p + at, <const real*>job.g + at, <real*>job.s[0] + at, <real*>job.s[1] + at,
                   <real*>job.s[2] + at, m, job, rule)
        at += BLOCK


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


cdef void rule_f32(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    rule_update(<float>0, job, start, n, <const Rule*>rule)


cdef void rule_f64(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil:
    rule_update(<double>0, job, start, n, <const Rule*>rule)


cdef void register_kernels(void** table) noexcept:
    table[2 * SGD_UPDATE] = <void*>&sgd_f32
    table[2 * SGD_UPDATE + 1] = <void*>&sgd_f64
    table[2 * ADAM_UPDATE] = <void*>&adam_f32
    table[2 * ADAM_UPDATE + 1] = <void*>&adam_f64
    table[2 * RULE_UPDATE] = <void*>&rule_f32
    table[2 * RULE_UPDATE + 1] = <void*>&rule_f64


def register_address():
    return <size_t>&register_kernels

# A sum, or a largest element, of a line runs in LANES lanes side by side. They are joined by halves: one after another, each
# addition would wait for the one before, which takes longer than a short line.
cdef enum:
    LANES = 32


cdef inline double sum_lanes(const real* lane) noexcept nogil:
    cdef double half[16]
    cdef int64_t j
    for j in range(16):
        half[j] = <double> lane[j] + <double> lane[j + 16]
    for j in range(8):
        half[j] += half[j + 8]
    for j in range(4):
        half[j] += half[j + 4]
    return (half[0] + half[2]) + (half[1] + half[3])


cdef inline real largest_lane(const real* lane) noexcept nogil:
    cdef real half[16]
    cdef real a, b
    cdef int64_t j
    for j in range(16):
        half[j] = lane[j] if lane[j] > lane[j + 16] else lane[j + 16]
    for j in range(8):
        half[j] = half[j] if half[j] > half[j + 8] else half[j + 8]
    for j in range(4):
        half[j] = half[j] if half[j] > half[j + 4] else half[j + 4]
    a = half[0] if half[0] > half[2] else half[2]
    b = half[1] if half[1] > half[3] else half[3]
    return a if a > b else b


cdef real largest(const real* x, int64_t n) noexcept nogil:
    """The largest element. A NaN is passed over: its own exponential makes the whole line NaN."""
    cdef real lane[LANES]
    cdef real best = <real> -INFINITY
    cdef int64_t i = 0, j
    if n >= LANES:
        for j in range(LANES):
            lane[j] = best
        while i + LANES <= n:
            for j in range(LANES):
                lane[j] = x[i + j] if x[i + j] > lane[j] else lane[j]
            i += LANES
        best = largest_lane[real](lane)
    while i < n:
        best = x[i] if x[i] > best else best
        i += 1
    return best

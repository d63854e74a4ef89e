# What random numbers on any device are checked for: bounds inside the range of the dtype.

cdef object largest_integer(int code):
    cdef object bits = 8 * ITEMSIZE[code]      # an object, because C shifts stop at 32 bits
    return (1 << bits) - 1 if is_unsigned(code) else (1 << (bits - 1)) - 1


cdef int check_real(str op, Meta* x) except -1:
    if not is_float(x.dtype):
        no_kernel(op, x.dtype)
    return check_writable(op, x)


cdef double largest_float(int code) noexcept:
    if code == FLOAT16:
        return 65504.0
    if code == BFLOAT16:
        return 3.3895313892515355e38
    return 3.4028234663852886e38 if code == FLOAT32 else 1.7976931348623157e308


cdef int digits_of(int code) noexcept:
    """Bits of a floating type's significand."""
    return 11 if code == FLOAT16 else 8 if code == BFLOAT16 else 24 if code == FLOAT32 else 53


cdef int check_uniform(Meta* x, double low, double high) except -1:
    cdef double largest
    check_real("uniform_", x)
    largest = largest_float(x.dtype)
    if not (-largest <= low <= largest and -largest <= high <= largest):
        raise RuntimeError(f"uniform_: bounds inside the range of {name_of(x.dtype)} are wanted, got [{low}, {high})")
    if low > high:
        raise RuntimeError(f"uniform_: the lower bound must not exceed the upper one, got [{low}, {high})")
    if high - low > largest:
        raise RuntimeError(f"uniform_: the width of [{low}, {high}) does not fit {name_of(x.dtype)}")
    return 0


cdef int check_range(Meta* x, object low, object high) except -1:
    """Bounds of random integers against the integers that x.dtype holds exactly."""
    cdef int code = x.dtype
    if code == BOOL:
        least, most = 0, 1
    elif is_float(code):
        most = 1 << <object> digits_of(code)
        least = -most
    elif is_complex(code):
        no_kernel("random_", code)
    else:
        most = largest_integer(code)
        least = 0 if is_unsigned(code) else -most - 1
    if low >= high:
        raise RuntimeError(f"random_: the lower bound must be below the upper one, got [{low}, {high})")
    if low < least or high - 1 > most:
        raise RuntimeError(f"random_: bounds inside the range of {name_of(code)} are wanted, from {least} to {most}, "
                           f"got [{low}, {high})")
    return 0


cdef int check_probability(Meta* x, double p) except -1:
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: a probability from 0 to 1 is wanted, got {p}")
    return check_writable("bernoulli_", x)


cdef int check_randperm(int64_t n, int dtype) except -1:
    """The dtype of a permutation of n numbers."""
    if n < 0:
        raise RuntimeError(f"randperm: a length of at least 0 is wanted, got {n}")
    if dtype < 0:
        dtype = INT64
    if dtype == BOOL or is_complex(dtype):
        no_kernel("randperm", dtype)
    if n > ((1 << <object> digits_of(dtype)) + 1 if is_float(dtype) else largest_integer(dtype)):
        raise RuntimeError(f"randperm: numbers below {n} do not fit {name_of(dtype)}")
    return dtype

# Elementary functions of vecmath.h by the type of their argument. Include after _types.pxi.
cdef extern from "vecmath.h" nogil:
    float vm_exp_f32(float x) noexcept
    double vm_exp_f64(double x) noexcept
    double vm_power_f64(double a, double b) noexcept


cdef inline real exponential(real x) noexcept nogil:
    if real is float:
        return vm_exp_f32(x)
    else:
        return vm_exp_f64(x)

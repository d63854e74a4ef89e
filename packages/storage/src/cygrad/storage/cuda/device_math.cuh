// The functions that formulas call: those of vecmath.h, which both devices share, with CUDA's own library where it has the
// function. A name with its type stands for a function either way.
#ifndef CYGRAD_DEVICE_MATH_CUH
#define CYGRAD_DEVICE_MATH_CUH

#include "shim.cuh"

#ifndef CYG_HOST
#define VM CYG_FN
// vecmath.h, being C, gives it an integer 0; C++ would take a template that devices do not have.
CYG_FN double copysign(int a, double b) { return copysign((double)a, b); }
#endif
#include "vecmath.h"

template <class T> CYG_FN T cyg_sigmoid(T x) { return (T)1 / ((T)1 + exp(-x)); }

#define vm_exp_f32 expf
#define vm_exp_f64 exp
#define vm_expm1_f32 expm1f
#define vm_expm1_f64 expm1
#define vm_log_f32 logf
#define vm_log_f64 log
#define vm_log1p_f32 log1pf
#define vm_log1p_f64 log1p
#define vm_tanh_f32 tanhf
#define vm_tanh_f64 tanh
#define vm_erf_f32 erff
#define vm_erf_f64 erf
#define vm_sin_f32 sinf
#define vm_sin_f64 sin
#define vm_cos_f32 cosf
#define vm_cos_f64 cos
#define vm_tan_f32 tanf
#define vm_tan_f64 tan
#define vm_sigmoid_f32 cyg_sigmoid<float>
#define vm_sigmoid_f64 cyg_sigmoid<double>
#define vm_power_f32 powf
#define vm_power_f64 pow

#endif

# Optimiser steps on a device: all parameters in as few launches as their table fits in.

cdef extern from "kernels.h" nogil:
    int cyg_steps(const void* jobs, const char* wide, int count, int rule_id, const void* rule, void* stream)


cdef int fused_step(int device, const void* jobs, const char* wide, int count, int rule_id, const void* rule) except -1:
    cdef void* stream
    enter(device, &stream)
    return check(cyg_steps(jobs, wide, count, rule_id, rule, stream), "an optimizer step")

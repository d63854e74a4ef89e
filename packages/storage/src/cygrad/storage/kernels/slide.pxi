# Kernel group "slide": convolutions and sliding maxima; see slide.h.
from cygrad.storage.core cimport FLOAT32, FLOAT64, N_DTYPES
include "_hand_ids.pxi"

cdef extern from "slide.h":
    void sl_window_f32() noexcept
    void sl_window_f64() noexcept
    void sl_place_f32() noexcept
    void sl_place_f64() noexcept
    void sl_turn_f32() noexcept
    void sl_turn_f64() noexcept
    void sl_slide_f32() noexcept
    void sl_slide_f64() noexcept
    void sl_outer_f32() noexcept
    void sl_outer_f64() noexcept
    void sl_dot_f32() noexcept
    void sl_dot_f64() noexcept
    void sl_top_f32() noexcept
    void sl_top_f64() noexcept


cdef inline void register_two(int hid, void* single, void* double_, void** table) noexcept:
    table[hid * N_DTYPES + FLOAT32] = single
    table[hid * N_DTYPES + FLOAT64] = double_


cdef void register_kernels(void** table) noexcept:
    register_two(H_WINDOW, <void*> sl_window_f32, <void*> sl_window_f64, table)
    register_two(H_PLACE, <void*> sl_place_f32, <void*> sl_place_f64, table)
    register_two(H_TURN, <void*> sl_turn_f32, <void*> sl_turn_f64, table)
    register_two(H_SLIDE, <void*> sl_slide_f32, <void*> sl_slide_f64, table)
    register_two(H_OUTER, <void*> sl_outer_f32, <void*> sl_outer_f64, table)
    register_two(H_FEW, <void*> sl_dot_f32, <void*> sl_dot_f64, table)
    register_two(H_TOP, <void*> sl_top_f32, <void*> sl_top_f64, table)


def register_address():
    return <size_t> &register_kernels

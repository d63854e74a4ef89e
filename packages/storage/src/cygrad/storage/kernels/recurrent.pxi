# Kernel group "recurrent": the steps of recurrent layers. All of it is C, which recurrent.h explains.
include "_types.pxi"
include "_hand_ids.pxi"
include "_recurrent.pxi"

cdef extern from "recurrent.h" nogil:
    int64_t panel_f32() noexcept
    int64_t panel_f64() noexcept
    int64_t scratch_f32(const RecurrentPlan* p) noexcept
    int64_t scratch_f64(const RecurrentPlan* p) noexcept
    void pack_f32(void* packed, const void* w, int64_t depth, int64_t columns, int64_t down, int64_t right) noexcept
    void pack_f64(void* packed, const void* w, int64_t depth, int64_t columns, int64_t down, int64_t right) noexcept
    void forward_f32(const RecurrentPlan* p, int64_t first, void* scratch) noexcept
    void forward_f64(const RecurrentPlan* p, int64_t first, void* scratch) noexcept
    void backward_f32(const RecurrentPlan* p, int64_t first, void* scratch) noexcept
    void backward_f64(const RecurrentPlan* p, int64_t first, void* scratch) noexcept


cdef void register_kernels(void** table) noexcept:
    table[H_RECURRENT_PANEL * N_DTYPES + FLOAT32] = <void*> panel_f32
    table[H_RECURRENT_PANEL * N_DTYPES + FLOAT64] = <void*> panel_f64
    table[H_RECURRENT_SCRATCH * N_DTYPES + FLOAT32] = <void*> scratch_f32
    table[H_RECURRENT_SCRATCH * N_DTYPES + FLOAT64] = <void*> scratch_f64
    table[H_RECURRENT_PACK * N_DTYPES + FLOAT32] = <void*> pack_f32
    table[H_RECURRENT_PACK * N_DTYPES + FLOAT64] = <void*> pack_f64
    table[H_RECURRENT_FORWARD * N_DTYPES + FLOAT32] = <void*> forward_f32
    table[H_RECURRENT_FORWARD * N_DTYPES + FLOAT64] = <void*> forward_f64
    table[H_RECURRENT_BACKWARD * N_DTYPES + FLOAT32] = <void*> backward_f32
    table[H_RECURRENT_BACKWARD * N_DTYPES + FLOAT64] = <void*> backward_f64


def register_address():
    return <size_t> &register_kernels

# What ops_recurrent and the kernel group "recurrent" share: see recurrent_plan.h.
cdef extern from "recurrent_plan.h" nogil:
    enum: PLAN_TANH
    enum: PLAN_RELU
    enum: PLAN_LSTM
    enum: PLAN_GRU
    ctypedef struct RecurrentPlan:
        int mode, backwards
        int64_t hidden, gates, kept_columns, steps, batch, tall
        const int64_t* counts
        const int64_t* starts
        const char* w
        const char* bias
        const char* h0
        const char* c0
        char* y
        char* c
        char* kept
        const char* x
        const char* gy
        const char* gc
        char* gx
        char* gh
        char* gh0
        char* gc0
        char* before

ctypedef int64_t (*RecurrentPanel)() noexcept nogil                # columns of a panel of packed weights
ctypedef int64_t (*RecurrentScratch)(const RecurrentPlan* p) noexcept nogil
ctypedef void (*RecurrentPack)(void* packed, const void* w, int64_t depth, int64_t columns, int64_t down,
                               int64_t right) noexcept nogil      # strides in elements
ctypedef void (*RecurrentSteps)(const RecurrentPlan* p, int64_t first, void* scratch) noexcept nogil

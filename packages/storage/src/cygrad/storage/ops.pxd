# Hand-written operations over Metas: shape rule, allocation and kernel of everything that is not pointwise and not a
# view. Each runs on the device that its operands are on, or y.device where it has none (see opgen/gate.py, which prints the
# functions from these declarations): RuntimeError for two devices, NotImplementedError where the device has no such function.
# May cimport: core, dispatch. y is an empty Meta that the callee fills (shape, strides, dtype, data); the Storage of y
# is returned. Bad arguments raise PyTorch's exception type before anything is written. GIL held by the caller; long
# loops release it.
from libc.stdint cimport int64_t, uint64_t
from cygrad.storage.core cimport Iter, Meta, Storage

# ---- devices: what is at `table` is a struct Ops (printed, _ops_table.pxi); pointers that are NULL are operations it lacks
cdef int enter_table(bint away, const void* table, size_t nbytes) except -1
cdef bint copies_go_on() noexcept                            # whether copies between devices may return before they are done
cdef bint let_copies_go_on(bint on) noexcept                 # returns what it was; the GIL is held until it is set back

# ---- copying
cdef Storage op_cast(Meta* y, Meta* x, int dtype)             # op_clone in x's stride order
# copy and cast; rowmajor False keeps the stride order of a dense x
cdef Storage op_clone(Meta* y, Meta* x, int dtype, bint rowmajor)
# the only one between devices; broadcasts and casts src; RuntimeError if shapes differ or dst overlaps itself; src/dst overlap is right (buffers)
cdef int copy_into(Meta* dst, Meta* src) except -1
# Python number -> dst.dtype, RuntimeError on overflow as PyTorch's fill_
cdef int fill_number(Meta* dst, object value) except -1
cdef int fill_double(Meta* dst, double value) except -1       # internal: value is representable
# one element of dtype `code` from one of dtype `source_code`
cdef void convert_one(char* to, int code, void* cell, int source_code) noexcept nogil
# x += src, one element after another, for an x that reaches some elements twice; same shape and dtype
cdef int add_in_order(Meta* x, Meta* src) except -1
# Python bool/int/float/complex of a one-element tensor; RuntimeError else
cdef object item(Meta* x)
cdef object to_list(Meta* x)                                 # nested lists (a number when 0-d)

# ---- creation
cdef Storage op_full(Meta* y, int nd, const int64_t* sizes, double value, int dtype)
cdef Storage op_arange(Meta* y, object start, object end, object step, int dtype)
cdef Storage op_linspace(Meta* y, double start, double end, int64_t steps, int dtype)
cdef Storage op_eye(Meta* y, int64_t n, int64_t m, int dtype)

# ---- reductions; mask has one bit per reduced dimension (already wrapped); an empty mask of a 0-d x is fine
# dtype -1: PyTorch's rule (ints and bool to int64)
cdef Storage op_sum(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype)
cdef Storage op_mean(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype)
cdef Storage op_prod(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype)
cdef Storage op_amax(Meta* y, Meta* x, uint64_t mask, bint keepdim)                # NaN wins
cdef Storage op_amin(Meta* y, Meta* x, uint64_t mask, bint keepdim)
cdef Storage op_any(Meta* y, Meta* x, uint64_t mask, bint keepdim)
cdef Storage op_all(Meta* y, Meta* x, uint64_t mask, bint keepdim)
# first of equals; mask: one dim, or all (flat index)
cdef Storage op_argmax(Meta* y, Meta* x, uint64_t mask, bint keepdim)
cdef Storage op_argmin(Meta* y, Meta* x, uint64_t mask, bint keepdim)
# (Storage of values, Storage of indices)
cdef tuple op_max_dim(Meta* y, Meta* index, Meta* x, int64_t dim, bint keepdim)
cdef tuple op_min_dim(Meta* y, Meta* index, Meta* x, int64_t dim, bint keepdim)
cdef Storage op_var(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim)
cdef Storage op_std(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim)
# p-norm, any p incl. 0 and inf; p = 2 scaled against overflow
cdef Storage op_norm(Meta* y, Meta* x, double p, uint64_t mask, bint keepdim)
cdef Storage op_logsumexp(Meta* y, Meta* x, uint64_t mask, bint keepdim)
cdef Storage op_softmax(Meta* y, Meta* x, int64_t dim)
cdef Storage op_log_softmax(Meta* y, Meta* x, int64_t dim)
cdef Storage op_softmax_backward(Meta* y, Meta* g, Meta* out, int64_t dim)         # out * (g - sum(g * out, dim))
cdef Storage op_log_softmax_backward(Meta* y, Meta* g, Meta* out, int64_t dim)     # g - exp(out) * sum(g, dim)
cdef Storage op_layer_norm(Meta* y, Meta* x, Meta* w, Meta* b, double eps)
cdef Storage op_layer_norm_input(Meta* y, Meta* d, Meta* x, Meta* w, double eps)
# gradients of all three at once: the rows are read once
cdef tuple op_layer_norm_gradients(Meta* dx, Meta* dw, Meta* db, Meta* d, Meta* x, Meta* w, double eps)
cdef Storage op_layer_norm_weight(Meta* y, Meta* d, Meta* x, double eps, int ndim, const int64_t* sizes)
# convolutions and pooling; v: a geometry, see ops_conv.pxi and ops_pool.pxi; size: of the input or weight that the gradient is for
cdef Storage op_convolution(Meta* y, Meta* x, Meta* w, int n, const int64_t* v)
cdef Storage op_convolution_bias(Meta* y, Meta* x, Meta* w, Meta* bias, int n, const int64_t* v)
cdef Storage op_convolution_input(Meta* y, Meta* g, Meta* w, int n, const int64_t* v, int m, const int64_t* size)
cdef Storage op_convolution_weight(Meta* y, Meta* g, Meta* x, int n, const int64_t* v, int m, const int64_t* size)
cdef Storage op_avg_pool(Meta* y, Meta* x, int n, const int64_t* v)
cdef Storage op_avg_pool_input(Meta* y, Meta* g, int n, const int64_t* v, int m, const int64_t* size)
cdef tuple op_max_pool(Meta* y, Meta* index, Meta* x, int n, const int64_t* v)      # places in the plane, -1 for none
cdef Storage op_plane_add(Meta* y, Meta* g, Meta* index, int n, const int64_t* v, int m, const int64_t* size)
cdef Storage op_plane_pick(Meta* y, Meta* x, Meta* index, int n, const int64_t* v)
cdef tuple op_batch_norm(Meta* y, Meta* stats, Meta* x, Meta* w, Meta* b, double eps)
cdef Storage op_batch_norm_sums(Meta* y, Meta* g, Meta* x, Meta* stats)
cdef Storage op_batch_norm_input(Meta* y, Meta* g, Meta* x, Meta* w, Meta* stats, Meta* sums)
cdef Storage op_im2col(Meta* y, Meta* x, int n, const int64_t* v)
cdef Storage op_col2im(Meta* y, Meta* g, int n, const int64_t* v, int m, const int64_t* size)
# Attention of (*, L, E), (*, S, E) and (*, S, V), batch dimensions equal, none empty; mask (*, L, S): bool (False is left
# out), or added to the scores, or NULL. top: logarithm of the sum of each query's exponentials. `attention_rows`: whether
# the layout of one of the three will do; the rest is row-major. Backward gives the gradients of the three.
cdef bint attention_rows(const Meta* m) noexcept
cdef tuple op_attention(Meta* y, Meta* top, Meta* q, Meta* k, Meta* v, Meta* mask, bint causal, double scale)
cdef tuple op_attention_backward(Meta** y, Meta* g, Meta* q, Meta* k, Meta* v, Meta* mask, Meta* result, Meta* top,
                                 bint causal, double scale)
# Recurrent layers, see ops_recurrent.pxi; numbers: rows of each step, and as much room again. mode: RNN_TANH, RNN_RELU, LSTM
# or GRU. x: gates (N, G * H) of the input, weights (G * H, H), biases or NULL, states (B, H), cells or NULL, all row-major.
# Gives states and cells after each step, and, if `keep`, what the gradient reads; (Storage or None) * 3.
cdef tuple op_recurrent(Meta** y, Meta** x, str mode, bint backwards, int64_t steps, int64_t* numbers, bint keep)
# x: gradients of states and of cells (or NULL), weights, first states and cells, the results of op_recurrent. Gives the
# gradients of the gates' share of the input, of that of the state where it is another (GRU), of the first states and
# cells, and the state before each step.
cdef list op_recurrent_backward(Meta** y, Meta** x, str mode, bint backwards, int64_t steps, int64_t* numbers)
# running sums and their like, of x's shape; dtype -1: ints and bool in int64
cdef Storage op_cumsum(Meta* y, Meta* x, int64_t dim, int dtype)
cdef Storage op_cumsum_back(Meta* y, Meta* x, int64_t dim)                          # from the far end
cdef Storage op_cumprod(Meta* y, Meta* x, int64_t dim, int dtype)
cdef tuple op_cummax(Meta* y, Meta* index, Meta* x, int64_t dim)                    # last of equals; NaN stays
cdef tuple op_cummin(Meta* y, Meta* index, Meta* x, int64_t dim)
cdef Storage op_logcumsumexp(Meta* y, Meta* x, int64_t dim)
# y[i] = x[i] + a[i] * y[i - 1]; reverse: its transpose, y[i] = x[i] + a[i + 1] * y[i + 1]
cdef Storage op_recurrence(Meta* y, Meta* x, Meta* a, int64_t dim, bint reverse)

# ---- sorting; all are stable, NaN is the largest number; (Storage of values, Storage of indices)
cdef tuple op_sort(Meta* y, Meta* index, Meta* x, int64_t dim, bint descending, bint stable)
cdef tuple op_topk(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint largest, bint in_order)
cdef tuple op_kthvalue(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint keepdim)
# contiguous arguments; sorter NULL or int64 in bounds' shape
cdef Storage op_searchsorted(Meta* y, Meta* bounds, Meta* x, Meta* sorter, bint right, bint narrow)
cdef Storage op_sort_rows(Meta* y, Meta* x)                   # of a contiguous matrix: the lexicographic order of rows

# ---- linear algebra on BLAS (own OpenMP split; integer types through a plain loop)
cdef Storage op_mm(Meta* y, Meta* a, Meta* b)
cdef Storage op_bmm(Meta* y, Meta* a, Meta* b)
cdef Storage op_addmm(Meta* y, Meta* c, Meta* a, Meta* b, double beta, double alpha)   # c broadcasts to (n, p)
cdef Storage op_mv(Meta* y, Meta* a, Meta* v)
cdef Storage op_dot(Meta* y, Meta* a, Meta* b)
cdef object blas()                                           # the library, as ctypes sees it; it has LAPACK too

# ---- joining and indexing
# legacy 1-d empty inputs are skipped as in PyTorch; promotes
cdef Storage op_cat(Meta* y, Meta** xs, int n, int64_t dim)
cdef Storage op_index_select(Meta* y, Meta* x, int64_t dim, Meta* index)
cdef Storage op_gather(Meta* y, Meta* x, int64_t dim, Meta* index)
cdef Storage op_take(Meta* y, Meta* x, Meta* index)                                    # index counts in row-major order
# The NAME_into functions write into x. Equal indices: sums and the like take all of them, of writes the last one stays,
# whatever the number of threads. RuntimeError for an x that overlaps itself; values and indices that lie in x's memory
# are copied first.
cdef int index_add_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1
cdef int index_copy_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1
cdef int index_fill_into(Meta* x, int64_t dim, Meta* index, Meta* value) except -1     # value: one element
# reduce: prod, mean, amax, amin (scatter also sum); without include_self, what x held where something arrives is lost
cdef int index_reduce_into(Meta* x, int64_t dim, Meta* index, Meta* src, str reduce, bint include_self) except -1
cdef int scatter_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1
cdef int scatter_fill_into(Meta* x, int64_t dim, Meta* index, Meta* value) except -1
cdef int scatter_add_into(Meta* x, int64_t dim, Meta* index, Meta* src) except -1
cdef int scatter_reduce_into(Meta* x, int64_t dim, Meta* index, Meta* src, str reduce, bint include_self) except -1
cdef int put_into(Meta* x, Meta* index, Meta* src, bint accumulate) except -1
# index[i] NULL: full slice of dim i; int64, int32 or bool (bool only one dim wide; wider masks are expanded by nonzero
# first, but for a single mask of x's shape)
cdef Storage op_index(Meta* y, Meta* x, Meta** index, int n)
# value broadcasts to x[index]'s shape
cdef int index_put_into(Meta* x, Meta** index, int n, Meta* value, bint accumulate) except -1
cdef Storage op_nonzero(Meta* y, Meta* x)                                           # (count, ndim) int64, column-major
cdef Storage op_masked_select(Meta* y, Meta* x, Meta* mask)                         # both broadcast
cdef int masked_scatter_into(Meta* x, Meta* mask, Meta* source) except -1

# ---- arrangement
cdef Storage op_flip(Meta* y, Meta* x, uint64_t mask)
cdef Storage op_roll(Meta* y, Meta* x, int64_t shift, int64_t dim)
cdef Storage op_constant_pad(Meta* y, Meta* x, int n, const int64_t* pad, object value)
cdef int tril_into(Meta* x, int64_t diagonal) except -1
cdef int triu_into(Meta* x, int64_t diagonal) except -1
cdef Storage op_repeat_positions(Meta* y, Meta* repeats, int64_t total)             # i repeats[i] times

# ---- pointwise loops: kernel `kid` for dtype `code`
# ms: the result, then inputs that broadcast to `sizes`; numbers on the CPU may stand beside tensors of another device
cdef int run_pointwise(int kid, int code, Meta** ms, int n, int ndim, const int64_t* sizes, const double* attr) except -1
# what a device has for it, over what iter_build made; bit k of held: it.p[k] is the CPU's address of a number
cdef int pointwise(int device, int kid, int code, Iter* it, int held, const double* attr) except -1

# ---- steps of optimisers, over all parameters: jobs and rule as cygrad/optim/_job.pxd has them; the CPU has its own loops there
cdef int fused_step(int device, const void* jobs, const char* wide, int count, int rule_id, const void* rule) except -1

# ---- random numbers: on the CPU PyTorch's, number for number
cdef class Generator:
    cdef void* mt
    cdef readonly int device_code   # as in a Meta: where it draws
    cdef uint64_t key, taken        # elsewhere than on the CPU: the seed, and how many numbers were drawn
cdef Generator default_generator()
cdef int uniform_into(Meta* x, double low, double high, Generator gen) except -1
cdef int normal_into(Meta* x, double mean, double std, Generator gen) except -1
cdef int random_into(Meta* x, int64_t low, int64_t high, Generator gen) except -1    # integers in [low, high)
cdef int random_full_into(Meta* x, Generator gen) except -1                          # random_() without bounds
cdef int random_from_into(Meta* x, int64_t low, Generator gen) except -1             # from low to the largest integer
cdef enum:
    UNIFORM                # distributions; the two parameters are
    NORMAL                 # mean and standard deviation
    INTEGER
    INTEGER_WIDE           # more than 28 bits wanted: two words a number
    BERNOULLI
    EXPONENTIAL            # rate
    GEOMETRIC              # probability; trials up to the first success
    CAUCHY                 # median and half width
    LOG_NORMAL             # mean and standard deviation of the logarithm
cdef int draw_kind_into(Meta* x, int kind, double a, double b, Generator gen) except -1      # parameters are checked
# contiguous float64 weights, probabilities, rates
cdef Storage op_multinomial(Meta* y, Meta* weights, int64_t count, bint single, Generator gen)
cdef enum DrawnBy:
    BY_RATE            # Poisson numbers
    BY_TRIALS          # binomial ones: p is their probability, else NULL
    BY_SHAPE           # gamma ones of scale 1
cdef Storage op_drawn_by(Meta* y, DrawnBy kind, Meta* a, Meta* p, Generator gen)
cdef int bernoulli_into(Meta* x, double p, Generator gen) except -1
cdef Storage op_randperm(Meta* y, int64_t n, int dtype, Generator gen)

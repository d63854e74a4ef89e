# The hand-written operations as functions of Arrays, so that storage alone reduces, multiplies, indexes and draws.
# May cimport: core, array, ops. Invariant: a result has memory of its own; names ending in _ write into their first
# argument.
from libc.stdint cimport int64_t, uint64_t
from cygrad.storage.array cimport Array
from cygrad.storage.core cimport MAXDIM, Meta, Storage, dtype_code, wrap_dim
from cygrad.storage.ops cimport (
    Generator, bernoulli_into, fill_number, index_add_into, index_put_into, normal_into, op_addmm, op_all, op_amax,
    op_amin, op_any, op_arange, op_argmax, op_argmin, op_bmm, op_cast, op_cat, op_cumsum, op_dot, op_eye, op_full, op_gather,
    op_clone, op_index, op_index_select, op_linspace, op_log_softmax, op_log_softmax_backward, op_logsumexp,
    op_masked_select, op_max_dim, op_mean, op_min_dim, op_mm, op_mv, op_nonzero, op_norm, op_prod, op_randperm,
    op_softmax, op_softmax_backward, op_std, op_sum, op_var, random_into, scatter_add_into,
    scatter_into, uniform_into)

include "abi.pxi"

check_storage_abi("cygrad.storage.functions")

ctypedef Storage (*Extremum)(Meta* y, Meta* x, uint64_t mask, bint keepdim)
ctypedef Storage (*Total)(Meta* y, Meta* x, uint64_t mask, bint keepdim, int dtype)
ctypedef Storage (*Spread)(Meta* y, Meta* x, uint64_t mask, double correction, bint keepdim)
ctypedef Storage (*Two)(Meta* y, Meta* a, Meta* b)


cdef inline Array new_array():
    return Array.__new__(Array)


cdef uint64_t mask_of(object dims, int ndim) except? 0:
    """One bit for each dimension named; None names all."""
    cdef uint64_t mask = 0
    cdef int d
    if dims is None:
        return ((<uint64_t> 1 << ndim) - 1) if ndim < 64 else ~<uint64_t> 0
    for k in dims if isinstance(dims, (tuple, list)) else (dims,):
        d = wrap_dim(k, ndim)
        if mask >> d & 1:
            raise RuntimeError(f"dimension {d} appears more than once in {dims}")
        mask |= <uint64_t> 1 << d
    return mask


cdef int code_or(object dtype, int otherwise) except -2:
    return otherwise if dtype is None else dtype_code(dtype)


cdef Array total(Total f, Array x, object dims, bint keepdim, object dtype):
    cdef Array y = new_array()
    y.storage = f(&y.m, &x.m, mask_of(dims, x.m.ndim), keepdim, code_or(dtype, -1))
    return y


cdef Array extremum(Extremum f, Array x, object dims, bint keepdim):
    cdef Array y = new_array()
    y.storage = f(&y.m, &x.m, mask_of(dims, x.m.ndim), keepdim)
    return y


cdef Array spread(Spread f, Array x, object dims, double correction, bint keepdim):
    cdef Array y = new_array()
    y.storage = f(&y.m, &x.m, mask_of(dims, x.m.ndim), correction, keepdim)
    return y


cdef Array two(Two f, Array a, Array b):
    cdef Array y = new_array()
    y.storage = f(&y.m, &a.m, &b.m)
    return y


# ---- new arrays

def arange(start, end, step=1, dtype=None):
    """Numbers from `start` up to, but without, `end`."""
    cdef Array y = new_array()
    y.storage = op_arange(&y.m, start, end, step, code_or(dtype, -1))
    return y


def linspace(double start, double end, int64_t steps, dtype=None):
    """`steps` numbers at equal distances, both ends included."""
    cdef Array y = new_array()
    y.storage = op_linspace(&y.m, start, end, steps, code_or(dtype, -1))
    return y


def eye(int64_t n, int64_t m, dtype):
    """An n x m matrix with ones on the diagonal."""
    cdef Array y = new_array()
    y.storage = op_eye(&y.m, n, m, dtype_code(dtype))
    return y


def full(sizes, value, dtype):
    """An array whose elements all equal `value`, a number of the dtype."""
    cdef int64_t n[MAXDIM]
    cdef int d
    cdef Array y = new_array()
    if len(sizes) > MAXDIM:
        raise RuntimeError(f"at most {MAXDIM} dimensions are possible, {len(sizes)} were given")
    for d in range(len(sizes)):
        n[d] = sizes[d]
    y.storage = op_full(&y.m, len(sizes), n, 0, dtype_code(dtype))
    fill_number(&y.m, value)
    return y


def cat(arrays, int64_t dim=0):
    """Arrays joined along an existing dimension."""
    cdef Meta* operands[256]
    cdef int k
    cdef Array y = new_array()
    arrays = list(arrays)
    if len(arrays) > 256:
        raise ValueError(f"cat: at most 256 arrays in one call, got {len(arrays)}")
    for k in range(len(arrays)):
        operands[k] = &(<Array?> arrays[k]).m
    y.storage = op_cat(&y.m, operands, len(arrays), dim)
    return y


def cast(Array x not None, dtype):
    """A copy in another dtype."""
    cdef Array y = new_array()
    y.storage = op_cast(&y.m, &x.m, dtype_code(dtype))
    return y


# ---- reductions; dims: an int, several, or None for all

def sum(Array x not None, dims=None, bint keepdim=False, dtype=None):
    """Sum; integers and bool add up in int64."""
    return total(op_sum, x, dims, keepdim, dtype)


def mean(Array x not None, dims=None, bint keepdim=False, dtype=None):
    """Mean of a floating array."""
    return total(op_mean, x, dims, keepdim, dtype)


def prod(Array x not None, dims=None, bint keepdim=False, dtype=None):
    """Product; integers and bool multiply in int64."""
    return total(op_prod, x, dims, keepdim, dtype)


def amax(Array x not None, dims=None, bint keepdim=False):
    """Largest element; NaN wins."""
    return extremum(op_amax, x, dims, keepdim)


def amin(Array x not None, dims=None, bint keepdim=False):
    """Smallest element; NaN wins."""
    return extremum(op_amin, x, dims, keepdim)


def any(Array x not None, dims=None, bint keepdim=False):
    """Whether some element is nonzero."""
    return extremum(op_any, x, dims, keepdim)


def all(Array x not None, dims=None, bint keepdim=False):
    """Whether every element is nonzero."""
    return extremum(op_all, x, dims, keepdim)


def argmax(Array x not None, dims=None, bint keepdim=False):
    """Index of the first largest element along one dimension, or in the flattened array."""
    return extremum(op_argmax, x, dims, keepdim)


def argmin(Array x not None, dims=None, bint keepdim=False):
    """Index of the first smallest element along one dimension, or in the flattened array."""
    return extremum(op_argmin, x, dims, keepdim)


def max_dim(Array x not None, dim, bint keepdim=False):
    """Largest elements along a dimension, and where they are."""
    cdef Array y = new_array(), index = new_array()
    y.storage, index.storage = op_max_dim(&y.m, &index.m, &x.m, wrap_dim(dim, x.m.ndim), keepdim)
    return y, index


def min_dim(Array x not None, dim, bint keepdim=False):
    """Smallest elements along a dimension, and where they are."""
    cdef Array y = new_array(), index = new_array()
    y.storage, index.storage = op_min_dim(&y.m, &index.m, &x.m, wrap_dim(dim, x.m.ndim), keepdim)
    return y, index


def logsumexp(Array x not None, dims=None, bint keepdim=False):
    """``log(sum(exp(x)))`` without overflow."""
    return extremum(op_logsumexp, x, dims, keepdim)


def var(Array x not None, dims=None, double correction=1, bint keepdim=False):
    """Variance with `correction` degrees of freedom taken off."""
    return spread(op_var, x, dims, correction, keepdim)


def std(Array x not None, dims=None, double correction=1, bint keepdim=False):
    """Standard deviation with `correction` degrees of freedom taken off."""
    return spread(op_std, x, dims, correction, keepdim)


def norm(Array x not None, double p=2, dims=None, bint keepdim=False):
    """The p-norm, without overflow of squares for p = 2."""
    cdef Array y = new_array()
    y.storage = op_norm(&y.m, &x.m, p, mask_of(dims, x.m.ndim), keepdim)
    return y


# ---- along a dimension

def softmax(Array x not None, dim):
    """Exponentials over their sum."""
    cdef Array y = new_array()
    y.storage = op_softmax(&y.m, &x.m, wrap_dim(dim, x.m.ndim))
    return y


def log_softmax(Array x not None, dim):
    """Logarithm of the softmax."""
    cdef Array y = new_array()
    y.storage = op_log_softmax(&y.m, &x.m, wrap_dim(dim, x.m.ndim))
    return y


def softmax_backward(Array g not None, Array out not None, dim):
    """Gradient of softmax from its result."""
    cdef Array y = new_array()
    y.storage = op_softmax_backward(&y.m, &g.m, &out.m, wrap_dim(dim, g.m.ndim))
    return y


def log_softmax_backward(Array g not None, Array out not None, dim):
    """Gradient of log_softmax from its result."""
    cdef Array y = new_array()
    y.storage = op_log_softmax_backward(&y.m, &g.m, &out.m, wrap_dim(dim, g.m.ndim))
    return y


def cumsum(Array x not None, dim, dtype=None):
    """Running sum."""
    cdef Array y = new_array()
    y.storage = op_cumsum(&y.m, &x.m, wrap_dim(dim, x.m.ndim), code_or(dtype, -1))
    return y


# ---- products

def mm(Array a not None, Array b not None):
    """Product of two matrices."""
    return two(op_mm, a, b)


def bmm(Array a not None, Array b not None):
    """Products of matrices, one a batch item."""
    return two(op_bmm, a, b)


def mv(Array a not None, Array b not None):
    """Product of a matrix and a vector."""
    return two(op_mv, a, b)


def dot(Array a not None, Array b not None):
    """Inner product of two vectors."""
    return two(op_dot, a, b)


def addmm(Array c not None, Array a not None, Array b not None, double beta=1, double alpha=1):
    """``beta * c + alpha * a @ b``."""
    cdef Array y = new_array()
    y.storage = op_addmm(&y.m, &c.m, &a.m, &b.m, beta, alpha)
    return y


# ---- indexing

cdef int open_indices(list indices, Meta** out) except -1:
    cdef int k
    if len(indices) > MAXDIM:
        raise IndexError(f"at most {MAXDIM} indices are possible, got {len(indices)}")
    for k in range(len(indices)):
        out[k] = NULL if indices[k] is None else &(<Array?> indices[k]).m
    return len(indices)


def index(Array x not None, indices):
    """Elements at the positions that index arrays name; None stands for a whole dimension."""
    cdef Meta* metas[MAXDIM]
    cdef list held = list(indices)
    cdef Array y = new_array()
    y.storage = op_index(&y.m, &x.m, metas, open_indices(held, metas))
    return y


def index_put_(Array x not None, indices, Array value not None, bint accumulate=False):
    """Overwrite, or add to, the elements that index arrays name."""
    cdef Meta* metas[MAXDIM]
    cdef list held = list(indices)
    index_put_into(&x.m, metas, open_indices(held, metas), &value.m, accumulate)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def index_select(Array x not None, dim, Array index not None):
    """Slices along a dimension."""
    cdef Array y = new_array()
    y.storage = op_index_select(&y.m, &x.m, wrap_dim(dim, x.m.ndim), &index.m)
    return y


cdef Array copy_of(Array x):
    cdef Array y = new_array()
    y.storage = op_clone(&y.m, &x.m, -1, True)
    return y


def index_add(Array x not None, dim, Array index not None, Array src not None):
    """A copy with slices added."""
    return index_add_(copy_of(x), dim, index, src)


def index_add_(Array x not None, dim, Array index not None, Array src not None):
    """Slices added in place."""
    index_add_into(&x.m, wrap_dim(dim, x.m.ndim), &index.m, &src.m)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def gather(Array x not None, dim, Array index not None):
    """One element for each index."""
    cdef Array y = new_array()
    y.storage = op_gather(&y.m, &x.m, wrap_dim(dim, x.m.ndim), &index.m)
    return y


def scatter(Array x not None, dim, Array index not None, Array src not None, bint add=False):
    """A copy with the elements of `src` written, or added, where `index` says."""
    return scatter_(copy_of(x), dim, index, src, add)


def scatter_(Array x not None, dim, Array index not None, Array src not None, bint add=False):
    """The elements of `src` written, or added, where `index` says."""
    if add:
        scatter_add_into(&x.m, wrap_dim(dim, x.m.ndim), &index.m, &src.m)
    else:
        scatter_into(&x.m, wrap_dim(dim, x.m.ndim), &index.m, &src.m)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def nonzero(Array x not None):
    """Positions of the nonzero elements, one row each."""
    cdef Array y = new_array()
    y.storage = op_nonzero(&y.m, &x.m)
    return y


def masked_select(Array x not None, Array mask not None):
    """The elements where a mask of bool holds."""
    return two(op_masked_select, x, mask)


# ---- random numbers; without a generator, the default one

def uniform_(Array x not None, double low=0, double high=1, Generator generator=None):
    """Overwrite with uniform numbers of [low, high)."""
    uniform_into(&x.m, low, high, generator)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def normal_(Array x not None, double mean=0, double std=1, Generator generator=None):
    """Overwrite with normal numbers."""
    normal_into(&x.m, mean, std, generator)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def random_(Array x not None, low, high, Generator generator=None):
    """Overwrite with integers of [low, high)."""
    random_into(&x.m, low, high, generator)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def bernoulli_(Array x not None, double p=0.5, Generator generator=None):
    """Overwrite with ones of probability `p` and zeros."""
    bernoulli_into(&x.m, p, generator)
    x.storage.version += 1
    x.storage.last_op = 0
    return x


def randperm(int64_t n, dtype=None, Generator generator=None):
    """The integers below `n` in random order."""
    cdef Array y = new_array()
    y.storage = op_randperm(&y.m, n, code_or(dtype, -1), generator)
    return y

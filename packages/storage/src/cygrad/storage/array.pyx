# Array: strided memory that can be used alone. It has views and the op table's pointwise rows, and knows no gradient.
cimport cython
from libc.stdint cimport INT64_MAX, int64_t, uint64_t
from libc.string cimport memset
from cygrad.storage.core cimport (
    BOOL, CONTIGUOUS, FLOAT32, ITEMSIZE, MAXDIM, MAXOPS, Meta, Storage, broadcast_shapes, default_dtype, dtype_code,
    device_object, dtype_object, has_internal_overlap, is_integral, meta_clear, meta_contig, meta_joint,
    meta_like, meta_storage, promote, real_of, shape_tuple, stride_tuple, view_as_strided, view_diagonal, view_expand,
    view_narrow, view_permute, view_reshape, view_select, view_slice, view_squeeze, view_transpose, view_unfold,
    view_unsqueeze, view_view, wrap_dim)
from cygrad.storage.dispatch cimport kernel
from cygrad.storage.interop cimport export_buffer, release_buffer, storage_of_buffer
from cygrad.storage.ops cimport copy_into, fill_number, item, op_clone, run_pointwise, to_list
from cygrad.storage.dispatch import KERNELS

include "abi.pxi"

check_storage_abi("cygrad.storage.array")

cdef dict TABLE = {}       # rows of the op table, read when the first operation is called
cdef Storage NOTHING = Storage()


cdef Array array_of(const Meta* m, Storage s):
    cdef Array y = Array.__new__(Array)
    meta_like(&y.m, m)
    y.storage = s
    return y


cdef inline Array beside(Array x):
    """An Array over x's storage, its Meta still empty."""
    cdef Array y = Array.__new__(Array)
    y.storage = x.storage
    return y


cdef int read_ints(object values, int64_t* out) except -1:
    """A tuple or list of int, or one int, as C integers; returns how many."""
    cdef int n = 0
    cdef Py_ssize_t i      # the one C type that refuses floats
    if not isinstance(values, (tuple, list)):
        values = (values,)
    if len(values) > MAXDIM:
        raise RuntimeError(f"at most {MAXDIM} dimensions are possible, {len(values)} were given")
    for v in values:
        i = v
        out[n] = i
        n += 1
    return n


cdef object unpacked(tuple args):
    """Sizes given one by one or as one sequence."""
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


cdef int dims_mask(object dims, int ndim, uint64_t* mask) except -1:
    """One bit for each named dimension; None names all."""
    cdef Py_ssize_t d
    mask[0] = 0
    if dims is None:
        dims = range(ndim)
    elif not isinstance(dims, (tuple, list)):
        dims = (dims,)
    for k in dims:
        d = k
        i = wrap_dim(d, ndim)
        if mask[0] >> <int>i & 1:
            raise RuntimeError(f"dimension {i} appears more than once in {tuple(dims)}")
        if ndim > 0:
            mask[0] |= <uint64_t>1 << <int>i
    return 0


cdef int common_dtype(object row, list operands) except -1:
    """The element type that the kernel of a pointwise row runs in."""
    cdef int code = -1, other
    for p, x in zip(row.inputs, operands):
        other = (<Array>x).m.dtype
        if p.type == "mask":
            if other != BOOL:
                raise TypeError(f"{row.name}: {p.name} must be of dtype torch.bool, got {dtype_object(other)!r}")
        elif row.promote is None or row.promote == p.name:
            code = other if code < 0 else promote(code, other)
    if is_integral(code) and not {"int", "number", "all"} & set(row.types.split()):
        code = default_dtype()
    return code


cdef Array cast(Array x, int code):
    cdef Array y
    if x.m.dtype == code:
        return x
    y = Array.__new__(Array)
    y.storage = op_clone(&y.m, &x.m, code, False)
    return y


cdef int read_scalars(object row, dict given, double* attr) except -1:
    """Scalar arguments of a row, in its order."""
    cdef int n = 0
    for p in row.args:
        if p.name not in given and p.default is None:
            raise TypeError(f"{row.name} needs the argument {p.name}")
        attr[n] = float(given.pop(p.name, p.default))
        n += 1
    if given:
        raise TypeError(f"{row.name} has no argument {', '.join(given)}")
    return n


cdef int check_writable(Array x) except -1:
    if x.storage.readonly:
        raise RuntimeError("the array lies in memory that may only be read; clone() it first")
    return 0


cdef Array run_row(object row, list operands, dict scalars):
    """One pointwise row: promote, cast, broadcast, allocate, loop."""
    cdef Meta* ops[MAXOPS]
    cdef int64_t sizes[MAXDIM]
    cdef double attr[4]
    cdef int code = common_dtype(row, operands), k, n = len(operands), ndim
    cdef Array y
    kid = KERNELS[row.name][0]
    if kernel(kid, code) == NULL:
        raise TypeError(f"{row.name} is not defined for {dtype_object(code)!r}")
    read_scalars(row, scalars, attr)
    for k in range(n):
        if row.inputs[k].type != "mask":
            operands[k] = cast(operands[k], code)
        ops[k + 1] = &(<Array>operands[k]).m
    ndim = broadcast_shapes(ops + 1, n, sizes)
    y = Array.__new__(Array)
    meta_joint(&y.m, ops + 1, n, ndim, sizes, BOOL if row.out == "bool" else real_of(code) if row.out == "real" else code)
    y.storage = meta_storage(&y.m)
    ops[0] = &y.m
    run_pointwise(kid, code, ops, n + 1, ndim, sizes, attr)
    return y


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Array:
    """An n-dimensional array of numbers over shared memory: what a tensor is, without its gradient.

    Parameters
    ----------
    obj : object with the buffer protocol
        Its memory is shared, not copied; `cygrad.storage.interop.storage_from_buffer` says what is accepted.
    """
    def __cinit__(self):
        cdef int64_t size = 0
        meta_contig(&self.m, 1, &size, FLOAT32)      # what is never filled has no elements, and memory that can be asked
        self.storage = NOTHING

    def __init__(self, obj):
        if self.storage is not NOTHING:
            raise RuntimeError("an Array is initialised once")
        self.storage = storage_of_buffer(&self.m, obj)

    def __dealloc__(self):
        meta_clear(&self.m)

    def __getbuffer__(self, Py_buffer* view, int flags):
        export_buffer(view, self, &self.m, self.storage, flags)

    def __releasebuffer__(self, Py_buffer* view):
        release_buffer(view)

    # ---- making
    @staticmethod
    def empty(*sizes, dtype=None):
        """Uninitialised elements of `dtype` (default: the default dtype), row-major."""
        cdef int64_t n[MAXDIM]
        cdef Array y = Array.__new__(Array)
        meta_contig(&y.m, read_ints(unpacked(sizes), n), n, default_dtype() if dtype is None else dtype_code(dtype))
        y.storage = meta_storage(&y.m)
        return y

    @staticmethod
    def over(Storage storage not None, dtype, sizes=None, strides=None, Py_ssize_t offset=0):
        """Elements in an existing storage; by default all of it, as one dimension.

        Parameters
        ----------
        storage : Storage
            Memory.
        dtype : dtype
            Element type.
        sizes, strides : tuple of int, optional
            Shape and strides in elements; without strides, row-major.
        offset : int
            Element at which the array starts.

        Raises
        ------
        RuntimeError
            If the array would reach outside the storage.
        """
        cdef int64_t n[MAXDIM]
        cdef int64_t st[MAXDIM]
        cdef Meta x
        cdef Array y = Array.__new__(Array)
        cdef int64_t length, step = 1
        cdef int nd, d
        memset(&x, 0, sizeof(Meta))
        x.dtype = dtype_code(dtype)
        x.device = storage.device
        length = storage.nbytes // ITEMSIZE[x.dtype]
        nd = read_ints((length - offset,) if sizes is None else sizes, n)
        for d in range(nd - 1, -1, -1):
            st[d] = step
            if n[d] > 1:
                step = step * n[d] if step <= INT64_MAX // n[d] else INT64_MAX
        if strides is not None and read_ints(strides, st) != nd:
            raise RuntimeError(f"{nd} sizes were given, but strides {strides}")
        view_as_strided(&y.m, &x, storage, nd, n, st, offset)
        y.storage = storage
        return y

    # ---- what it is
    @property
    def shape(self):
        """Sizes of the dimensions."""
        return shape_tuple(&self.m)

    @property
    def strides(self):
        """Elements between neighbours, for each dimension."""
        return stride_tuple(&self.m)

    @property
    def offset(self):
        """Elements of the storage before the first one of the array."""
        return (self.m.data - self.storage.ptr) // ITEMSIZE[self.m.dtype]

    @property
    def dtype(self):
        """Element type."""
        return dtype_object(self.m.dtype)

    @property
    def device(self):
        """Where the memory lies."""
        return device_object(self.m.device)

    @property
    def ndim(self):
        """Number of dimensions."""
        return self.m.ndim

    @property
    def memory(self):
        """The Storage."""
        return self.storage

    def numel(self):
        """Number of elements."""
        return self.m.numel

    def is_contiguous(self):
        """Whether the elements lie in row-major order without gaps."""
        return self.m.flags & CONTIGUOUS != 0

    def overlaps_itself(self):
        """Whether some element is reached by two different indices."""
        return has_internal_overlap(&self.m)

    def __len__(self):
        if self.m.ndim == 0:
            raise TypeError("len() of a 0-d array")
        return self.m.sizes[0]

    def __reduce__(self):
        return restore, (self.storage, self.dtype, tuple(self.shape), self.strides, self.offset)

    def __repr__(self):
        return f"Array({to_list(&self.m)}, shape={list(self.shape)}, dtype={self.dtype!r})"

    def tolist(self):
        """Elements as nested lists of Python numbers; a number when there is no dimension."""
        return to_list(&self.m)

    def item(self):
        """The only element as a Python number; RuntimeError if there are more or none."""
        return item(&self.m)

    # ---- views: they share the storage
    def view(self, *sizes):
        """The same elements in another shape, where strides can express it; RuntimeError otherwise."""
        cdef int64_t n[MAXDIM]
        cdef Array y = beside(self)
        view_view(&y.m, &self.m, read_ints(unpacked(sizes), n), n)
        return y

    def reshape(self, *sizes):
        """The same elements in another shape: a view where possible, a copy otherwise."""
        cdef int64_t n[MAXDIM]
        cdef Array y = beside(self)
        if not view_reshape(&y.m, &self.m, read_ints(unpacked(sizes), n), n):
            meta_clear(&y.m)
            return self.contiguous().view(*sizes)
        return y

    def expand(self, *sizes):
        """Dimensions of size 1 repeated without copying; -1 keeps a size."""
        cdef int64_t n[MAXDIM]
        cdef Array y = beside(self)
        view_expand(&y.m, &self.m, read_ints(unpacked(sizes), n), n)
        return y

    def permute(self, *dims):
        """Dimensions in another order."""
        cdef int64_t n[MAXDIM]
        cdef Array y = beside(self)
        view_permute(&y.m, &self.m, read_ints(unpacked(dims), n), n)
        return y

    def transpose(self, Py_ssize_t dim0, Py_ssize_t dim1):
        """Two dimensions exchanged."""
        cdef Array y = beside(self)
        view_transpose(&y.m, &self.m, dim0, dim1)
        return y

    def squeeze(self, dims=None):
        """Without the dimensions of size 1, or those among `dims`."""
        cdef uint64_t mask
        cdef Array y = beside(self)
        dims_mask(dims, self.m.ndim, &mask)
        view_squeeze(&y.m, &self.m, mask)
        return y

    def unsqueeze(self, Py_ssize_t dim):
        """With a dimension of size 1 at `dim`."""
        cdef Array y = beside(self)
        view_unsqueeze(&y.m, &self.m, dim)
        return y

    def select(self, Py_ssize_t dim, Py_ssize_t index):
        """One slice, without its dimension."""
        cdef Array y = beside(self)
        view_select(&y.m, &self.m, dim, index)
        return y

    def slice(self, Py_ssize_t dim, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t step=1):
        """Elements `start` to `stop` of one dimension, with Python's clamping."""
        cdef Array y = beside(self)
        view_slice(&y.m, &self.m, dim, start, stop, step)
        return y

    def narrow(self, Py_ssize_t dim, Py_ssize_t start, Py_ssize_t length):
        """`length` elements of one dimension from `start`."""
        cdef Array y = beside(self)
        view_narrow(&y.m, &self.m, dim, start, length)
        return y

    def diagonal(self, Py_ssize_t offset=0, Py_ssize_t dim1=0, Py_ssize_t dim2=1):
        """Elements whose indices in two dimensions differ by `offset`, as a new last dimension."""
        cdef Array y = beside(self)
        view_diagonal(&y.m, &self.m, offset, dim1, dim2)
        return y

    def unfold(self, Py_ssize_t dim, Py_ssize_t size, Py_ssize_t step):
        """Windows of `size` elements, `step` apart, as a new last dimension."""
        cdef Array y = beside(self)
        view_unfold(&y.m, &self.m, dim, size, step)
        return y

    # ---- copying
    def clone(self):
        """A copy in memory of its own."""
        cdef Array y = Array.__new__(Array)
        y.storage = op_clone(&y.m, &self.m, self.m.dtype, False)
        return y

    def contiguous(self):
        """The array itself if it is row-major, otherwise a row-major copy."""
        cdef Array y
        if self.m.flags & CONTIGUOUS:
            return self
        y = Array.__new__(Array)
        y.storage = op_clone(&y.m, &self.m, self.m.dtype, True)
        return y

    def to(self, dtype):
        """The array itself if it has this dtype, otherwise a converted copy."""
        return cast(self, dtype_code(dtype))

    def copy_(self, Array src not None):
        """Overwrite the elements with those of `src`, which broadcasts and converts."""
        check_writable(self)
        copy_into(&self.m, &src.m)
        self.storage.version += 1
        self.storage.last_op = 0
        return self

    def fill_(self, value):
        """Overwrite all elements with one number."""
        check_writable(self)
        fill_number(&self.m, value)
        self.storage.version += 1
        self.storage.last_op = 0
        return self

    # ---- operations; those that are not pointwise are in cygrad.storage.functions
    @staticmethod
    def call(str name, *arrays, **args):
        """A pointwise operation of the op table, with broadcasting and type promotion.

        Parameters
        ----------
        name : str
            Name of the row, such as ``"add"`` or ``"sigmoid"``.
        *arrays : Array
            Its tensor inputs, in the row's order.
        **args : float
            Its scalar arguments.

        Raises
        ------
        KeyError, TypeError, RuntimeError
            No such pointwise row; wrong number or kind of arguments, or a dtype that it has no kernel for; shapes that
            do not broadcast.
        """
        if name not in KERNELS:
            raise KeyError(f"the op table has no pointwise operation {name!r}")
        if not TABLE:
            from cygrad.storage.opgen.parse import load
            TABLE.update(load())
        if name not in TABLE:
            raise KeyError(f"{name!r} is a kernel inside an operation, not an operation")
        row = TABLE[name]
        if len(arrays) != len(row.inputs) or not all(isinstance(a, Array) for a in arrays):
            raise TypeError(f"{name} takes {len(row.inputs)} arrays ({', '.join(p.name for p in row.inputs)}), got "
                            f"{', '.join(type(a).__name__ for a in arrays) or 'none'}")
        return run_row(row, list(arrays), args)


def restore(storage, dtype, sizes, strides, offset):
    """`Array.over`, by a name that pickles can store."""
    return Array.over(storage, dtype, sizes, strides, offset)

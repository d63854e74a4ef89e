# Element types, Size and device: the small immutable values that describe a tensor.
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.long cimport PyLong_FromLongLong

cdef extern from *:
    """
    /* A tuple subclass without fields is allocated and filled like a tuple. */
    static PyObject* cyg_size_alloc(PyObject* type, Py_ssize_t n)
    {
        return ((PyTypeObject*)type)->tp_alloc((PyTypeObject*)type, n);
    }

    static PyObject* cyg_size_class;

    /* What Size.__getitem__ does, without the call. */
    static PyObject* cyg_size_item(PyObject* self, PyObject* index)
    {
        PyObject *found = PyTuple_Type.tp_as_mapping->mp_subscript(self, index), *part;
        Py_ssize_t i;
        if (found == NULL || !PyTuple_CheckExact(found)) return found;
        part = cyg_size_alloc(cyg_size_class, PyTuple_GET_SIZE(found));
        for (i = 0; part != NULL && i < PyTuple_GET_SIZE(found); i++) {
            PyObject* v = PyTuple_GET_ITEM(found, i);
            Py_INCREF(v);
            PyTuple_SET_ITEM(part, i, v);
        }
        Py_DECREF(found);
        return part;
    }

    static void cyg_size_slots(PyObject* type)
    {
        cyg_size_class = type;
        ((PyTypeObject*)type)->tp_as_mapping->mp_subscript = cyg_size_item;
        ((PyTypeObject*)type)->tp_as_sequence->sq_item = PyTuple_Type.tp_as_sequence->sq_item;
    }
    """
    object cyg_size_alloc(object type, Py_ssize_t n)
    void cyg_size_slots(object type)

cdef PyObject* dtype_table[N_DTYPES]
cdef bint dtype_open = False       # instances are made while this module is being initialised only
cdef int default_code = FLOAT32


@cython.final
cdef class dtype:
    """The type of a tensor's elements; there is exactly one object for each type.

    Attributes
    ----------
    itemsize : int
        Bytes of one element.
    is_floating_point, is_complex, is_signed : bool
        Kind of number.
    """
    def __cinit__(self):
        if not dtype_open:
            raise TypeError("a dtype cannot be made, only taken: float32, int64, bool, ...")

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return dtype_by_name, (self.name,)

    def __hash__(self):
        return <Py_ssize_t><void*>self >> 4

    def __eq__(self, other):
        return self is other

    def to_real(self):
        """The dtype of the parts of a complex number; other dtypes are their own."""
        return dtype_object(real_of(self.code))

    def to_complex(self):
        """The complex dtype whose parts have this precision, or hold it; RuntimeError for integers and bool."""
        return dtype_object(complex_of(self.code))


cdef dict make_dtypes():
    global dtype_open
    cdef dtype d
    cdef dict found = {}
    names = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
             "complex64", "complex128", "uint16", "uint32", "uint64")
    dtype_open = True
    for code, name in enumerate(names):
        d = dtype.__new__(dtype)
        d.code, d.name, d.itemsize = code, name, ITEMSIZE[code]
        d.is_floating_point = is_float(code)
        d.is_complex = is_complex(code)
        d.is_signed = code != BOOL and not is_unsigned(code)
        Py_INCREF(d)
        dtype_table[code] = <PyObject*>d
        found[name] = d
    dtype_open = False
    return found

cdef dict ALL_DTYPES = make_dtypes()

# Public names, aliases included.
dtypes = dict(ALL_DTYPES)
dtypes.update(short=dtypes["int16"], int=dtypes["int32"], long=dtypes["int64"], half=dtypes["float16"],
              float=dtypes["float32"], double=dtypes["float64"], cfloat=dtypes["complex64"], cdouble=dtypes["complex128"])


def dtype_by_name(name):
    """The dtype called `name`, as pickles store it."""
    return ALL_DTYPES[name]


cdef dtype dtype_object(int code):
    return <dtype>dtype_table[code]


cdef int dtype_code(object o) except -1:
    if type(o) is dtype:
        return (<dtype>o).code
    if o is float:
        return FLOAT64
    if o is int:
        return INT64
    if o is bool:
        return BOOL
    if o is complex:
        return COMPLEX128
    raise TypeError(f"dtype must be one of {', '.join(f'torch.{n}' for n in dtypes)} or Python's bool, int, float, "
                    f"complex; got {o!r} of type {type(o).__name__}")


# ---- promotion

cdef enum:
    NO_DTYPE = 255

cdef uint8_t[N_DTYPES][N_DTYPES] promotion


cdef int common_integer(int a, int b):
    """The smallest integer type that holds the values of both; NO_DTYPE if none does.

    PyTorch refuses most mixes with uint16, uint32 and uint64; these rules are the array API standard's.
    """
    cdef int signed, wide
    if is_unsigned(a) == is_unsigned(b):
        return a if ITEMSIZE[a] >= ITEMSIZE[b] else b
    signed, wide = (b, a) if is_unsigned(a) else (a, b)
    while ITEMSIZE[signed] <= ITEMSIZE[wide]:
        if signed == INT64:
            return NO_DTYPE
        signed += 1                                # INT8 to INT64 stand in this order
    return signed


cdef int common_dtype(int a, int b):
    cdef int part
    if a == b:
        return a
    if KIND[a] > KIND[b]:
        a, b = b, a
    if KIND[b] == KIND_INT:
        return b if a == BOOL else common_integer(a, b)
    if KIND[b] == KIND_FLOAT:
        if not is_float(a):
            return b
        return FLOAT32 if ITEMSIZE[a] == ITEMSIZE[b] else a if ITEMSIZE[a] > ITEMSIZE[b] else b
    return COMPLEX128 if a == FLOAT64 or a == COMPLEX128 else b


cdef int fill_promotion() except -1:
    cdef int a, b
    for a in range(UINT64 + 1):
        for b in range(UINT64 + 1):
            promotion[a][b] = common_dtype(a, b)
    return 0

fill_promotion()


cdef int promote(int a, int b) except -1:
    if promotion[a][b] == NO_DTYPE:
        raise RuntimeError(f"promotion of {dtype_object(a)!r} and {dtype_object(b)!r} is not supported: no integer type "
                           "holds the values of both; convert one of them")
    return promotion[a][b]


cdef int complex_of(int code) except -1:
    if is_complex(code):
        return code
    if code == FLOAT32 or code == BFLOAT16:
        return COMPLEX64
    if code == FLOAT64:
        return COMPLEX128
    if code == FLOAT16:
        raise RuntimeError("torch.float16 has no complex type here: complex32 (chalf) is not supported")
    raise RuntimeError(f"no complex type has parts of {dtype_object(code)!r}: a floating dtype is wanted")


cdef int default_dtype() noexcept:
    return default_code


cdef int set_default(int code) except -1:
    global default_code
    if not is_float(code):
        raise TypeError(f"the default dtype must be a floating-point type, got {dtype_object(code)!r}")
    default_code = code
    return 0


def get_default_dtype():
    """The floating type that Python floats become."""
    return dtype_object(default_code)


def set_default_dtype(d):
    """Choose the floating type that Python floats become.

    Raises
    ------
    TypeError
        If `d` is no floating-point dtype.
    """
    if not isinstance(d, dtype):
        raise TypeError(f"the default dtype must be a floating-point dtype, got {d!r}")
    set_default(dtype_code(d))


def promote_types(a, b):
    """The smallest dtype that holds the values of both."""
    if not isinstance(a, dtype) or not isinstance(b, dtype):
        raise TypeError(f"promote_types takes two dtypes, got {type(a).__name__} and {type(b).__name__}")
    return dtype_object(promote(dtype_code(a), dtype_code(b)))


# ---- Size ------------------------------------------------------------------------------------------------------------
class Size(tuple):
    """Sizes of the dimensions of a tensor: a tuple of int that prints as ``torch.Size([...])``."""
    __slots__ = ()
    __module__ = "cygrad.storage"

    def __new__(cls, sizes=()):
        sizes = tuple(sizes)
        for i, s in enumerate(sizes):
            if not hasattr(s, "__index__"):
                raise TypeError(f"torch.Size() takes integers, but item {i} is {s!r} of type {type(s).__name__}")
        return tuple.__new__(cls, [operator.index(s) for s in sizes])

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self):
        return type(self), (tuple(self),)

    def __getitem__(self, index):
        found = tuple.__getitem__(self, index)
        return tuple.__new__(Size, found) if type(found) is tuple else found

    def __add__(self, other):
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other):
        # A list that is extended by a Size, or an array of NumPy's, asks here first and does it itself.
        return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def numel(self):
        """Number of elements: the product of the sizes."""
        return math.prod(self)


cyg_size_slots(Size)

cdef enum:
    KNOWN_SIZES = 64           # a program asks for the same few shapes again and again
    KNOWN_DIMS = 5

cdef struct KnownSize:
    PyObject* size             # NULL, or the Size of these n numbers
    int n
    int64_t v[KNOWN_DIMS]

cdef KnownSize known_sizes[KNOWN_SIZES]


cdef object size_of(int n, const int64_t* x):
    cdef KnownSize* known
    cdef PyObject* before
    cdef uint64_t h = n
    cdef int i
    if n > KNOWN_DIMS:
        return new_size(n, x)
    for i in range(n):
        h = (h ^ <uint64_t>x[i]) * 0x9E3779B97F4A7C15ULL
    known = &known_sizes[h >> 58]
    if known.size != NULL and known.n == n and memcmp(known.v, x, 8 * n) == 0:
        return <object>known.size
    t = new_size(n, x)
    before = known.size
    known.size, known.n = <PyObject*>t, n
    memcpy(known.v, x, 8 * n)
    Py_INCREF(t)
    Py_XDECREF(before)
    return t


cdef object new_size(int n, const int64_t* x):
    cdef object t = cyg_size_alloc(Size, n)
    cdef int i
    for i in range(n):
        v = PyLong_FromLongLong(x[i])
        Py_INCREF(v)
        PyTuple_SET_ITEM(t, i, v)
    return t


cdef object tuple_of(int n, const int64_t* x):
    cdef tuple t = PyTuple_New(n)
    cdef int i
    for i in range(n):
        v = PyLong_FromLongLong(x[i])
        Py_INCREF(v)
        PyTuple_SET_ITEM(t, i, v)
    return t


cdef str listed(int n, const int64_t* x):
    """``[2, 3]``, for messages."""
    return "[" + ", ".join([str(x[i]) for i in range(n)]) + "]"


# ---- device ----------------------------------------------------------------------------------------------------------
@cython.final
cdef class device:
    """Where a tensor's memory lies.

    Parameters
    ----------
    type : str, int or device
        ``"cpu"`` or ``"cuda"``, or ``"cuda:0"`` with an index. A number is that of a CUDA device.
    index : int, optional

    Raises
    ------
    RuntimeError
        If there is no such kind of device. Whether CUDA devices are there, and which, is asked when one is used; of a
        number alone, at once.
    """
    cdef readonly str type
    cdef readonly object index
    cdef list before           # default devices that come back when a `with` ends

    def __init__(self, type, index=None):
        if isinstance(type, device):
            type, index = (<device>type).type, (<device>type).index
        elif isinstance(type, int) and not isinstance(type, bool):
            if index is not None:
                raise TypeError(f"the device {type!r} already is an index; a second one was given: {index}")
            check_accelerator()
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"a device is named by a str like 'cpu' or by a number, got {type!r}, a {builtin_type(type).__name__}")
        name, colon, number = type.partition(":")
        if colon:
            if index is not None:
                raise RuntimeError(f"the device {type!r} already has an index; a second one was given: {index}")
            if not number.isdecimal():
                raise RuntimeError(f"{type!r} is no device: the part behind the colon must be a number")
            index = int(number)
        if name not in ("cpu", "cuda"):
            raise RuntimeError(f"there is no device {type!r} here; the devices are: 'cpu', 'cuda'")
        if index is not None and (not isinstance(index, int) or index < 0):
            raise RuntimeError(f"a device index is a non-negative int, got {index!r}")
        self.type = name
        self.index = index

    def __repr__(self):
        tail = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{tail})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and self.type == (<device>other).type and self.index == (<device>other).index

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, ((self.type,) if self.index is None else (self.type, self.index))

    # In a ``with`` it is where tensors are made inside, unless they say otherwise.

    def __enter__(self):
        if self.before is None:
            self.before = []
        self.before.append(set_default_device(self))
        return self

    def __exit__(self, *_):
        set_default_device(self.before.pop())


CPU = device("cpu")

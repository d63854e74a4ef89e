# cygrad.autograd._forms: the public forms of the op table's rows (functions, methods, in-place methods). One function serves all:
# it binds what was given to a form's parameters, converts each by its kind, and calls the operation. May use: _core.
# Functions become _core's, methods Tensor's, so that users find both where they expect them.
# distutils: language = c
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int8_t, int16_t, int64_t, uint8_t, uint16_t, uint64_t

from cygrad.storage.core cimport wrap_dim
from cygrad.autograd._core cimport (
    Arg, Dims, OPS, Tensor, as_first, as_flag, as_index, as_number, as_operand, as_scalar, as_single, as_tensor_arg,
    as_word, axes_mask, axis_mask, binary, code_or_none, differs_from_one, dims_mask, finish, finish_exact, numbered, parse_ints,
    pointwise, unary, factored, restore_mode, uncast, with_alpha)

from . import _core

cdef extern from "forms.h":
    enum:
        KIND_T, KIND_TN, KIND_N, KIND_MASK, KIND_INDEX, KIND_INT, KIND_FLOAT, KIND_NUMBER, KIND_FLAG, KIND_DIM, KIND_DIMS
        KIND_AXIS, KIND_AXES, KIND_INTS, KIND_DTYPE, KIND_CASTTO, KIND_STR, KIND_SCALAR, KIND_FACTOR
        MISSING, NONE, NO, YES, NOTHING, NUMBER
        FUNCTION, METHOD, IN_PLACE
        EXACT, TYPED, POINTWISE, SEVERAL, NAMED, FACTORS
        MOST_PARAMS, N_FORMS
    ctypedef struct Param:
        const char* text
        uint8_t kind, usual, keyword, target
        int16_t number
        PyObject* name
        PyObject* fallback
        uint8_t ready
        int64_t bits
    ctypedef struct Form:
        const char* text
        Param* params
        uint16_t op, alpha
        uint8_t count, quick, out, flags, positional
        int8_t overload
        PyObject* name
        PyObject* name_
    ctypedef struct PyMethodDef:
        const char* ml_name
    object (*form_call)(Form*, int, PyObject*, PyObject**, Py_ssize_t, PyObject*)
    Form* forms
    PyMethodDef* form_functions
    PyMethodDef* form_methods

cdef extern from "Python.h":
    PyObject* Py_True             # `<PyObject*>True` is the address 1: Cython knows True as a number of C
    PyObject* Py_False
    Py_ssize_t PyTuple_GET_SIZE(PyObject* t)
    PyObject* PyTuple_GET_ITEM(PyObject* t, Py_ssize_t i)
    object PyUnicode_InternFromString(const char* text)
    int PyModule_AddFunctions(object module, PyMethodDef* functions) except -1
    object PyDescr_NewMethod(PyTypeObject* type, PyMethodDef* method)
    bint of_type "PyObject_TypeCheck"(PyObject* v, PyTypeObject* type) noexcept    # as macros of borrowed objects, which count no references
    bint is_long "PyLong_CheckExact"(PyObject* v) noexcept
    bint is_float "PyFloat_CheckExact"(PyObject* v) noexcept
    int64_t long_value "PyLong_AsLongLongAndOverflow"(PyObject* v, int* overflow) noexcept
    double float_value "PyFloat_AS_DOUBLE"(PyObject* v) noexcept

cdef object deliver = _core.deliver
cdef object named_results = _core.named_results


# ---- what was given --------------------------------------------------------------------------------------------------

cdef int bind(Form* f, int mode, PyObject* self, PyObject** args, Py_ssize_t n, PyObject* names, PyObject** v) except -1:
    """v: for each parameter what was given for it, or its default, or NULL; borrowed."""
    cdef int first = mode != FUNCTION, count = f.count - (f.out and first), i, k
    if n > f.positional - first:
        raise TypeError(f"{name_of(f, mode)}() takes {f.positional - first} positional argument"
                        f"{'' if f.positional - first == 1 else 's'} but {n} {'was' if n == 1 else 'were'} given")
    if first:
        v[0] = self
    for i in range(n):
        v[first + i] = args[i]
    if names == NULL:
        for i in range(first + n, count):
            v[i] = f.params[i].fallback
        return 0
    for i in range(first + n, count):
        v[i] = NULL
    for i in range(PyTuple_GET_SIZE(names)):
        k = place_of(f, PyTuple_GET_ITEM(names, i), first, count)
        if k < 0:
            raise TypeError(f"{name_of(f, mode)}() got an unexpected keyword argument '{<object>PyTuple_GET_ITEM(names, i)}'")
        if v[k] != NULL:
            raise TypeError(f"{name_of(f, mode)}() got multiple values for argument '{<str>f.params[k].name}'")
        v[k] = args[n + i]
    for i in range(first + n, count):
        if v[i] == NULL:
            v[i] = f.params[i].fallback
    return 0


cdef object given(Form* f, int mode, PyObject** v, int i):
    """What stands for a parameter; TypeError where nothing does. Asked in order: a wrong argument is told before a missing one."""
    if v[i] == NULL:
        raise TypeError(f'{name_of(f, mode)}() missing 1 required positional argument: "{<str>f.params[i].name}"')
    return <object>v[i]


cdef int place_of(Form* f, PyObject* name, int first, int count) except -2:
    """The parameter of this name, or -1. Names in a call are interned, so that nearly always their addresses are equal."""
    cdef int i
    for i in range(first, count):
        if f.params[i].name == name:
            return i
    for i in range(first, count):
        if <str>f.params[i].name == <object>name:
            return i
    return -1


cdef str name_of(Form* f, int mode):
    return <str>(f.name_ if mode == IN_PLACE else f.name)


# ---- conversions -----------------------------------------------------------------------------------------------------

cdef bint is_tensor(int kind) noexcept:
    return kind <= KIND_INDEX


cdef inline uint64_t every(int ndim) noexcept:
    return (<uint64_t>1 << ndim) - 1 if ndim < 64 else ~<uint64_t>0


cdef inline bint convert_usual(Param* p, PyObject* v, int ndim, Arg* a) noexcept:
    """Fills `a` from what is given most of the time; False where that is to be looked at more closely, by `convert`."""
    cdef int kind = p.kind, overflow = 0
    cdef int64_t k
    if kind <= KIND_TN or kind == KIND_MASK or kind == KIND_INDEX:
        a.o = v
        return of_type(v, <PyTypeObject*>Tensor)
    if kind == KIND_FLAG:
        a.i = v == Py_True
        return a.i or v == Py_False
    if v == <PyObject*>None:
        a.i = -1
        if KIND_DIMS <= kind <= KIND_AXES:
            a.m = every(ndim)
            return True
        return kind == KIND_DTYPE or kind == KIND_CASTTO
    if is_long(v):
        k = long_value(v, &overflow)
        if overflow:
            return False
        if kind == KIND_INT:
            a.i = k
            return True
        if k < 0:
            k += ndim
        if kind == KIND_DIM:
            a.i = k
            return 0 <= k < ndim
        a.m = <uint64_t>1 << (k & 63)
        return KIND_DIMS <= kind <= KIND_AXES and 0 <= k < ndim
    a.f = float_value(v) if is_float(v) else 0
    return (kind == KIND_FLOAT or kind == KIND_NUMBER) and is_float(v)


cdef inline bint convert_all(Form* f, int first, PyObject** args, Py_ssize_t n, int count, int ndim, Arg* a) noexcept:
    """Fills `a` but for its first where all is what is given most of the time, and nothing by name; else returns False."""
    cdef int i
    cdef Param* p
    for i in range(1, count):
        p = &f.params[i]
        if i < first + n:
            if not convert_usual(p, args[i - first], ndim, &a[i]):
                return False
        elif p.ready == 1:
            a[i].i = p.bits
        elif p.ready == 2:
            a[i].m = every(ndim)
        else:
            return False
    return True


cdef inline bint finds_element(Param* p) noexcept:
    """Whether these are the dimensions over which an extremum is looked for: their default is () there."""
    return p.kind == KIND_DIMS and p.usual == NOTHING


cdef int refuse_empty(object dims, Tensor x, str name) except -1:
    """Dimensions that a user named and that have no elements; where none were named, the operation itself refuses."""
    for dim in dims if isinstance(dims, (tuple, list)) else () if dims is None else (dims,):
        if x.m.sizes[wrap_dim(dim, x.m.ndim)] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {dim} to have non-zero size. The input has shape "
                             f"{list((<object>x).shape)}")
    return 0


cdef object convert(Form* f, int mode, int i, object v, Tensor x, Arg* a, Dims* d):
    """Fills `a` from any value for parameter i; returns the object that it holds, where that is one, else None. x: the first input."""
    cdef Param* p = &f.params[i]
    cdef int kind = p.kind, ndim = x.m.ndim
    cdef str arg = <str>p.name, name = name_of(f, mode)
    if kind == KIND_T or kind == KIND_MASK or kind == KIND_INDEX:
        return as_tensor_arg(v, name, arg)
    if kind == KIND_TN:
        return as_operand(v, x, f.op, name, arg)
    if kind == KIND_N:
        return as_single(v, x, f.op, name, arg)
    if kind == KIND_SCALAR:
        return as_scalar(v, name, arg)
    if kind == KIND_STR:
        return as_word(v, name, arg)
    if kind == KIND_DIM:
        a.i = wrap_dim(as_index(v, name, arg), ndim)
    elif kind == KIND_INT:
        a.i = as_index(v, name, arg)
    elif kind == KIND_FLAG:
        a.i = (v is not None or p.usual != NONE) and as_flag(v, name, arg)
    elif kind == KIND_DTYPE or kind == KIND_CASTTO:
        a.i = code_or_none(v)
    elif kind == KIND_DIMS:
        a.m = dims_mask(v, ndim, name)
        if x.m.numel == 0 and finds_element(p):
            refuse_empty(v, x, name)
    elif kind == KIND_AXIS:
        a.m = axis_mask(v, ndim, name)
    elif kind == KIND_AXES:
        a.m = axes_mask(v, ndim, name)
    elif kind == KIND_INTS:
        parse_ints(v, d, name, arg)
        a.d = d
    else:
        a.f = as_number(v, name, arg)
    return None


cdef int dtype_of_out(Form* f, PyObject** v, Arg* a) except -1:
    """The default of `dtype` where `out` is given."""
    cdef int i
    for i in range(f.count):
        if f.params[i].kind == KIND_DTYPE and <object>v[i] is None:
            a[i].i = as_tensor_arg(<object>v[f.count - 1], <str>f.name, "out").m.dtype
    return 0


# ---- calls -----------------------------------------------------------------------------------------------------------

cdef object run_form(Form* f, int mode, PyObject* self, PyObject** args, Py_ssize_t n, PyObject* names):
    """A call of one form; what is called most of the time goes past `bind` and `convert`."""
    cdef Arg a[MOST_PARAMS]
    cdef int first = mode != FUNCTION, i
    cdef PyObject* x
    if names != NULL or n + first == 0 or n + first > f.positional or f.flags & FACTORS:
        return run_any(f, mode, self, args, n, names)
    x = self if first else args[0]
    if not of_type(x, <PyTypeObject*>Tensor):
        return run_any(f, mode, self, args, n, names)
    if f.quick and n + first == f.quick:
        return run_quick(f, mode, <Tensor>x, args[n - 1] if f.quick == 2 else NULL)
    a[0].o = x
    if (<Tensor>x).m.numel == 0 or not convert_all(f, first, args, n, f.count - f.out - (f.alpha != 0), (<Tensor>x).m.ndim, a):
        return run_any(f, mode, self, args, n, names)
    if f.flags & POINTWISE:
        made = run_loop(f, mode, f.count - f.out - (f.alpha != 0), NULL, a)
    else:
        made = OPS[f.op].write(a) if mode == IN_PLACE else OPS[f.op].call(a)
    if mode == IN_PLACE:
        return made
    i = f.overload - first
    if f.overload >= 0:
        numbered(<Tensor>made, i < n and (is_tensor(f.params[f.overload].kind) or args[i] != <PyObject*>None))
    return named_results(<str>f.name, made) if f.flags & NAMED else made


cdef dict device_policies = {}            # name of a form -> what autocast on devices does with its tensors


cdef object run_cast(Form* f, int mode, PyObject* self, PyObject** args, Py_ssize_t n, PyObject* names):
    """The same where some thread used autocast on devices."""
    cdef PyObject* given[MOST_PARAMS + 1]
    cdef int first = mode != FUNCTION, count = 0, before
    policy = device_policies.get(<str>f.name)
    if policy is None or mode == IN_PLACE or first + n > f.positional:
        return run_form(f, mode, self, args, n, names)
    if names != NULL:
        count = PyTuple_GET_SIZE(names)
        if first + n + count > MOST_PARAMS:
            return run_form(f, mode, self, args, n, names)
    held = ([<object>self] if first else []) + [<object>args[i] for i in range(n)]
    named = {<object>PyTuple_GET_ITEM(names, i): <object>args[n + i] for i in range(count)}
    if named.get("out") is not None or not _core._autocasts_away(held, named):
        return run_form(f, mode, self, args, n, names)
    if not decides_dtype(f, held, named):
        held, named = _core._cast_arguments(policy, held, named)
    for i in range(first + n):
        given[i] = <PyObject*>held[i]
    for i in range(count):
        given[first + n + i] = <PyObject*>named[<object>PyTuple_GET_ITEM(names, i)]
    before = uncast()
    try:
        return run_form(f, mode, given[0] if first else self, given + first, n, names)
    finally:
        restore_mode(before)


cdef bint decides_dtype(Form* f, list held, dict named):
    """Whether the caller says in which dtype to compute."""
    cdef int i
    for i in range(f.count):
        if f.params[i].kind == KIND_DTYPE or f.params[i].kind == KIND_CASTTO:
            if (held[i] if i < len(held) else named.get(<str>f.params[i].name)) is not None:
                return True
    return False


def cast_on_devices(dict policies):
    """From now on all forms look whether autocast is on for devices; until then it costs them nothing."""
    global form_call
    device_policies.update(policies)
    form_call = run_cast


cdef object run_any(Form* f, int mode, PyObject* self, PyObject** args, Py_ssize_t n, PyObject* names):
    """A call of one form, of any kind."""
    cdef PyObject* v[MOST_PARAMS]
    cdef Arg a[MOST_PARAMS]
    cdef Dims d[2]                    # lists of ints
    cdef int lists = 0
    cdef Param* p
    cdef Tensor x
    cdef object held = None           # what conversions made, as (earlier, last)
    cdef int i, count = f.count - f.out - (f.alpha != 0)
    bind(f, mode, self, args, n, names, v)
    x = <Tensor>v[0] if v[0] != NULL and of_type(v[0], <PyTypeObject*>Tensor) else first_input(f, mode, v)
    a[0].o = <PyObject*>x
    for i in range(1, count):
        p = &f.params[i]
        if p.kind == KIND_FACTOR:             # factors() reads it, when all tensors are there
            a[i].f = 1
        elif v[i] == p.fallback and p.ready:
            a[i].i = p.bits if p.ready == 1 else <int64_t>every(x.m.ndim)
        elif v[i] == NULL or (x.m.numel == 0 and finds_element(p)) or not convert_usual(p, v[i], x.m.ndim, &a[i]):
            made = convert(f, mode, i, given(f, mode, v, i), x, &a[i], &d[lists])
            lists += p.kind == KIND_INTS
            if made is not None:
                a[i].o = <PyObject*>made
                if a[i].o != v[i]:
                    held = made if held is None else (held, made)
    if f.flags & FACTORS:
        held = (held, factors(f, mode, count, v, a))
    if f.flags & TYPED and mode == FUNCTION and v[f.count - 1] != <PyObject*>None:
        dtype_of_out(f, v, a)
    if f.flags & POINTWISE:
        made = run_loop(f, mode, count, v, a)
    else:
        i = f.out and mode == FUNCTION and v[f.count - 1] != <PyObject*>None
        made = OPS[f.op].write(a) if mode == IN_PLACE else call_for_out(f, a) if i else OPS[f.op].call(a)
    if mode == IN_PLACE:
        return made
    i = f.overload
    if i >= 0:
        numbered(<Tensor>made, of_type(v[i], <PyTypeObject*>Tensor) if is_tensor(f.params[i].kind) else v[i] != <PyObject*>None)
    if not f.flags & NAMED and (mode == METHOD or not f.out or v[f.count - 1] == <PyObject*>None):
        return made
    return handed(f, mode, v, made)


cdef object call_for_out(Form* f, Arg* a):
    """What `out` receives is computed in the inputs' dtypes also inside autocast."""
    cdef int before = uncast()
    try:
        return OPS[f.op].call(a)
    finally:
        restore_mode(before)


cdef object factors(Form* f, int mode, int count, PyObject** v, Arg* a):
    """Brings each factor into the tensor that it multiplies, as far as it is no double; returns the tensors so made."""
    cdef Param* p
    cdef object made = None
    cdef Tensor x = <Tensor>a[0].o, t
    cdef int i
    for i in range(1, count):
        p = &f.params[i]
        if p.kind == KIND_FACTOR and v[i] != p.fallback:
            t = factored(<object>v[i], <Tensor>a[p.target].o, x, name_of(f, mode), <str>p.name, &a[i].f)
            if <PyObject*>t != a[p.target].o:
                a[p.target].o = <PyObject*>t
                made = (made, t)
    return made


cdef Tensor first_input(Form* f, int mode, PyObject** v):
    """The first input where it is no tensor: a number beside one, or refused."""
    if f.params[0].kind == KIND_TN:
        return as_first(given(f, mode, v, 0), given(f, mode, v, 1), f.op, name_of(f, mode))
    return as_tensor_arg(given(f, mode, v, 0), name_of(f, mode), <str>f.params[0].name)


cdef object run_quick(Form* f, int mode, Tensor x, PyObject* second):
    """One or two tensors (or a number for the second), nothing else given."""
    cdef Tensor b = None
    if second != NULL:
        if isinstance(<object>second, Tensor):
            b = <Tensor>second
        elif f.params[1].kind == KIND_TN:
            b = as_operand(<object>second, x, f.op, name_of(f, mode), <str>f.params[1].name)
        else:
            b = as_tensor_arg(<object>second, name_of(f, mode), <str>f.params[1].name)
    if mode == IN_PLACE:
        return pointwise(f.op, f.quick, x, b, None, NULL, x)
    return unary(f.op, x) if b is None else binary(f.op, x, b)


cdef object run_loop(Form* f, int mode, int count, PyObject** v, Arg* a):
    """A pointwise row: tensors apart from scalar arguments, and `alpha`. v: NULL where nothing was given by name."""
    cdef double attr[2]
    cdef Tensor x = <Tensor>a[0].o, b = None, c = None, target = x if mode == IN_PLACE else None
    cdef int i, inputs = 1, attrs = 0, op = f.op
    for i in range(1, count):
        if not is_tensor(f.params[i].kind):
            attr[attrs] = a[i].i if f.params[i].kind == KIND_INT else a[i].f
            attrs += 1
        elif inputs == 1:
            b = <Tensor>a[i].o
            inputs = 2
        else:
            c = <Tensor>a[i].o
            inputs = 3
    if f.alpha and v != NULL and differs_from_one(<object>v[count]):
        return with_alpha(op, f.alpha, x, b, <object>v[count], name_of(f, mode), target)
    if target is None and not attrs and inputs < 3:
        return unary(op, x) if inputs == 1 else binary(op, x, b)
    return pointwise(op, inputs, x, b, c, attr if attrs else NULL, target)


cdef object handed(Form* f, int mode, PyObject** v, object result):
    """The result as the user gets it: in a named tuple, in `out`."""
    cdef object out = <object>v[f.count - 1] if f.out and mode == FUNCTION else None
    if f.flags & NAMED:
        result = named_results(<str>f.name, result)
    if out is None:
        return result
    if f.flags & SEVERAL:
        return deliver(result, out, f.flags & EXACT)
    return finish_exact(<Tensor>result, out) if f.flags & EXACT else finish(<Tensor>result, out)


# ---- at import -------------------------------------------------------------------------------------------------------

cdef PyObject* kept(object v) noexcept:
    """v, for as long as the process lives."""
    Py_INCREF(v)
    return <PyObject*>v


cdef int fill_forms() except -1:
    """Names, and defaults as objects."""
    cdef int i, k
    cdef Param* p
    cdef Arg a
    cdef object usual
    for i in range(N_FORMS):
        forms[i].name = kept(PyUnicode_InternFromString(forms[i].text))
        forms[i].name_ = kept(<str>forms[i].name + "_")
        for k in range(forms[i].count):
            p = &forms[i].params[k]
            p.name = kept(PyUnicode_InternFromString(p.text))
            usual = p.number if p.usual == NUMBER else () if p.usual == NOTHING else None if p.usual == NONE else p.usual == YES
            p.fallback = NULL if p.usual == MISSING else kept(usual)
            if KIND_DIMS <= p.kind <= KIND_AXES and (p.usual == NONE or (p.usual == NOTHING and p.kind == KIND_DIMS)):
                p.ready = 2
            elif p.kind != KIND_DIM and p.fallback != NULL and convert_usual(p, p.fallback, 0, &a):
                p.ready = 1
                p.bits = a.i
    return 0


def install():
    """Gives the functions to _core and the methods to Tensor; once, at import."""
    cdef PyMethodDef* d = form_methods
    cdef dict methods = {}
    fill_forms()
    global form_call
    form_call = run_form
    PyModule_AddFunctions(_core, form_functions)
    while d.ml_name != NULL:
        methods[d.ml_name.decode()] = PyDescr_NewMethod(<PyTypeObject*>Tensor, d)
        d += 1
    _core.add_methods(methods)

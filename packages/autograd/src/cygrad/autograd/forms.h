/* What a public form of a row of the op table takes, and how Python comes to it. The forms are in forms_table.h, which
 * opgen prints; _forms.pyx reads them. Each form is a function of one line, because Python tells a C function nothing
 * about which entry of a method table it was called through. */
#include <Python.h>
#include <stdint.h>

enum { KIND_T, KIND_TN, KIND_N, KIND_MASK, KIND_INDEX, KIND_INT, KIND_FLOAT, KIND_NUMBER, KIND_FLAG, KIND_DIM, KIND_DIMS,
       KIND_AXIS, KIND_AXES, KIND_INTS, KIND_DTYPE, KIND_CASTTO, KIND_STR, KIND_SCALAR, KIND_FACTOR, KIND_ALPHA, KIND_OUT };

enum { MISSING, NONE, NO, YES, NOTHING, NUMBER }; /* defaults; MISSING: the argument has to be given */

enum { FUNCTION, METHOD, IN_PLACE };

enum { EXACT = 1,       /* `out` has the dtype of the result */
       TYPED = 2,       /* without `dtype`, that of `out` is meant */
       POINTWISE = 4,
       SEVERAL = 8,     /* results are a tuple */
       NAMED = 16,      /* with names: one of cygrad.return_types */
       FACTORS = 32 };  /* has parameters of the kind FACTOR */

typedef struct {
    const char *text;
    uint8_t kind, usual;
    int16_t number;    /* of a default that is one */
    uint8_t keyword;   /* only by name */
    uint8_t target;    /* of a factor: the parameter that it multiplies */
    PyObject *name;    /* interned; this and the default live as long as the process */
    PyObject *fallback;
    uint8_t ready;     /* 1: `bits` is the default, converted; 2: the default is all dimensions; 0: it is to be converted */
    int64_t bits;
} Param;

typedef struct {
    const char *text;
    Param *params;
    uint16_t op, alpha; /* alpha: the row that scales the second input, or 0 */
    uint8_t count;      /* of params; out, the last, is none of methods' */
    uint8_t quick;      /* given just this many tensors there is nothing to look at; 0: there always is */
    int8_t overload;    /* the argument that decides between PyTorch's overloads, or -1 */
    uint8_t out;        /* whether the last parameter is `out` */
    uint8_t flags;
    uint8_t positional; /* how many may be given without their names */
    PyObject *name, *name_; /* as messages have them: NAME and NAME_ */
} Form;

static PyObject *(*form_call)(Form *, int, PyObject *, PyObject **, Py_ssize_t, PyObject *);

#define FASTCALL (METH_FASTCALL | METH_KEYWORDS)
#define ENTRY(i, mode)                                                                                                 \
    static PyObject *call_##mode##_##i(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {         \
        return form_call(&forms[i], mode, self, (PyObject **)args, n, names);                                          \
    }

#include "forms_table.h"

#define N_FORMS ((int)(sizeof(forms) / sizeof(*forms)))

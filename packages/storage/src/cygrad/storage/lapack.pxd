# LAPACK over batches of matrices: one thin driver a routine.
# May cimport: core, ops. GIL held by the caller; long work releases it.
from cygrad.storage.core cimport Meta

# Runs the driver called `routine` on the inputs x. The results are empty Metas that it fills, matrices column-major
# within each batch item; returns their Storages. The drivers' own comments say what they take and give; `letters` are
# the LAPACK routine's character arguments in its order, `rcond` its cutoff. Failure of an item is no error: it is in
# the result "info". On error the results are left empty.
cdef list lapack_call(str routine, Meta** x, int n, Meta** y, bytes letters, double rcond)

cdef enum:
    LAPACK_RESULTS = 5     # the most that a driver gives

# Which kernel runs: one table of pointers, filled at import from the best instruction set (CYGRAD_ISA overrides).
# May cimport: core. Invariant: after import every row that the op table declares for a dtype is non-NULL.
from cygrad.storage.core cimport Loop

cdef Loop kernel(int kid, int dtype) noexcept      # pointwise kernel K_... (see generated kernel_ids.pxi); NULL: not for this dtype
cdef void** kernel_row(int kid) noexcept           # its N_DTYPES pointers, for callers that keep the row
cdef void* hand_kernel(int hid, int dtype) noexcept nogil

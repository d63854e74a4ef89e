# Memory shared with other libraries through Python's buffer protocol.
# May cimport: core. Invariant: memory that was borrowed stays locked in its owner as long as a Storage refers to it.
from cygrad.storage.core cimport Meta, Storage

cdef Storage storage_of_buffer(Meta* y, object obj)          # y: shape, strides and dtype as the exporter states them; TypeError/ValueError
cdef Storage storage_of_array(Meta* y, object array)         # the same for an object of numpy.ndarray itself
cdef int export_buffer(Py_buffer* view, object owner, const Meta* m, Storage s, int flags) except -1   # for __getbuffer__
cdef void release_buffer(Py_buffer* view) noexcept           # for __releasebuffer__

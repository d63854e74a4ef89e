# Array: a Storage and a Meta as one Python object, without autograd.
# May cimport: core, interop, dispatch, ops. Invariant: m points into storage.
from cygrad.storage.core cimport Meta, Storage

cdef class Array:
    # final, no GC (a Storage is in no cycle), freelist
    cdef Meta m
    cdef Storage storage

cdef Array array_of(const Meta* m, Storage s)        # a view of s; m is copied

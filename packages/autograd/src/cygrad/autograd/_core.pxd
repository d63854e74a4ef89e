# The C contract of autograd for nn and for Cython code of users: Tensor, Node, and how to make them.
# May cimport: storage. Invariant: REQUIRES_GRAD is set on every tensor that has a grad_fn.
from libc.stdint cimport int64_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from cygrad.storage.core cimport Meta, Storage, Loop

cdef class Tensor
cdef class Node

cdef enum:                     # Tensor.flags
    REQUIRES_GRAD = 1
    RETAINS_GRAD = 2           # .grad of this non-leaf is kept
    WRAPPED = 4                # made from a Python number: weak in type promotion
    UNCOUNTED = 8              # an alias made by .data: its writes do not count as changes
    HAS_HOOKS = 16             # extra holds hooks

cdef enum:                     # Tensor.creation, why an in-place write through a view may be refused
    VIEW_PLAIN = 0
    VIEW_NO_GRAD = 1           # made while recording was off
    VIEW_MULTI = 2             # one of several outputs of one call (unbind, split)
    VIEW_FUNCTION = 3          # returned by a custom Function

cdef enum:
    GUARD_DIVISOR = 1
    GUARD_EXPONENT = 2
    SLOT_OUT = 3               # saved slot of an output; slots 0..2 are inputs
    MAXATTR = 5

ctypedef int (*Backward)(Node n, Tensor g) except -1

cdef struct OpInfo:            # one per op, filled at import from the op table; lives as long as the process
    const char* name           # of the node, without the suffix
    Loop* row                  # forward kernels by dtype, NULL when not pointwise
    Backward backward          # NULL: not differentiable
    uint8_t saves[4]           # per input: bit i = slot i is read by its gradient
    uint8_t kinds              # bit i: input i counts in promotion; bit 4 + i: input i is a mask
    uint8_t out_bool           # result is bool
    uint8_t guard              # integers: what the second input must not be (GUARD_...), 0 anything
    uint16_t id

cdef struct Dims:              # a shape or a list of dimensions, on the stack
    int n
    int64_t v[64]

cdef class Tensor:
    # owned by Python; freelist; GC; trashcan. Subclassed by Parameter.
    cdef Meta m
    cdef Storage mem            # the memory; `storage` is the public method
    cdef Node fn               # grad_fn; stale for a view whose version moved: read it through gradient_edge
    cdef Tensor base           # of a view; never itself a view
    cdef object grad_          # Tensor or None
    cdef object extra          # None or Extra: hooks, name
    cdef void* acc             # borrowed AccumulateGrad of a leaf, which clears it when it dies: no reference cycle
    cdef uint32_t out_nr       # which output of fn this is
    cdef uint32_t view_version # storage version at which fn was right, for a view
    cdef uint8_t flags
    cdef uint8_t creation
    cdef object __weakref__
    cdef dict __dict__         # NULL until a user sets an attribute

cdef class Node:
    # owned by tensors and by later nodes; freelist; GC; trashcan
    cdef const OpInfo* op
    cdef uint64_t seq          # creation order in this process: the engine runs the newest first
    cdef Node e0, e1, e2, e3   # next edges, None where the input needs no gradient
    cdef list more             # edges 4 and up, as [Node or None, output number] pairs
    cdef int n_edges
    cdef uint32_t nr[4]
    cdef Tensor s0, s1, s2, s3 # saved inputs 0..2 and output
    cdef uint32_t ver[4]
    cdef uint8_t saved         # bit i: slot i was filled
    cdef uint8_t released      # saved values were freed by a backward pass
    cdef uint8_t odtype, ondim # of output 0
    cdef int64_t* osizes       # -> oinl or a heap block
    cdef int64_t oinl[5]
    cdef double attr[2]
    cdef int64_t iattr[MAXATTR]
    cdef object rest           # what an op keeps beyond the slots (lists of ints, views geometry)
    cdef list outs             # (Size, dtype code) per output of a multi-output node, else None
    cdef object hooks          # None or Hooks
    cdef list collect          # not None: gradients go here instead of the edges (hooks, CopySlices)
    cdef uint64_t task         # engine: the pass that owns `slot`, 0 when none
    cdef int32_t slot
    cdef void* leaf            # AccumulateGrad: borrowed; `rest` holds the reference. Cleared by whichever of the two dies first
    cdef object __weakref__

cdef Tensor tensor_new()                                   # empty: the caller fills m and storage
cdef Node gradient_edge(Tensor t, uint32_t* nr)            # None when t needs no gradient
cdef bint recording() noexcept
cdef int bump(Tensor t, uint16_t op) except -1             # counts one in-place write

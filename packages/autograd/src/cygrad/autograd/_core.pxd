# The C contract of autograd for nn and for Cython code of users: Tensor, Node, and how to make them.
# May cimport: storage. Invariant: REQUIRES_GRAD is set on every tensor that has a grad_fn.
from libc.stdint cimport int64_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from cpython.object cimport PyObject
from cygrad.storage.core cimport Meta, Storage, Loop

cdef class Tensor
cdef class Node

cdef enum:                     # Tensor.flags
    REQUIRES_GRAD = 1
    RETAINS_GRAD = 2           # .grad of this non-leaf is kept
    WRAPPED = 4                # made from a Python number: weak in type promotion
    HAS_HOOKS = 16             # extra holds hooks
    WIDE = 32                  # an integer that the other operand's dtype does not hold: the comparison runs in this one's
    TRUTH = 128                # made from a Python bool
    BARE = 64                  # made by __new__; __init__ has not run
    BATCHED = 512              # holds one example out of a batch, in vmap: see batch.pxi
    LENT = 1024                # made to lend a buffer: somebody has the address of the memory
    DUAL = 256                 # carries a tangent of forward mode, or is a view of a tensor that does

cdef enum:                     # Tensor.creation, why an in-place write through a view may be refused
    VIEW_PLAIN = 0
    VIEW_NO_GRAD = 1           # made while recording was off
    VIEW_MULTI = 2             # one of several outputs of one call (unbind, split)
    VIEW_FUNCTION = 3          # returned by a custom Function
    VIEW_INFERENCE = 4         # made in inference mode
    VIEW_EXAMPLE = 5           # made by vmap from a tensor outside of it, or the other way round

cdef enum:
    READS_VALUES = 3           # bits of OpInfo.guard (GUARD_..., from opgen/check.py) that read integers before the loop
    HAS_DUALS = 1              # Node.dual
    INPUTS_ONLY = 2            # what it made has no history: it is no part of a graph
    SLOT_OUT = 3               # saved slot of an output; slots 0..2 are inputs
    SAVED_REST = 16            # in Node.saved: `rest` holds tensors that a backward pass frees
    MAXATTR = 5

ctypedef int (*Backward)(Node n, Tensor g) except -1
ctypedef Tensor (*Forward)(Node n, int k, Tensor t)
ctypedef object (*Call)(const Arg* v)

cdef union Arg:                # of a call by the op table, converted; objects are borrowed
    PyObject* o                # tensors, strings, numbers that may be complex
    int64_t i
    uint64_t m                 # a set of dimensions
    double f
    Dims* d

cdef struct OpInfo:            # one per op, filled at import from the op table; lives as long as the process
    const char* name           # of the node, without the suffix
    Loop* row                  # the CPU's forward kernels by dtype, NULL when not pointwise
    int kernel                 # their id for run_pointwise, or -1
    Backward backward          # NULL: not differentiable
    Forward forward            # part of input k's tangent in the output's; NULL: found from backward
    Call call                  # of a row that is no loop and has public forms, else NULL
    Call write                 # the same in place
    uint8_t saves[4]           # per input: bit i = slot i is read by its gradient
    uint8_t kinds              # bit i: input i counts in promotion; bit 4 + i: input i is a mask
    uint8_t out_bool           # result is bool
    uint8_t out_real           # result has the dtype of the parts, where inputs are complex
    uint8_t guard              # what is asked of the inputs beyond shape and dtype (GUARD_...)
    uint8_t alike              # inputs of one dtype only, which is not promoted
    uint8_t rowmajor           # the result is row-major whatever the inputs' layout
    uint16_t id

cdef struct Dims:              # a shape or a list of dimensions, on the stack
    int n
    int64_t v[64]

cdef class NodeExtra
cdef class Dual

cdef class ForwardLevel:
    # owned by the thread that opened it, and by its tangents; GC
    cdef readonly int depth    # greater than those of the levels around it
    cdef readonly bint open
    cdef Dual ring             # neighbour of all tangents of this level

cdef class Dual:
    # owned by the Extra of one Tensor; GC. One tangent of forward mode.
    cdef Tensor tangent        # None when its level is closed
    cdef ForwardLevel level
    cdef Dual lower            # the tensor's tangent of the next level outside, or None
    cdef void* before          # neighbours in the level's ring
    cdef void* after

cdef class Extra:
    # owned by one Tensor; GC
    cdef Dual dual             # its tangents, innermost level first
    cdef Tensor root           # of a view: the tensor of whose tangents it shows parts, or None
    cdef dict hooks            # register_hook on a leaf
    cdef dict after            # register_post_accumulate_grad_hook
    cdef object batch          # None, or the Batch of a batched tensor

cdef class Tensor:
    # owned by Python; freelist; GC; trashcan. Subclassed by Parameter.
    cdef Meta m
    cdef Storage mem           # the memory; `storage` is the public method
    cdef Node fn               # grad_fn; stale for a view whose version moved: read it through set_edge or grad_fn
    cdef Tensor base           # of a view; never itself a view
    cdef object grad_          # Tensor or None
    cdef Extra extra           # None, or what few tensors have: hooks, tangents
    cdef object wide           # None, or what owns the sizes block of more than INLINE dimensions
    cdef object attrs          # the instance dict, NULL until a user sets an attribute (see attribute_slot)
    cdef void* acc             # borrowed AccumulateGrad node, when someone holds one; its LeafLink clears this
    cdef uint64_t task         # engine: the pass that owns `slot`, 0 when none
    cdef int32_t slot
    cdef uint32_t out_nr       # which output of fn this is
    cdef uint32_t view_version # storage version at which fn was right, for a view
    cdef uint16_t flags
    cdef uint8_t creation
    cdef object __weakref__

cdef class Node:
    # owned by tensors and by later nodes; freelist; GC; trashcan. No __dealloc__: it would cost every node 10 ns.
    cdef const OpInfo* op
    cdef uint64_t seq          # creation order in this process: the engine runs the newest first
    cdef object e0, e1, e2, e3 # where gradients go: the Node that made the input, or the input itself if it is a leaf; None: nowhere
    cdef Tensor s0, s1, s2, s3 # saved inputs 0..2 and output
    cdef object rest           # what an op keeps beyond the slots (lists of ints, geometry of views)
    cdef NodeExtra x           # None, or what few nodes have
    cdef int32_t n_edges
    cdef uint32_t nr[4]        # which output of e_k the input is
    cdef uint32_t ver[4]       # version of s_k when it was saved
    cdef uint8_t leaves        # bit k: e_k is a leaf
    cdef uint8_t saved         # bit k: slot k was filled
    cdef uint8_t released      # saved values were freed by a backward pass
    cdef uint8_t digit         # at the end of the name: which of PyTorch's overloads was called
    cdef uint8_t odtype, ondim # of output 0
    cdef uint8_t odevice       # of output 0
    cdef uint8_t title         # 0, or the place in node_titles of a name that is not the operation's
    cdef uint8_t dual          # some input has a tangent (HAS_DUALS: x.duals), or had one and this is why there is a node at all
    cdef int64_t* osizes       # -> oinl or a block that x owns
    cdef int64_t oinl[5]
    cdef double attr[2]
    cdef int64_t iattr[MAXATTR]
    cdef uint64_t task         # engine: the pass that owns `slot`, 0 when none
    cdef int32_t slot
    cdef object __weakref__

cdef class NodeExtra:
    # owned by one Node; GC
    cdef list more             # edges 4 and up: [target, output number, is leaf]
    cdef list outs             # (Size, dtype code) per output of a node with several, else None
    cdef object hooks          # None or Hooks
    cdef list duals            # (input number, input, needs a gradient) of inputs with tangents, until the output is there
    cdef object owned          # the block behind osizes; the LeafLink of an AccumulateGrad
    cdef object line           # where the user's program made the node, if lines are kept (trace.pxi)
    cdef dict packed           # slot -> Packed, of what saved_tensors_hooks took
    cdef tuple levels          # of vmap, in which the outputs vary; None outside of vmap
    cdef object stream         # of a device on which the output was made, unless it is the default one

cdef Tensor tensor_new()                                   # empty: the caller fills m, then gives it its memory by adopt
cdef int adopt(Tensor y, Storage s) except -1              # y, whose m is filled, lives in s; nothing else may set y.mem
cdef int set_edge(Node n, int k, Tensor t) except -1       # gradients of input k go to what made t
cdef bint recording() noexcept
cdef int bump(Tensor t, uint16_t op) except -1             # counts one in-place write
cdef int before_write(Tensor x) except -1                  # for writes by other code: refuses inference tensors, tells who watches
cdef uint16_t optimizer_op() noexcept                      # op id with which an optimizer bumps what it wrote

# For the other modules of autograd itself.
cdef OpInfo[1024] OPS                                      # by op id
cdef Tensor unary(int op, Tensor x)
cdef Tensor binary(int op, Tensor a, Tensor b)
cdef Tensor pointwise(int op, int nin, Tensor a, Tensor b, Tensor c, const double* attr, Tensor target)
cdef Tensor numbered(Tensor y, int digit)
cdef Tensor as_tensor_arg(object v, str name, str arg)     # conversions of arguments: args.pxi
cdef Tensor as_operand(object v, Tensor beside, int op, str name, str arg)
cdef Tensor as_single(object v, Tensor beside, int op, str name, str arg)
cdef Tensor as_first(object v, object other, int op, str name)
cdef int64_t as_index(object v, str name, str arg) except? -1
cdef double as_number(object v, str name, str arg) except? -1.25
cdef bint as_flag(object v, str name, str arg) except -1
cdef object as_scalar(object v, str name, str arg)
cdef str as_word(object v, str name, str arg)
cdef int parse_ints(object v, Dims* d, str name, str arg) except -1
cdef uint64_t dims_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF
cdef uint64_t axis_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF
cdef uint64_t axes_mask(object dim, int ndim, str name) except? 0xFFFFFFFFFFFFFFFF
cdef int code_or_none(object d) except -2
cdef bint differs_from_one(object alpha) except -1
cdef Tensor with_alpha(int op, int scaled, Tensor a, Tensor b, object alpha, str name, Tensor target)
cdef Tensor factored(object v, Tensor t, Tensor like, str name, str arg, double* to)
cdef int uncast() noexcept                                 # no autocast from here on; returns what restore_mode takes
cdef void restore_mode(int before) noexcept
cdef object finish(Tensor y, object out)
cdef object finish_exact(Tensor y, object out)

# For the modules of gradients: what backward functions use of the engine.
cdef Tensor unpack(Node n, int slot)
cdef bint wanted(Node n, int k)
cdef int pass_grad(Node n, int k, Tensor g) except -1
cdef int edge_sizes(Node n, int k, Dims* d) except -1
cdef int dims_from(object seq, Dims* d) except -1
cdef Tensor fused(int kid, int nin, Tensor a, Tensor b, Tensor c, Tensor d, int masks, const double* attr)
cdef Tensor like_number(double value, Tensor t)
cdef Tensor zeros_same(Tensor t)

# What formulas of the op table may call beside rows; the generator reads these lines. Defined in formulas*.pxi and slices.pxi.
cdef double positive_count(const Dims* d, uint64_t mask) noexcept
cdef Tensor underivable(Tensor g)
cdef Tensor linked(Tensor g, Node n)
cdef Tensor scaled(Tensor g, double factor)
cdef Tensor right_gradient(Node node, int k, Tensor a, Tensor g)
cdef Tensor op_reshape(Tensor x, const Dims* d)
cdef Tensor sum_to_dims(Tensor g, const Dims* d)
cdef Tensor op_t(Tensor x)
cdef Tensor unpermute(Tensor g, const Dims* dims)
cdef Tensor unsqueeze_backward(Tensor g, int64_t dim)
cdef Tensor index_select_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index)
cdef Tensor gather_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index)
cdef Tensor value_select_backward(Tensor g, const Dims* sizes, int64_t dim, Tensor index, bint keepdim)
cdef Tensor values_at(Tensor t, int64_t dim, Tensor index, bint keepdim)
cdef Tensor masked_select_backward(Tensor g, const Dims* sizes, Tensor mask)
cdef Tensor col2im_of(Tensor g, const Dims* geometry, const Dims* shape)
cdef Tensor conj_of(Tensor x)
cdef Tensor real_of_tensor(Tensor x)
cdef Tensor whole_of(Tensor parts)
cdef Tensor sgn_backward(Tensor g, Tensor x, Tensor y)
cdef Tensor angle_backward(Tensor g, Tensor x)
cdef Tensor restore_dims(Tensor g, uint64_t mask, bint keepdim)
cdef Tensor expand_reduced(Tensor g, const Dims* sizes, uint64_t mask, bint keepdim)
cdef Tensor sum_keep(Tensor x, int64_t dim)
cdef Tensor batch_norm_sums(Tensor g, Tensor x, Tensor stats, double eps)
cdef Tensor batch_norm_input(Tensor g, Tensor x, Tensor w, Tensor stats, Tensor sums, double eps)
cdef Tensor extremum_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, bint keepdim)
cdef Tensor prod_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, bint keepdim)
cdef Tensor variance_backward(Tensor g, Tensor x, uint64_t mask, double correction, bint keepdim)
cdef Tensor std_backward(Tensor g, Tensor x, Tensor y, uint64_t mask, double correction, bint keepdim)
cdef Tensor norm_backward(Tensor g, Tensor x, Tensor y, double p, uint64_t mask, bint keepdim)
cdef tuple layer_norm_gradients(Tensor g, Tensor x, Tensor w, double eps, Node n)
cdef Tensor layer_norm_tangent(Tensor t, Tensor x, Tensor w, double eps)
cdef Tensor layer_norm_twice(Tensor t, Tensor d, Tensor x, Tensor w, double eps)
cdef Tensor cumprod_backward(Tensor g, Tensor x, Tensor y, int64_t dim)
cdef Tensor logcumsumexp_backward(Tensor g, Tensor x, Tensor y, int64_t dim)
cdef Tensor recurrence_transposed(Tensor g, Tensor a, int64_t dim, bint reverse)
cdef Tensor recurrence_factor(Tensor g, Tensor a, Tensor y, int64_t dim, bint reverse)
cdef Tensor copied_slices_backward(Tensor g, int64_t dim, Tensor index, const Dims* sizes)
cdef Tensor filled_slices(Tensor g, int64_t dim, Tensor index)
cdef Tensor take_backward(Tensor g, const Dims* sizes, Tensor index)
cdef Tensor put_backward(Tensor g, Tensor index, bint accumulate)
cdef Tensor masked_scatter_backward(Tensor g, Tensor mask, const Dims* sizes)
cdef Tensor reduced_into(Tensor g, Tensor x, Tensor y, Tensor src, int64_t dim, Tensor index, str reduce, bint include_self,
                         bint slices)
cdef Tensor reduced_from(Tensor g, Tensor x, Tensor y, Tensor src, int64_t dim, Tensor index, str reduce, bint include_self,
                         bint slices)
cdef Tensor padded(Tensor t, const Dims* pad)
cdef Tensor unpadded(Tensor g, const Dims* pad)
cdef Tensor select_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t index)
cdef Tensor slice_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t start, int64_t stop, int64_t step)
cdef Tensor narrow_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t start, int64_t length)
cdef Tensor diagonal_backward(Tensor g, const Dims* sizes, int64_t offset, int64_t dim1, int64_t dim2)
cdef Tensor unfold_backward(Tensor g, const Dims* sizes, int64_t dim, int64_t size, int64_t step)

# table: what the op table says about each row, in the engine's form. May use: node, the generated ops.pxi.

cdef extern from "rows_table.h":
    ctypedef struct RowFacts "struct row_facts":
        const char* name
        int kernel               # the id of the loops, or -1
        uint8_t kinds, out_bool, out_real, guard, alike, rowmajor
    const RowFacts* row_facts

cdef Loop NO_KERNELS[N_DTYPES]
memset(NO_KERNELS, 0, sizeof(NO_KERNELS))


cdef int fill_table() except -1:
    cdef int i
    cdef OpInfo* o
    cdef const RowFacts* facts
    for i in range(N_ROWS):
        o = &OPS[i + 1]
        facts = &row_facts[i]
        o.id = i + 1
        o.name = facts.name
        o.row = &NO_KERNELS[0]
        o.kernel = facts.kernel
        if facts.kernel >= 0:
            o.row = <Loop*>dispatch.kernel_row(facts.kernel)
        o.kinds = facts.kinds
        o.out_bool = facts.out_bool
        o.out_real = facts.out_real
        o.guard = facts.guard
        o.alike = facts.alike
        o.rowmajor = facts.rowmajor
    return fill_functions()

fill_table()


cdef dict other_names = {}         # (op id, name) -> address of a row; the keys own the names


cdef const OpInfo* row_called(int op, bytes name) except NULL:
    """The row of an operation whose nodes have another name. There is one for each, for as long as the process lives."""
    cdef OpInfo* o
    cdef tuple key = (op, name)
    if key not in other_names:
        o = <OpInfo*>malloc(sizeof(OpInfo))
        if o == NULL:
            raise MemoryError()
        o[0] = OPS[op]
        o.name = name
        other_names[key] = <size_t>o
    return <const OpInfo*><size_t>other_names[key]


cdef int bw_missing(Node n, Tensor g) except -1:
    raise RuntimeError(f"derivative for {n.op.name.decode()} is not implemented: its row of the op table came without one")


def complete_rows():
    """Once the gradients are there, rows under other names get those of the rows that they are copies of. Returns the names of rows
    without a gradient, whose nodes, should there ever be some, say so."""
    cdef OpInfo* o
    cdef const char* name
    cdef list missing = []
    cdef int i
    for i in range(1, N_ROWS + 1):
        if OPS[i].backward == NULL:
            OPS[i].backward = bw_missing
            missing.append(ROW_NAMES[i - 1])
    for (op, _), address in other_names.items():
        o = <OpInfo*><size_t>address
        name = o.name
        o[0] = OPS[<int>op]
        o.name = name
    return missing


RESHAPE_ALIAS = row_called(OP_VIEW_AS_SHAPE, b"ReshapeAlias")
UNSAFE_VIEW = row_called(OP_VIEW_AS_SHAPE, b"UnsafeView")
cdef const OpInfo* UNSAFE_SQUEEZE = row_called(OP_SQUEEZE_DIMS, b"UnsafeView")
cdef const OpInfo* UNSAFE_BMM = row_called(OP_BMM, b"UnsafeView")
cdef const OpInfo* ROLL_VIEW = row_called(OP_VIEW_AS_SHAPE, b"Roll")

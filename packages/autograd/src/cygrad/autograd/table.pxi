# table: what the op table says about each row, in the engine's form. May use: node, the generated ops.pxi.

cdef extern from "rows_table.h":
    ctypedef struct RowFacts "struct row_facts":
        const char* name
        int kernel               # the id of the loops, or -1
        uint8_t saves[4]
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
        if facts.kernel >= 0:
            o.row = <Loop*>dispatch.kernel_row(facts.kernel)
        memcpy(o.saves, facts.saves, sizeof(o.saves))
        o.kinds = facts.kinds
        o.out_bool = facts.out_bool
        o.out_real = facts.out_real
        o.guard = facts.guard
        o.alike = facts.alike
        o.rowmajor = facts.rowmajor
    return fill_functions()

fill_table()

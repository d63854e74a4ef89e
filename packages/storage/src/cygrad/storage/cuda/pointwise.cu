// The table of pointwise kernels, filled from the groups that opgen prints.
#include "rows.cuh"
#include "cuda_row_groups.h"

#define DECLARE(group) extern "C" const Row cyg_rows_##group[];
CYG_ROW_GROUPS(DECLARE)

namespace {
struct Table {
    RowRun run[CYG_KERNELS][C_COLUMNS];
    void enter(const Row* row) {
        for (; row->kernel >= 0; row++) run[row->kernel][row->code] = row->run;
    }
    Table() {
        memset(run, 0, sizeof(run));
#define ENTER(group) enter(cyg_rows_##group);
        CYG_ROW_GROUPS(ENTER)
    }
};

RowRun row_of(int kernel, int code) {
    static const Table table;
    return kernel < 0 || kernel >= CYG_KERNELS || code < 0 || code >= C_COLUMNS ? nullptr : table.run[kernel][code];
}
}

int cyg_pointwise(int kernel, int code, const void* it, const double* attr, unsigned held, void* stream) {
    RowRun run = row_of(kernel, code);
    return run ? run((const Iter*)it, attr, held, stream) : (int)CYG_NO_KERNEL;
}

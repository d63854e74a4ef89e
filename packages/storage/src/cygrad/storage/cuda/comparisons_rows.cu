// The rows of group "comparisons", printed by opgen/cuda.py.
#include "cuda_comparisons_rows.h"

// The rows of group "complex", printed by opgen/cuda.py.
#include "cuda_complex_rows.h"

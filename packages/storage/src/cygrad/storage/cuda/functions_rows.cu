// The rows of group "functions", printed by opgen/cuda.py.
#include "cuda_functions_rows.h"

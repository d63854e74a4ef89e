// The rows of group "special", printed by opgen/cuda.py.
#include "cuda_special_rows.h"

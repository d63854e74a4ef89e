// The rows of group "pointwise", printed by opgen/cuda.py.
#include "cuda_pointwise_rows.h"

// The rows of group "gradients", printed by opgen/cuda.py.
#include "cuda_gradients_rows.h"

# cygrad.autograd._gradients_others: gradients of the op table's rows with kernels and of views. As _gradients_pointwise.
# distutils: language = c
include "gradients_others.pxi"

# cygrad.autograd._gradients_pointwise: gradients of the op table's pointwise rows, printed by the op generator. May use: _core.
# A module of its own, so that an edited gradient compiles this and not the engine, which calls what `install` enters in OPS.
# distutils: language = c
include "gradients_pointwise.pxi"

# Ids of the hand-written kernels: rows of the table that dispatch fills, one column a dtype. A group registers its own
# ids only.
cdef enum:
    H_CAST = 0             # + DTypeCode of the source, column = dtype of the result; Loop
    H_SUM = 16             # Reduce kernels, column = dtype of the input
    H_PROD
    H_MAX
    H_MIN
    H_ARGMAX
    H_ARGMIN
    H_ANY
    H_ALL
    H_VAR
    H_SUMSQ
    H_SUMPOW
    H_ABSMAX
    H_ABSMIN
    H_SUMEXP
    H_MERGE                # + id of a Reduce kernel - H_SUM: joins two partial results; Merge
    H_SOFTMAX = H_MERGE + H_MERGE - H_SUM    # Along kernels
    H_LOG_SOFTMAX
    H_SOFTMAX_BACKWARD
    H_LOG_SOFTMAX_BACKWARD
    H_LAYER_NORM           # NormRows, of group along
    H_LAYER_NORM_INPUT
    H_LAYER_NORM_WEIGHT
    H_LAYER_NORM_ALL
    H_CUMSUM               # Along kernels too, of group scan
    H_CUMPROD
    H_CUMMAX
    H_CUMMIN
    H_LOGCUMSUMEXP
    H_RECURRENCE
    H_DOT                  # Loop: p[0] points to the accumulator
    H_MM                   # MatMul, integer types
    H_ADD_AT               # Loop: dst[i] += src[i]
    H_MODULUS              # Loop: absolute values of complex numbers
    H_UPDATE               # + ADD, MUL, MIN, MAX of kernels/update.pxi; Update
    H_DIVIDE_COUNT = H_UPDATE + 4            # Loop: y /= a count, int64
    H_SCATTER_ADD          # Scatter; real types
    H_MT_RENEW             # the state of the random generator; column float32, as the next two
    H_UNIT_FLOATS
    H_NORMAL_PAIRS
    H_LOAD_KEYS            # sorting, column = integer of the key's width
    H_LOAD_BELOW
    H_STORE_KEYS
    H_SORT_ITEMS
    H_COUNT_DIGITS
    H_MOVE_DIGITS
    H_SELECT_ITEMS
    H_SEARCH
    H_SORT_ROWS
    H_WINDOW               # convolutions, of group slide; column float32 or float64, as all that follow
    H_PLACE
    H_TURN
    H_SLIDE
    H_OUTER
    H_FEW
    H_TOP                  # sliding maxima
    H_SCALE                # normalisation, of group batch_norm
    H_SCALE_SUMS
    H_SCALE_BACK
    H_RECURRENT_PANEL      # recurrent layers: see _recurrent.pxi
    H_RECURRENT_SCRATCH
    H_RECURRENT_PACK
    H_RECURRENT_FORWARD
    H_RECURRENT_BACKWARD
    H_WEIGH                # Weigh, WeighEnd, WeighBack, RowsInner of attention
    H_WEIGH_END
    H_WEIGH_BACK
    H_ROWS_INNER
    N_HAND

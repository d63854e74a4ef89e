# What an update loop is told: one Job for each parameter, one rule for all of them. Structs only; there is no module.
# May cimport: libc only. Invariant: the pointers of a Job address `n` elements each, laid out in the same order.
from libc.stdint cimport int64_t

cdef enum:                 # rows of the table of loops; a row has one loop for float and one for double
    SGD_UPDATE = 0
    ADAM_UPDATE = 1
    RULE_UPDATE = 2        # all others, by the kind in their rule
    N_UPDATES = 3

cdef enum:                 # kinds of Rule, in the order of _step.KINDS
    ADADELTA
    ADAGRAD
    ADAMAX
    ASGD
    NADAM
    RADAM
    RMSPROP
    RPROP

cdef struct Job:
    char* p                # the parameter
    const char* g          # its gradient
    char* s[3]             # its state: SGD: momentum; Adam: means of gradient and square, largest mean of squares
    int64_t n
    double rate            # Adam: lr / (1 - beta1**t); for the other rules see fill_job
    double root            # Adam: sqrt(1 - beta2**t)
    double extra
    bint fresh             # SGD: the momentum is not there yet

cdef struct SgdRule:
    double lr, momentum, dampening, weight_decay
    bint nesterov, maximize

cdef struct AdamRule:
    double lr, beta1, beta2, eps, weight_decay
    bint decoupled, amsgrad, maximize

cdef struct Rule:          # of the kinds above; what they do not have is 0
    int kind
    double lr, keep, keep_square, eps, weight_decay, momentum, low, high
    bint decoupled, maximize, centered

# Elements [start, start + n) of one job
ctypedef void (*Update)(const Job* job, int64_t start, int64_t n, const void* rule) noexcept nogil

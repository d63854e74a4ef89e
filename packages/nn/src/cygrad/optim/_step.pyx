# One optimizer step: all parameters of a group in one pass over memory, without tensor operations in between.
# May cimport: autograd, storage. Invariant: every check is made before the first parameter changes.
from importlib import import_module

from cython.parallel cimport prange
from libc.math cimport pow, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc, qsort

from cygrad.autograd._core cimport Tensor, adopt, before_write, bump, optimizer_op, tensor_new
from cygrad.optim._job cimport (
    ADAGRAD, ADAM_UPDATE, ADAMAX, ASGD, N_UPDATES, NADAM, RADAM, RULE_UPDATE, SGD_UPDATE, AdamRule, Job, Rule, SgdRule, Update)
from cygrad.storage.core cimport (
    CONTIGUOUS, DENSE, FLOAT32, FLOAT64, GRAIN, Meta, device_object, dtype_object, has_internal_overlap, may_share_memory,
    meta_same_shape, num_threads, shape_tuple)
from cygrad.storage.ops cimport copy_into, fill_number, fused_step, item, op_clone

import cygrad
from cygrad.storage import dispatch

include "abi.pxi"

check_storage_abi("cygrad.optim._step")

cdef extern from *:
    const unsigned long long CYGRAD_AUTOGRAD_ABI

from cygrad.autograd import _core

if _core.abi() != CYGRAD_AUTOGRAD_ABI:
    raise ImportError(f"cygrad.optim._step was compiled for cygrad-autograd with ABI {CYGRAD_AUTOGRAD_ABI:016x}, but the one that is installed "
                      f"has ABI {_core.abi():016x}: install all cygrad packages of one version together")

cdef enum:
    CHUNK = 16384          # elements that one thread takes at a time; fixed, so that results do not depend on threads

cdef struct Chunk:
    int job
    int64_t start, n

cdef struct Block:
    size_t start, stop

ctypedef void (*Register)(void** table) noexcept

cdef void* updates[2 * N_UPDATES]
(<Register><size_t>import_module(f"cygrad.optim.kernels._k_step_{dispatch.isa()}").register_address())(updates)


cdef class Batch:
    # owned by one call of sgd() or adam(); the jobs of all its parameters of both dtypes
    cdef Job* jobs
    cdef char* wide            # per job: 1 for double
    cdef int* devices          # per job: where its tensors are, as Meta.device
    cdef int n_jobs, capacity
    cdef list written          # tensors that change
    cdef list staged           # (tensor, contiguous copy) to be copied back
    cdef list alive            # copies that the jobs point into
    cdef list held             # (tensor, its storage) of all others that they point into

    def __cinit__(self, int capacity):
        self.jobs = <Job*>malloc((capacity + 1) * sizeof(Job))
        self.wide = <char*>malloc(capacity + 1)
        self.devices = <int*>malloc((capacity + 1) * sizeof(int))
        if self.jobs == NULL or self.wide == NULL or self.devices == NULL:
            raise MemoryError
        self.capacity = capacity
        self.written = []
        self.staged = []
        self.alive = []
        self.held = []

    def __dealloc__(self):
        free(self.jobs)
        free(self.wide)
        free(self.devices)

    cdef Job* add(self, Tensor p, Tensor g, tuple states) except NULL:
        """The job of one parameter with its gradient and up to three states. Raises before anything is written."""
        cdef Job* job = &self.jobs[self.n_jobs]
        cdef Tensor s
        cdef int i = 0
        if self.n_jobs > self.capacity:          # a state of the user's own class may do anything when it is read
            raise RuntimeError("the list of parameters grew while an optimizer step read it")
        if p.m.dtype != FLOAT32 and p.m.dtype != FLOAT64:
            raise RuntimeError(f"an optimizer step needs float32 or float64 parameters, got {dtype_object(p.m.dtype)}")
        check_writable(p)
        check_like(p, g, "gradient")
        cdef bint flat
        if shifted(p, g):
            g = copy_of(g)
            self.alive.append(g)
        flat = same_order(&p.m, &g.m)
        for s in states:
            check_like(p, s, "state")
            check_writable(s)
            if may_share_memory(&p.m, &s.m):
                raise RuntimeError("an optimizer step cannot write to a parameter whose state lies in the "
                                   f"parameter's own memory: shape {tuple(shape_tuple(&p.m))}")
            flat = flat and same_order(&p.m, &s.m)
        job.p = self.place(p, flat, True)
        job.g = self.place(g, flat, False)
        job.s[0] = job.s[1] = job.s[2] = NULL
        for s in states:
            job.s[i] = self.place(s, flat, True)
            i += 1
        job.n = p.m.numel
        job.fresh = False
        self.wide[self.n_jobs] = p.m.dtype == FLOAT64
        self.devices[self.n_jobs] = p.m.device
        self.n_jobs += 1
        return job

    cdef char* place(self, Tensor t, bint flat, bint written) except? NULL:
        """Memory that holds t's elements in the order that the job uses: its own, or that of a row-major copy."""
        if written:
            self.written.append(t)
        self.held.append((t, t.mem))
        if flat or t.m.flags & CONTIGUOUS:
            return t.m.data
        cdef Tensor copy = copy_of(t)
        self.alive.append(copy)
        if written:
            self.staged.append((t, copy))
        return copy.m.data

    cdef int run(self, int rule_id, const void* rule) except -1:
        cdef Tensor t, copy
        cdef int first = 0, last, device
        for t in self.written:
            before_write(t)
        self.check_memory()
        while first < self.n_jobs:
            last = self.gather(first)
            device = self.devices[first]
            try:
                if device:
                    self.run_away(first, last - first, rule_id, rule)
                else:
                    self.run_here(first, last - first, rule_id, rule)
                for t, copy in self.staged:
                    if t.m.device == device:
                        copy_into(&t.m, &copy.m)
            finally:                       # where a device fails, what was written there and before it counts as written
                for t in self.written:
                    if t.m.device == device:
                        bump(t, optimizer_op())
            first = last
        return 0

    cdef int gather(self, int first) noexcept:
        """Brings jobs of the device of job number `first` together, in their order; returns where they end."""
        cdef int j, k, last = first + 1
        cdef Job job
        cdef char wide
        cdef int device = self.devices[first]
        while last < self.n_jobs and self.devices[last] == device:
            last += 1
        for j in range(last + 1, self.n_jobs):
            if self.devices[j] != device:
                continue
            job, wide = self.jobs[j], self.wide[j]
            for k in range(j, last, -1):
                self.jobs[k], self.wide[k], self.devices[k] = self.jobs[k - 1], self.wide[k - 1], self.devices[k - 1]
            self.jobs[last], self.wide[last], self.devices[last] = job, wide, device
            last += 1
        return last

    cdef int run_away(self, int first, int count, int rule_id, const void* rule) except -1:
        """Jobs of one device: all in one pass, or one after another where they lie in each other's memory."""
        cdef int j
        cdef int device = self.devices[first]
        if not self.shares(first, count):
            return fused_step(device, self.jobs + first, self.wide + first, count, rule_id, rule)
        for j in range(first, first + count):
            fused_step(device, self.jobs + j, self.wide + j, 1, rule_id, rule)
        return 0

    cdef int run_here(self, int first, int count, int rule_id, const void* rule) except -1:
        cdef int64_t total = 0
        cdef int j
        for j in range(first, first + count):
            total += self.jobs[j].n
        if total >= GRAIN and not self.shares(first, count):
            return self.run_threads(first, count, rule_id, rule)
        for j in range(first, first + count):
            run_chunk(Chunk(j, 0, self.jobs[j].n), self.jobs, self.wide, rule_id, rule)
        return 0

    cdef int check_memory(self) except -1:
        """Whether all tensors still have the memory that the jobs point into: a state of the user's own class, or who watches
        writes, may have given them another."""
        cdef Tensor t
        for t, memory in self.held:
            if t.mem is not memory:
                raise RuntimeError(f"the memory of a tensor of shape {tuple(shape_tuple(&t.m))} was replaced (.data, set_()) while an "
                                   "optimizer step was reading parameters and states; nothing was changed")
        return 0

    cdef bint shares(self, int first, int count) except -1:
        """Whether parameters lie in each other's memory: then they are updated one after the other."""
        cdef int j, k, n = 0
        cdef const char* at
        cdef size_t end = 0
        cdef bint found = False
        cdef Block* blocks = <Block*>malloc(5 * count * sizeof(Block))
        if blocks == NULL:
            raise MemoryError
        for j in range(first, first + count):
            if self.jobs[j].n == 0:
                continue
            for k in range(5):
                at = self.jobs[j].p if k == 0 else self.jobs[j].g if k == 1 else self.jobs[j].s[k - 2]
                if at != NULL:
                    blocks[n] = Block(<size_t>at, <size_t>at + self.jobs[j].n * (8 if self.wide[j] else 4))
                    n += 1
        qsort(blocks, n, sizeof(Block), by_start)
        for j in range(n):
            found = found or blocks[j].start < end
            end = max(end, blocks[j].stop)
        free(blocks)
        return found

    cdef int run_threads(self, int first, int jobs, int rule_id, const void* rule) except -1:
        cdef int64_t k, at, count = 0
        cdef int j
        for j in range(first, first + jobs):
            count += (self.jobs[j].n + CHUNK - 1) // CHUNK
        cdef Chunk* chunks = <Chunk*>malloc(count * sizeof(Chunk))
        if chunks == NULL:
            raise MemoryError
        count = 0
        for j in range(first, first + jobs):
            at = 0
            while at < self.jobs[j].n:
                chunks[count] = Chunk(j, at, min(<int64_t>CHUNK, self.jobs[j].n - at))
                count += 1
                at += CHUNK
        cdef int threads = num_threads()         # 1 in a forked child, where a team would wait for ever
        for k in prange(count, nogil=True, num_threads=threads, schedule="static"):
            run_chunk(chunks[k], self.jobs, self.wide, rule_id, rule)
        free(chunks)
        return 0


cdef int by_start(const void* a, const void* b) noexcept nogil:
    return -1 if (<const Block*>a).start < (<const Block*>b).start else (<const Block*>a).start > (<const Block*>b).start


cdef void run_chunk(Chunk c, const Job* jobs, const char* wide, int rule_id, const void* rule) noexcept nogil:
    (<Update>updates[2 * rule_id + wide[c.job]])(&jobs[c.job], c.start, c.n, rule)


cdef bint same_order(const Meta* a, const Meta* b) noexcept:
    """Whether element number i in memory is the same element in both."""
    cdef int d
    if a.flags & b.flags & CONTIGUOUS:
        return True
    if not a.flags & b.flags & DENSE:
        return False
    for d in range(a.ndim):
        if a.sizes[d] != 1 and a.strides[d] != b.strides[d]:
            return False
    return True


cdef bint shifted(Tensor p, Tensor g) noexcept:
    """Whether g shares memory with p, but not element by element: p's first new values would be taken for gradients."""
    return may_share_memory(&p.m, &g.m) and not (p.m.data == g.m.data and same_order(&p.m, &g.m))


cdef Tensor copy_of(Tensor t):
    """A row-major copy without history."""
    cdef Tensor y = tensor_new()
    adopt(y, op_clone(&y.m, &t.m, t.m.dtype, True))
    return y


cdef int check_tensor(object t, str role) except -1:
    """The typed variables below take None too, whose fields must not be read."""
    if not isinstance(t, Tensor):
        raise TypeError(f"an optimizer step needs a Tensor as {role}, got {type(t).__name__}")
    return 0


cdef int check_like(Tensor p, Tensor t, str role) except -1:
    if t.m.dtype != p.m.dtype or not meta_same_shape(&t.m, &p.m):
        raise RuntimeError(
            f"the {role} of a parameter must be {dtype_object(p.m.dtype)} of shape {tuple(shape_tuple(&p.m))} like the "
            f"parameter, got {dtype_object(t.m.dtype)} of shape {tuple(shape_tuple(&t.m))}")
    if t.m.device != p.m.device:
        raise RuntimeError(f"the {role} of a parameter must be on its device, {device_object(p.m.device)}, got one on "
                           f"{device_object(t.m.device)}")
    return 0


cdef int check_writable(Tensor t) except -1:
    if t.mem.readonly:
        raise RuntimeError("an optimizer step cannot write to a tensor whose memory is read-only: clone() it first")
    if has_internal_overlap(&t.m):
        raise RuntimeError(
            f"an optimizer step cannot write to a tensor of shape {tuple(shape_tuple(&t.m))} in which several elements "
            "share memory: clone() it first")
    return 0


def sgd(list params, state, lr, momentum, dampening, weight_decay, bint nesterov, bint maximize):
    """Update parameters that have a gradient by SGD; `state` is the optimizer's."""
    cdef SgdRule rule = SgdRule(lr, momentum, dampening, weight_decay, nesterov, maximize)
    cdef Batch batch = Batch(len(params))
    cdef Tensor p, buffer
    cdef bint fresh
    cdef list created = []
    for each in params:
        check_tensor(each, "parameter")
        p = each
        if p.grad_ is None:
            continue
        buffer = None
        if rule.momentum != 0:
            own = state.get(p)
            buffer = None if own is None else own.get("momentum_buffer")
        fresh = rule.momentum != 0 and buffer is None
        if fresh:
            buffer = cygrad.empty_like(p)
            created.append((p, buffer))
        batch.add(p, p.grad_, () if buffer is None else (buffer,)).fresh = fresh
    batch.run(SGD_UPDATE, &rule)
    for p, buffer in created:                # when all is well: before, they hold nothing
        state.setdefault(p, {})["momentum_buffer"] = buffer


def adam(list params, state, lr, beta1, beta2, eps, weight_decay, bint decoupled, bint amsgrad, bint maximize):
    """Update parameters that have a gradient by Adam; `state` is the optimizer's."""
    cdef AdamRule rule = AdamRule(lr, beta1, beta2, eps, weight_decay, decoupled, amsgrad, maximize)
    cdef Batch batch = Batch(len(params))
    cdef Tensor p, step
    cdef Job* job
    cdef double t
    cdef tuple states
    cdef list created = [], counted = []
    for each in params:
        check_tensor(each, "parameter")
        p = each
        if p.grad_ is None:
            continue
        own = state.get(p)
        if not own:
            own = {"step": cygrad.tensor(0.0, dtype=cygrad.float32), "exp_avg": cygrad.zeros_like(p),
                   "exp_avg_sq": cygrad.zeros_like(p)}
            created.append((p, own))
        if amsgrad and "max_exp_avg_sq" not in own:
            own["max_exp_avg_sq"] = cygrad.zeros_like(p)
        states = (own["exp_avg"], own["exp_avg_sq"])
        if amsgrad:
            states = (*states, own["max_exp_avg_sq"])
        for each in (*states, own["step"]):
            check_tensor(each, "state")
        step = own["step"]
        check_writable(step)
        if step.m.numel != 1:
            raise RuntimeError("the step counter of a parameter must have one element, got shape "
                               f"{tuple(shape_tuple(&step.m))}")
        t = item(&step.m) + 1
        job = batch.add(p, p.grad_, states)
        counted.append((step, t))
        job.rate = rule.lr / (1 - pow(rule.beta1, t))
        job.root = sqrt(1 - pow(rule.beta2, t))
    batch.run(ADAM_UPDATE, &rule)
    for p, own in created:
        state[p] = own
    for step, t in counted:
        fill_number(&step.m, t)
        bump(step, optimizer_op())


# ---- all other rules

KINDS = ("adadelta", "adagrad", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop")


cdef double number_of(object own, str name) except? -1:
    """The one element of a state that is a number."""
    cdef Tensor t
    check_tensor(own[name], "state")
    t = own[name]
    check_writable(t)
    if t.m.numel != 1:
        raise RuntimeError(f"{name} of a parameter must have one element, got shape {tuple(shape_tuple(&t.m))}")
    return item(&t.m)


cdef int fill_job(Job* job, const Rule* r, double t, object own, dict options, dict after) except -1:
    """What a rule computes once for each parameter, for step number t; `after` gets numbers of the state to be written."""
    cdef double mu, following, product, root, variance, long_run
    job.rate = job.root = job.extra = 0
    if r.kind == ADAGRAD:
        job.rate = r.lr / (1 + (t - 1) * <double>options["lr_decay"])
    elif r.kind == ADAMAX:
        job.rate = r.lr / (1 - pow(r.keep, t))
    elif r.kind == ASGD:
        job.rate, job.extra = number_of(own, "eta"), number_of(own, "mu")
        job.root = 1 - <double>options["lambd"] * job.rate
        after["eta"] = r.lr / pow(1 + <double>options["lambd"] * r.lr * t, <double>options["alpha"])
        after["mu"] = 1 / max(1.0, t - <double>options["t0"])
    elif r.kind == NADAM:
        mu = r.keep * (1 - 0.5 * pow(0.96, t * <double>options["momentum_decay"]))
        following = r.keep * (1 - 0.5 * pow(0.96, (t + 1) * <double>options["momentum_decay"]))
        product = number_of(own, "mu_product") * mu
        if (<Tensor>own["mu_product"]).m.dtype == FLOAT32:      # a step uses the number that it leaves behind
            product = <float>(<float>number_of(own, "mu_product") * <float>mu)
        after["mu_product"] = product
        job.root = 1 - pow(r.keep_square, t)
        job.rate = r.lr * (1 - mu) / (1 - product)
        job.extra = r.lr * following / (1 - product * following)
    elif r.kind == RADAM:
        root = 1 - pow(r.keep_square, t)
        long_run = 2 / (1 - r.keep_square) - 1
        variance = long_run - 2 * t * pow(r.keep_square, t) / root
        job.rate = r.lr / (1 - pow(r.keep, t))
        if variance > 5:
            job.root = sqrt(root) * sqrt((variance - 4) * (variance - 2) * long_run / ((long_run - 4) * (long_run - 2) * variance))
    return 0


def step(int kind, list params, state, make, tuple names, dict options):
    """Update parameters that have a gradient by one of KINDS.

    Parameters
    ----------
    kind : int
        Place in KINDS.
    params : list of Tensor
    state : mapping
        The optimizer's, by parameter: ``"step"`` and tensors like the parameter, under `names`.
    make : callable
        Makes the state of a parameter.
    names : tuple of str
    options : dict
        Of the group: ``lr``, ``keep``, ``keep_square``, ``eps``, ``weight_decay``, ``momentum``, ``low``, ``high``,
        ``decoupled``, ``maximize``, ``centered``, where the rule has them, and what `fill_job` reads.
    """
    cdef Rule rule
    cdef Batch batch = Batch(len(params))
    cdef Tensor p, counter
    cdef double t
    cdef list created = [], written = []
    cdef dict after
    rule.kind = kind
    rule.lr, rule.eps, rule.weight_decay = options["lr"], options.get("eps", 0), options.get("weight_decay", 0)
    rule.keep, rule.keep_square = options.get("keep", 0), options.get("keep_square", 0)
    rule.momentum, rule.low, rule.high = options.get("momentum", 0), options.get("low", 0), options.get("high", 0)
    rule.decoupled, rule.maximize = options.get("decoupled", False), options.get("maximize", False)
    rule.centered = options.get("centered", False)
    for each in params:
        check_tensor(each, "parameter")
        p = each
        if p.grad_ is None:
            continue
        own = state.get(p)
        if not own:
            own = make(p)
            created.append((p, own))
        t = number_of(own, "step") + 1
        states = tuple([own[name] for name in names])
        for each in states:
            check_tensor(each, "state")
        after = {"step": t}
        fill_job(batch.add(p, p.grad_, states), &rule, t, own, options, after)
        written.append((own, after))
    batch.run(RULE_UPDATE, &rule)
    for p, own in created:
        state[p] = own
    for own, after in written:
        for name, value in after.items():
            counter = own[name]
            fill_number(&counter.m, value)
            bump(counter, optimizer_op())

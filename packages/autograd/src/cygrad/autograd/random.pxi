# random: tensors of random numbers. May use: construct, indexing.
# All checks come before the first draw: a refused call leaves the generator where it was.

cdef object generator_of(object g, str name):
    if g is None:
        return ops.default_generator()
    if not isinstance(g, ops.Generator):
        wrong_type(g, name, "generator", "Generator")
    return g


# ---- in vmap

cdef Batch drawn_levels(str name):
    """The running levels whose examples get numbers of their own; None where there are none. RuntimeError where drawing is refused."""
    cdef Level level = current_level()
    cdef list own = []
    while level is not None:
        if level.randomness == "error":
            raise RuntimeError(f"vmap: {name} draws random numbers, which vmap's randomness='error' (the default) refuses. Use "
                               "randomness='same' for the same numbers in all examples, or 'different' for others in each")
        if level.randomness == "different":
            own.append(level)
        level = level.outer
    return batch_with(tuple(reversed(own))) if own else None


cdef Tensor place_to_draw(Tensor x, str name):
    """A plain tensor to draw into for x: x itself, all of its examples, or where some share their numbers a new one for `drawn_to`."""
    cdef Batch own, over
    cdef Dims d
    cdef int i
    if not x.flags & BATCHED and cyg_level == NULL:
        return x
    over = drawn_levels(name)
    own = batch_of(x) if x.flags & BATCHED else None
    if own is None and over is None:
        return x
    if over is not None:
        for level in over.levels:
            if own is None or level not in own.levels or (own.steps[own.levels.index(level)] == 0 and level.size > 1):
                raise RuntimeError(f"vmap: {name} with randomness='different' would write other numbers for each example into a tensor "
                                   f"of shape {list(shape_tuple(&x.m))} that is the same for all of them")
    if over is not None and own.n == over.n:
        return front(x, own, 0)
    d.n = (over.n if over is not None else 0) + x.m.ndim
    for i in range(d.n - x.m.ndim):
        d.v[i] = (<Level>over.levels[i]).size
    memcpy(d.v + d.n - x.m.ndim, x.m.sizes, x.m.ndim * sizeof(int64_t))
    return filled(&d, None, x.m.dtype, x.m.device)


cdef int drawn_to(Tensor x, Tensor place, str name) except -1:
    """Brings numbers drawn into another place than x's to x."""
    if place.mem is not x.mem:
        over = drawn_levels(name)
        batch_copy_into(x, place if over is None else under(place, over, 0))
    return 0


def room_to_draw(Tensor like not None, str name, bint varies=False, bint rows=False):
    """An uninitialised tensor of the shape and dtype of `like`, with room for the numbers that each example of vmap is to get.

    rows: in row-major order, whatever the layout of `like`.
    varies: the distribution depends on the values of `like`, so that its examples cannot share their numbers.
    """
    cdef Batch over
    memory_format = contiguous_format if rows else None
    if cyg_level == NULL:
        return empty_like(alias_of(like), memory_format=memory_format)
    over = drawn_levels(name)
    if varies and like.flags & BATCHED:
        own = varying_levels(like)
        for level in own:
            if (<Level>level).randomness == "same" and is_running(level):
                raise RuntimeError(f"vmap: {name} with randomness='same' cannot draw the same numbers from distributions that differ "
                                   "between the examples; use randomness='different'")
        own |= set(over.levels) if over is not None else set()
        over = batch_with(tuple(sorted(own, key=level_id))) if own else None
    return spread_new(empty_like(first_of(like), memory_format=memory_format), over)


cdef set varying_levels(Tensor x):
    """The levels in which a batched x is not alike."""
    cdef Batch b = batch_of(x)
    cdef unsigned int alike = alike_levels(b, (x,))
    return {b.levels[i] for i in range(b.n) if not alike >> i & 1}


def spread_to_draw(Tensor x not None, str name):
    """Parameters of distributions as they are; in vmap without history and with room for each example that gets numbers of its own."""
    if cyg_level == NULL:
        return x
    x = alias_of(x)
    return op_add(x, room_to_draw(x, name, True).fill_(0))


cdef bint is_running(Level level):
    cdef Level one = current_level()
    while one is not None and one is not level:
        one = one.outer
    return one is level


# ---- drawing into a tensor

cdef Tensor begin_draw(Tensor x):
    """Checks that x may be overwritten; what it was, if that is part of a graph."""
    cdef bint recorded = records(x)
    check_in_place(x, recorded and needs(x))
    return history_alias(x, False) if recorded else None


cdef Tensor end_draw(Tensor x, Tensor before, str name):
    """x counts as written by `name`; what was there gets no gradient."""
    cdef Node n
    bump(x, named_write(name))
    if before is not None:
        n = node_new(&OPS[OP_FILL])
        set_edge(n, 0, before)
        rebase(x, n)
    return x


cdef int draw(Meta* x, int kind, double a, double b, ops.Generator g) except -1:
    """Numbers of a distribution; the parts of complex ones are independent."""
    cdef Meta parts
    cdef Dims sizes, strides
    cdef int d
    if x.dtype != COMPLEX64 and x.dtype != COMPLEX128:
        if kind == ops.UNIFORM:
            return ops.uniform_into(x, a, b, g)
        if kind == ops.NORMAL:
            return ops.normal_into(x, a, b, g)
        if kind == ops.BERNOULLI:
            return ops.bernoulli_into(x, a, g)
        return ops.draw_kind_into(x, kind, a, b, g)
    if kind != ops.UNIFORM and kind != ops.NORMAL or x.ndim == MAXDIM:
        raise NotImplementedError(f"random numbers of this distribution are not there for {dtype_object(x.dtype)}")
    for d in range(x.ndim):
        sizes.v[d], strides.v[d] = x.sizes[d], 2 * x.strides[d]
    sizes.v[x.ndim], strides.v[x.ndim] = 2, 1
    memset(&parts, 0, sizeof(Meta))
    parts.device = x.device
    meta_strided(&parts, x.ndim + 1, sizes.v, strides.v, FLOAT32 if x.dtype == COMPLEX64 else FLOAT64, x.data)
    try:
        return draw(&parts, kind, a, b / 1.4142135623730951 if kind == ops.NORMAL else b, g)
    finally:
        meta_clear(&parts)


cdef Tensor drawn_in_place(Tensor x, int kind, double a, double b, object generator, str name):
    cdef ops.Generator g = generator_of(generator, name)
    cdef Tensor place = place_to_draw(x, name), before = begin_draw(x)
    draw(&place.m, kind, a, b, g)
    drawn_to(x, place, name)
    return end_draw(x, before, name)


cdef int check_continuous(Tensor x, str what) except -1:
    if not is_float(x.m.dtype):
        raise RuntimeError(f"{what} distribution is a continuous probability distribution. dtype must be a floating "
                           f"point but you specified {dtype_object(x.m.dtype)}")
    return 0


cdef Tensor coins(Tensor x, Tensor p, object generator):
    """x.bernoulli_(p) for a tensor of probabilities: numbers of p's precision, drawn in x's order, are below p."""
    cdef ops.Generator g = generator_of(generator, "bernoulli_")
    cdef Tensor u = tensor_new(), before, place
    cdef Dims d
    cdef int code = p.m.dtype
    if not is_float(code):
        raise NotImplementedError(f"bernoulli_ is not implemented for probabilities of {dtype_object(code)}")
    d.n = x.m.ndim
    memcpy(d.v, x.m.sizes, d.n * sizeof(int64_t))
    p = op_expand_to(p, &d)
    valid = op_logical_and(op_ge(p, like_number(0, p)), op_le(p, like_number(1, p)))
    if not everywhere(valid):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false: bernoulli_ takes probabilities")
    before = begin_draw(x)
    meta_dense_like(&u.m, &x.m, code if code == FLOAT64 else FLOAT32)
    adopt(u, meta_storage(&u.m))
    u = beside(u, x)
    place = place_to_draw(u, "bernoulli_")
    ops.uniform_into(&place.m, 0, 1, g)
    drawn_to(u, place, "bernoulli_")
    u = op_lt(u, p)
    if x.flags & BATCHED or u.flags & BATCHED:
        check_levels(x, (u,), "bernoulli_")
        batch_copy_into(x, u)
    else:
        ops.copy_into(&x.m, &u.m)
    return end_draw(x, before, "bernoulli_")


cdef Tensor integers_in_place(Tensor x, object low, object high, bint to_the_end, object generator, str name):
    """Integers of [low, high), or from low on (to_the_end); from 0 on when both are None."""
    cdef ops.Generator g = generator_of(generator, name)
    cdef int64_t first = 0 if low is None else as_index(low, name, "from")
    cdef int64_t end = 0 if high is None else as_index(high, name, "to")
    cdef Tensor before, place
    if high is not None and first >= end:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={first} >= to={end}")
    place = place_to_draw(x, name)
    before = begin_draw(x)
    if high is not None:
        ops.random_into(&place.m, first, end, g)
    elif to_the_end:
        ops.random_from_into(&place.m, first, g)
    else:
        ops.random_full_into(&place.m, g)
    drawn_to(x, place, name)
    return end_draw(x, before, name)


# ---- new tensors

cdef Tensor fresh_or_out(const Dims* d, int code, int device, object out, str name):
    """An unwritten tensor, or `out`, of this dtype, in the shape d."""
    cdef Tensor o
    cdef Meta shape
    if out is None and cyg_level != NULL:
        return spread_new(filled(d, None, code, device), drawn_levels(name))
    if out is None:
        return filled(d, None, code, device)
    o = <Tensor>out
    check_in_place(o, False)
    rowmajor_probe(&shape, d, code)
    try:
        if not meta_same_shape(&shape, &o.m):
            resize(o, &shape)
    finally:
        meta_clear(&shape)
    return o


cdef Tensor new_drawn(const Dims* d, int kind, double a, double b, object generator, object out, object dtype,
                      object device, object requires_grad, str name):
    cdef int code = code_beside(dtype, out, default_dtype())
    cdef ops.Generator g = generator_of(generator, name)
    cdef int on = check_new(device, requires_grad, code, name)
    cdef Tensor y = fresh_or_out(d, code, on >> 1, out, name), place = place_to_draw(y, name)
    draw(&place.m, kind, a, b, g)
    drawn_to(y, place, name)
    return finish_new(y, on) if out is None else end_draw(y, None, name + "(out=)")


def rand(*size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Uniform numbers in [0, 1)."""
    cdef Dims d
    parse_shape(size, &d, "rand")
    pin = check_layout(layout, pin_memory, "rand")
    return pin_new(new_drawn(&d, ops.UNIFORM, 0, 1, generator, out, dtype, device, requires_grad, "rand"), pin and out is None)


def randn(*size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Normal numbers of mean 0 and variance 1."""
    cdef Dims d
    parse_shape(size, &d, "randn")
    pin = check_layout(layout, pin_memory, "randn")
    return pin_new(new_drawn(&d, ops.NORMAL, 0, 1, generator, out, dtype, device, requires_grad, "randn"), pin and out is None)


def normal_of_size(mean, std, size, *, generator=None, out=None, dtype=None, layout=None, device=None,
                   requires_grad=False, pin_memory=False):
    """The form of `normal` that takes numbers and a shape."""
    cdef Dims d
    cdef double middle = as_number(mean, "normal", "mean"), width = as_number(std, "normal", "std")
    parse_dims(size, &d, "normal", "size")
    pin = check_layout(layout, pin_memory, "normal")
    if not width >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return pin_new(new_drawn(&d, ops.NORMAL, middle, width, generator, out, dtype, device, requires_grad, "normal"), pin and out is None)


def rand_like(input=REQUIRED, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False,
              pin_memory=False, memory_format=None):
    """Uniform numbers in [0, 1) in the shape of `input`."""
    cdef ops.Generator g = generator_of(generator, "rand_like")
    cdef Tensor y, place
    pin = check_layout(layout, pin_memory, "rand_like")
    y = like_to_draw(input, dtype, device, requires_grad, "rand_like", memory_format)
    place = place_to_draw(y, "rand_like")
    draw(&place.m, ops.UNIFORM, 0, 1, g)
    return pin_new(y, pin)


def randn_like(input=REQUIRED, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False,
               pin_memory=False, memory_format=None):
    """Normal numbers of mean 0 and variance 1 in the shape of `input`."""
    cdef ops.Generator g = generator_of(generator, "randn_like")
    cdef Tensor y, place
    pin = check_layout(layout, pin_memory, "randn_like")
    y = like_to_draw(input, dtype, device, requires_grad, "randn_like", memory_format)
    place = place_to_draw(y, "randn_like")
    draw(&place.m, ops.NORMAL, 0, 1, g)
    return pin_new(y, pin)


cdef Tensor like_to_draw(object input, object dtype, object device, object requires_grad, str name, object memory_format):
    """An unwritten tensor of the shape of `input`, with room for each example of vmap that gets numbers of its own."""
    cdef Tensor x = as_tensor_arg(input, name, "input"), y
    if cyg_level != NULL:
        x = first_of(x)
    y = like(x, None, dtype, device, requires_grad, name, memory_format)
    return y if cyg_level == NULL else finish_new(spread_new(alias_of(y), drawn_levels(name)), y.m.device << 1 | needs(y))


cdef int check_span(object low, object high, str name) except -1:
    cdef int64_t first = as_index(low, name, "low"), end = as_index(high, name, "high")
    if first >= end:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return 0


def randint(low=REQUIRED, high=None, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None,
            requires_grad=False, pin_memory=False):
    """Integers in [low, high); ``randint(high, size)`` starts at 0."""
    cdef Dims d
    cdef Tensor y, place
    cdef int code = code_beside(dtype, out, INT64)
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    elif low is REQUIRED:
        low = 0
    parse_ints(size, &d, "randint", "size")
    check_span(low, high, "randint")
    pin = check_layout(layout, pin_memory, "randint")
    on = check_new(device, requires_grad, code, "randint")
    g = generator_of(generator, "randint")
    y = fresh_or_out(&d, code, on >> 1, out, "randint")
    place = place_to_draw(y, "randint")
    ops.random_into(&place.m, as_index(low, "randint", "low"), as_index(high, "randint", "high"), g)
    drawn_to(y, place, "randint")
    return pin_new(finish_new(y, on), pin) if out is None else end_draw(y, None, "randint(out=)")


def randint_like(input=REQUIRED, low=REQUIRED, high=None, *, generator=None, dtype=None, layout=None, device=None,
                 requires_grad=False, pin_memory=False, memory_format=None):
    """Integers in [low, high), or in [0, low), in the shape of `input`."""
    cdef Tensor y, place
    if low is REQUIRED and high is not None:
        low = 0
    elif high is None:
        low, high = 0, low
    check_span(low, high, "randint_like")
    pin = check_layout(layout, pin_memory, "randint_like")
    g = generator_of(generator, "randint_like")
    y = like_to_draw(input, dtype, device, requires_grad, "randint_like", memory_format)
    place = place_to_draw(y, "randint_like")
    ops.random_into(&place.m, as_index(low, "randint_like", "low"), as_index(high, "randint_like", "high"), g)
    return pin_new(y, pin)


def randperm(n=REQUIRED, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False,
             pin_memory=False):
    """A random permutation of 0 .. n - 1."""
    cdef Tensor y
    cdef Batch over
    cdef int64_t length = as_index(n, "randperm", "n")
    cdef int code = code_beside(dtype, out, INT64)
    if length < 0:
        raise RuntimeError(f"n must be non-negative, got {length}")
    pin = check_layout(layout, pin_memory, "randperm")
    on = check_new(device, requires_grad, code, "randperm")
    if cyg_level != NULL and (over := drawn_levels("randperm")) is not None:
        y = stack_examples([drawn_order(length, code, on >> 1, generator) for _ in range(examples(over) or 1)], over)
    else:
        y = drawn_order(length, code, on >> 1, generator)
    return finish(pin_new(finish_new(y, on), pin), out)


cdef Tensor drawn_order(int64_t length, int code, int device, object generator):
    cdef Tensor y = tensor_new()
    y.m.device = device
    adopt(y, ops.op_randperm(&y.m, length, code, generator_of(generator, "randperm")))
    return y


def drawn_places(Tensor weights, count, replacement_of_single, generator):
    """For `multinomial`: `count` places a row, with replacement; weights are contiguous float64."""
    cdef Tensor y = tensor_new(), whole
    cdef Dims d
    if weights.flags & BATCHED:
        whole = front(op_contiguous(weights), batch_of(weights), 0)
        shape = tuple(shape_tuple(&whole.m))
        dims_from((-1, shape[len(shape) - 1]), &d)
        y = drawn_places(op_contiguous(op_reshape(whole, &d)), count, replacement_of_single, generator)
        return under(y.view((*shape[:len(shape) - 1], count)), batch_of(weights), 0)
    adopt(y, ops.op_multinomial(&y.m, &weights.m, count, replacement_of_single, generator_of(generator, "multinomial")))
    return y


def drawn_by(Tensor a, Tensor p, generator, str name):
    """Numbers of the distribution `name`: poisson of rates a, standard_gamma of shapes a, binomial of a trials and probabilities p;
    all are contiguous float64."""
    cdef Tensor y = tensor_new()
    cdef Batch over = joint(a, p, None)
    if over is not None:
        return under(drawn_by(op_contiguous(front(a, over, 0)), None if p is None else op_contiguous(front(p, over, 0)), generator,
                                  name), over, 0)
    kind = {"poisson": ops.BY_RATE, "binomial": ops.BY_TRIALS, "standard_gamma": ops.BY_SHAPE}[name]
    adopt(y, ops.op_drawn_by(&y.m, kind, &a.m, NULL if p is None else &p.m, generator_of(generator, name)))
    return y


# ---- seeds

def manual_seed(seed=REQUIRED):
    """Starts the default generator anew: the same seed gives the same numbers, and PyTorch's. Returns the generator.

    Anything that ``int()`` takes is a seed; ValueError or TypeError otherwise.
    """
    if seed is REQUIRED:
        wrong_type(seed, "manual_seed", "seed", "")
    try:
        number = int(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(f"manual_seed(): an integer is wanted, got {seed!r} of type {kind_of(seed)}") from None
    devices = _modules.get("cygrad.storage.cuda._cuda")
    if devices is not None:
        devices.seed_all(number)
    return ops.default_generator().manual_seed(number)

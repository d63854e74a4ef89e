# Pooling, patches and convolutions on a device; where cuDNN is not there or has no algorithm, a convolution is a product of the
# weight with patches of the image. May use: ops_copy, ops_linalg, ops_slide_cudnn, the geometry that devices share.

include "ops_common_conv.pxi"
include "ops_common_pool.pxi"

cdef extern from "kernels.h" nogil:
    int cyg_pool(int what, const void* plan, void* stream)
    int cyg_patches(int back, const void* plan, void* stream)
    enum:
        CYG_CONV_RESULT
        CYG_CONV_INPUT
        CYG_CONV_WEIGHT

cdef enum:                 # what conv_run does
    patch_part = 0
    patch_back_part = 1


cdef int pool_run(const Pool* p, int what) except -1 nogil:
    cdef void* stream
    with gil:
        enter(p.device, &stream)
        return ran(cyg_pool(what, p, stream), "pooling", p.dtype)


cdef int conv_run(const Conv* c, int back, int64_t parts) except -1:
    cdef void* stream
    enter(c.device, &stream)
    return ran(cyg_patches(back, c, stream), "patches", c.dtype)


# ---- convolutions

cdef int64_t items_at_once(const Conv* c) noexcept:
    """Items whose patches are in memory at a time: about 256 MB of them."""
    cdef int64_t each = c.groups * c.channels * c.taps * c.places * ITEMSIZE[c.dtype]
    return max(<int64_t>1, min(c.batch, (1 << 28) // max(each, <int64_t>1)))


cdef int conv_products(Conv* c, int which) except -1:
    """The result, or the gradient of the image or the weight (CYG_CONV_...): c.y, c.x and c.w have their memory.

    Of the weight every item adds to what is there.
    """
    cdef Conv part = c[0]
    cdef CygProduct p
    cdef void* stream
    cdef int64_t size = ITEMSIZE[c.dtype], first = 0, k = c.channels * c.taps, at_once = items_at_once(c), g, item
    cdef Storage room
    open_blas()
    room = None if c.plain else scratch(c.device, at_once * c.groups * k * c.places * size)
    enter(c.device, &stream)
    while first < c.batch:
        part.batch = min(at_once, c.batch - first)
        part.x = c.x + first * c.groups * c.channels * c.points * size
        part.y = room.ptr if not c.plain else part.x
        if which != CYG_CONV_INPUT and not c.plain:
            conv_run(&part, patch_part, 0)
        for g in range(c.groups):
            p.alpha, p.batches = 1, part.batch
            image = <size_t>(part.y + g * k * c.places * size)
            result = <size_t>(c.y + (first * c.groups + g) * c.filters * c.places * size)
            weight = <size_t>(c.w + g * c.filters * k * size)
            if which == CYG_CONV_RESULT:
                product_of(&p, result, weight, image, c.filters, c.places, k, k, 1, 0, c.places, 1, c.groups * k * c.places,
                           c.groups * c.filters * c.places, 1 if c.bias != NULL else 0)
            elif which == CYG_CONV_INPUT:
                product_of(&p, image, weight, result, k, c.places, c.filters, 1, k, 0, c.places, 1, c.groups * c.filters * c.places,
                           c.groups * k * c.places, 0)
            if which != CYG_CONV_WEIGHT:
                ran(cyg_product(c.dtype, &p, stream), "convolution", c.dtype)
                continue
            p.batches = 1
            for item in range(part.batch):
                product_of(&p, weight, result + item * c.groups * c.filters * c.places * size, image + item * c.groups * k * c.places * size,
                           c.filters, k, c.places, c.places, 1, 0, 1, c.places, 0, 0, 1)
                ran(cyg_product(c.dtype, &p, stream), "convolution", c.dtype)
        if which == CYG_CONV_INPUT and not c.plain:
            conv_run(&part, patch_back_part, 0)
        first += part.batch
    return 0


cdef void product_of(CygProduct* p, size_t y, size_t a, size_t b, int64_t m, int64_t n, int64_t k, int64_t a_row, int64_t a_column,
                     int64_t a_batch, int64_t b_row, int64_t b_column, int64_t b_batch, int64_t y_batch, double beta) noexcept:
    p.y, p.a, p.b, p.m, p.n, p.k = <char*>y, <const char*>a, <const char*>b, m, n, k
    p.a_row, p.a_column, p.a_batch, p.b_row, p.b_column, p.b_batch = a_row, a_column, a_batch, b_row, b_column, b_batch
    p.y_batch, p.beta = y_batch, beta


cdef int add_bias(Meta* y, Meta* bias) except -1:
    """Every channel of y becomes its bias."""
    cdef Meta shown
    cdef int64_t sizes[5]
    cdef int d
    for d in range(y.ndim):
        sizes[d] = bias.numel if d == 1 else 1
    memset(&shown, 0, sizeof(Meta))
    if view_reshape(&shown, bias, y.ndim, sizes) == 0:
        raise RuntimeError(f"convolution: a bias of one dimension is wanted, got shape {shape_text(bias)}")
    try:
        return copy_broadcast(y, &shown)
    finally:
        meta_clear(&shown)


cdef Storage convolved(Meta* y, Meta* x, Meta* w, Meta* bias, int n, const int64_t* v):
    cdef Conv c
    cdef Meta a, b
    cdef Storage keep_a, keep_b, s
    cdef int64_t sizes[5]
    cdef int i
    conv_geometry(&c, "convolution", w, x.ndim - 2, n, v)
    check_conv_input("convolution", &c, x, w)
    conv_sizes(&c, "convolution", x.sizes + 2, x.sizes[0])
    sizes[0], sizes[1] = c.batch, c.groups * c.filters
    for i in range(c.nd):
        sizes[2 + i] = c.out[3 - c.nd + i]
    if bias and (bias.dtype != x.dtype or bias.numel != sizes[1]):
        raise RuntimeError(f"convolution: a bias of {sizes[1]} elements of dtype {name_of(x.dtype)} is wanted, got {name_of(bias.dtype)} of "
                           f"shape {shape_text(bias)}")
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, x), rowmajor(&b, w)
        s = allocate_contig(y, c.nd + 2, sizes, x.dtype)
        c.x, c.w, c.y, c.bias, c.device = a.data, b.data, y.data, bias.data if bias else NULL, x.device
        if y.numel == 0 or c.channels * c.taps == 0:
            if bias:
                add_bias(y, bias)
            else:
                fill_double(y, 0)
        elif not by_cudnn(&c, CYG_CONV_RESULT, y, bias):
            if bias:
                add_bias(y, bias)
            conv_products(&c, CYG_CONV_RESULT)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return s


cdef Storage op_convolution(Meta* y, Meta* x, Meta* w, int n, const int64_t* v):
    return convolved(y, x, w, NULL, n, v)


cdef Storage op_convolution_bias(Meta* y, Meta* x, Meta* w, Meta* bias, int n, const int64_t* v):
    return convolved(y, x, w, bias, n, v)


cdef Storage op_convolution_input(Meta* y, Meta* g, Meta* w, int n, const int64_t* v, int m, const int64_t* size):
    cdef Conv c
    cdef Meta a, b
    cdef Storage keep_a, keep_b, s
    conv_geometry(&c, "convolution_input", w, m - 2, n, v)
    check_sizes_of_result(&c, "convolution_input", g, w, m, size)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, g), rowmajor(&b, w)
        s = allocate_contig(y, m, size, g.dtype)
        c.x, c.w, c.y, c.device = y.data, b.data, a.data, g.device
        if y.numel == 0 or g.numel == 0 or c.taps == 0:
            fill_double(y, 0)
        elif not by_cudnn(&c, CYG_CONV_INPUT, y, NULL):
            conv_products(&c, CYG_CONV_INPUT)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return s


cdef Storage op_convolution_weight(Meta* y, Meta* g, Meta* x, int n, const int64_t* v, int m, const int64_t* size):
    cdef Conv c
    cdef Meta a, b, shape
    cdef Storage keep_a, keep_b, s
    memset(&shape, 0, sizeof(Meta))
    meta_contig(&shape, m, size, g.dtype)
    try:
        conv_geometry(&c, "convolution_weight", &shape, x.ndim - 2, n, v)
        check_conv_input("convolution_weight", &c, x, &shape)
        check_sizes_of_result(&c, "convolution_weight", g, &shape, x.ndim, x.sizes)
    finally:
        meta_clear(&shape)
    memset(&a, 0, sizeof(Meta))
    memset(&b, 0, sizeof(Meta))
    try:
        keep_a, keep_b = rowmajor(&a, g), rowmajor(&b, x)
        s = allocate_contig(y, m, size, g.dtype)
        c.x, c.w, c.y, c.device = b.data, y.data, a.data, g.device
        if y.numel == 0 or g.numel == 0:
            fill_double(y, 0)
        elif not by_cudnn(&c, CYG_CONV_WEIGHT, y, NULL):
            weight_by_products(&c, y, &a, &b)
    except BaseException:
        meta_clear(y)
        raise
    finally:
        meta_clear(&a)
        meta_clear(&b)
    return s


cdef int weight_by_products(Conv* c, Meta* y, Meta* g, Meta* x) except -1:
    """What all items add up to is rounded once: sums of halves are made in float32."""
    cdef Held wide, left, right
    if COMPUTED[y.dtype] == y.dtype:
        fill_double(y, 0)
        return conv_products(c, CYG_CONV_WEIGHT)
    wide = block_like(y, COMPUTED[y.dtype], y.device)
    left, right = converted(g, wide.m.dtype), converted(x, wide.m.dtype)
    fill_double(&wide.m, 0)
    c.dtype, c.x, c.w, c.y = wide.m.dtype, right.m.data, wide.m.data, left.m.data
    conv_products(c, CYG_CONV_WEIGHT)
    return copy_broadcast(y, &wide.m)


cdef Held converted(Meta* x, int code):
    cdef Held h = block_like(x, code, x.device)
    copy_broadcast(&h.m, x)
    return h

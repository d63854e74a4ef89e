# Sorting, selection and search. A line is what lies along the sorted dimension; threads take lines, or share the passes
# over one long line. Sorting is stable, so its result is the only one possible, whatever the number of threads.
from cygrad.storage.core cimport BFLOAT16, INT16, dtype, view_select

cdef enum:
    SHORT_LINE = 32        # elements up to which a line is sorted even if few of them are wanted
    SORT_ALONE = 4096      # elements below which no second thread is woken: sorting takes longer than adding
    SPLIT_LINE = 65536     # elements from which threads share a line
    MAX_SHARES = 64
    SAMPLED = 32768        # elements of a line from which a sample says which are worth a look when few are wanted
    SAMPLE = 1024
    LONGEST_LINE = 0xffffffff     # places are kept in 32 bits beside narrow keys

cdef struct Sorting:
    Order order
    Iter lines             # values, places and input at the beginnings of lines
    int64_t count          # number of lines
    int64_t n              # elements of a line
    int64_t k              # how many of them are wanted, the first in order
    bint last_only         # only the last of these
    int64_t st[3]          # bytes between elements of a line
    int64_t item           # bytes of an item
    LoadKeys load
    LoadBelow load_below
    StoreKeys store
    SortItems sort
    SelectItems select
    CountDigits count_digits
    MoveDigits move_digits


cdef int order_of(int code, bint descending, Order* o) except -1:
    """How numbers of a dtype are ordered; not for complex ones."""
    cdef dtype kind = dtype_object(code)
    o.width = ITEMSIZE[code]
    o.flip = ~<uint64_t> 0 if descending else 0
    o.inf = 0
    if code == BOOL:
        o.kind = KEY_BOOL
    elif kind.is_floating_point:
        o.kind = KEY_FLOAT
        o.inf = (0x7f80 if code == BFLOAT16 else 0x7c00 if o.width == 2 else 0x7f800000 if o.width == 4
                 else 0x7ff0000000000000)
    else:
        o.kind = KEY_SIGNED if kind.is_signed else KEY_UNSIGNED
    return 0


cdef inline int key_column(int width) noexcept nogil:
    return UINT8 if width == 1 else INT16 if width == 2 else INT32 if width == 4 else INT64


# ---- one line

cdef char* line_start(const Sorting* s, int64_t line, char** p) noexcept nogil:
    """Sets p to values, places and input of a line."""
    cdef int d, k
    for k in range(3):
        p[k] = s.lines.p[k]
    for d in range(s.lines.ndim):
        for k in range(3):
            p[k] += line % s.lines.sizes[d] * s.lines.st[d][k]
        line = line // s.lines.sizes[d]
    return p[2]


cdef int64_t load_line(const Sorting* s, const char* x, char* items, char* spare) noexcept nogil:
    """Items of a line; where few of it are wanted, perhaps only of those that may be among them. Returns how many.

    Where the limit, an element of a sample, lets too few pass (one line in a million, if they are at random), all come.
    """
    cdef int64_t m, i, rank
    cdef double expected = <double> s.k / s.n * SAMPLE
    if s.n >= SAMPLED and s.k <= s.n // 8:
        for i in range(SAMPLE):
            s.load(items + i * s.item, x + s.n * i // SAMPLE * s.st[2], s.st[2], 0, 1, &s.order)
        rank = <int64_t> (expected + 4 * sqrt(expected) + 5)
        memcpy(spare + SAMPLE * s.item, items + s.select(items, spare, SAMPLE, rank, s.order.width) * s.item, s.item)
        m = s.load_below(items, x, s.st[2], s.n, spare + SAMPLE * s.item, &s.order)
        if m >= s.k:
            return m
    s.load(items, x, s.st[2], 0, s.n, &s.order)
    return s.n


cdef void sort_line(const Sorting* s, int64_t line, char* items) noexcept nogil:
    cdef char* p[3]
    cdef char* spare = items + s.n * s.item
    cdef int64_t at = 0, k = s.k, n
    line_start(s, line, p)
    n = load_line(s, p[2], items, spare)
    if s.n > SHORT_LINE and (s.last_only or k < s.n // 2):
        at = s.select(items, spare, n, k, s.order.width)
        if not s.last_only:
            s.sort(items, spare, k, s.order.width)
    else:
        s.sort(items, spare, s.n, s.order.width)
        at = k - 1
    if s.last_only:
        s.store(items + at * s.item, 1, p[0], 0, p[1], 0, p[2], s.st[2], &s.order)
    else:
        s.store(items, s.k, p[0], s.st[0], p[1], s.st[1], p[2], s.st[2], &s.order)


cdef bint offsets_of(int64_t* counts, int shares, int64_t n) noexcept nogil:
    """Counts of digits by share of the line become where the share's items go; False if all items have one digit."""
    cdef int64_t sum = 0, all_shares, c
    cdef int v, j
    for v in range(256):
        all_shares = 0
        for j in range(shares):
            c = counts[j * 256 + v]
            counts[j * 256 + v] = sum
            sum += c
            all_shares += c
        if all_shares == n:
            return False
    return True


cdef void sort_line_shared(const Sorting* s, int64_t line, char* items, int64_t* counts, int shares,
                           int threads) noexcept nogil:
    """A radix sort whose passes are shared among threads."""
    cdef char* p[3]
    cdef char* a = items
    cdef char* b = items + s.n * s.item
    cdef char* other
    cdef int64_t share = (s.n + shares - 1) // shares, size = s.item
    cdef int j, digit
    line_start(s, line, p)
    for j in prange(shares, num_threads=threads, schedule="static"):
        s.load(a + j * share * size, p[2], s.st[2], j * share, min((j + 1) * share, s.n), &s.order)
    for digit in range(s.order.width):
        memset(counts, 0, shares * 256 * sizeof(int64_t))
        for j in prange(shares, num_threads=threads, schedule="static"):
            s.count_digits(a + j * share * size, min(share, s.n - j * share), digit, counts + j * 256)
        if not offsets_of(counts, shares, s.n):
            continue
        for j in prange(shares, num_threads=threads, schedule="static"):
            s.move_digits(a + j * share * size, min(share, s.n - j * share), digit, counts + j * 256, b)
        other, a, b = b, b, a
    for j in prange(shares, num_threads=threads, schedule="static"):
        s.store(a + j * share * size, min(share, s.n - j * share), p[0] + j * share * s.st[0], s.st[0],
                p[1] + j * share * s.st[1], s.st[1], p[2], s.st[2], &s.order)


# ---- all lines

cdef void sort_lines(const Sorting* s, int64_t first, int64_t stop, char* items) noexcept nogil:
    cdef int64_t line
    for line in range(first, stop):
        sort_line(s, line, items)


cdef int run_sorting(Sorting* s) except -1:
    cdef int64_t room = 2 * s.n * s.item, line, share
    cdef int threads = 1, shares = 1, j
    cdef char* items
    cdef int64_t* counts = NULL
    if s.n * s.count >= SORT_ALONE:
        threads = num_threads()
    if threads > 1 and s.n >= SPLIT_LINE and s.k == s.n and not s.last_only and s.count < threads:
        shares = <int> min(s.n // (SPLIT_LINE // 4), MAX_SHARES)
        counts = <int64_t*> malloc(shares * 256 * sizeof(int64_t))
    else:
        threads = <int> min(threads, s.count)
    items = <char*> malloc(room if shares > 1 else room * threads)
    if items == NULL or (shares > 1 and counts == NULL):
        free(items)
        free(counts)
        raise MemoryError(f"sort: no memory for lines of {s.n} elements")
    if s.n * s.count < SORT_ALONE:
        sort_lines(s, 0, s.count, items)
    else:
        with nogil:
            if shares > 1:
                for line in range(s.count):
                    sort_line_shared(s, line, items, counts, shares, threads)
            elif threads == 1:
                sort_lines(s, 0, s.count, items)
            else:
                share = (s.count + threads - 1) // threads
                for j in prange(threads, num_threads=threads, schedule="static"):
                    sort_lines(s, j * share, min((j + 1) * share, s.count), items + j * room)
    free(items)
    free(counts)
    return 0


cdef int beginnings(Meta* sub, Meta* m, int ndim, int64_t dim) except -1:
    """The first elements of lines: m without dimension dim, which a result of one element a line may lack already."""
    if m.ndim and m.ndim == ndim:
        return view_select(sub, m, dim, 0)
    return meta_like(sub, m)


cdef int sort_into(str op, Meta* y, Meta* index, Meta* x, int64_t dim, int64_t k, bint descending,
                   bint last_only) except -1:
    """The first k of the elements of each line of x, in order; x has elements, and k is at least 1."""
    cdef Sorting s
    cdef Meta sub[3]
    cdef Meta* whole[3]
    cdef Meta* subs[3]
    cdef int j, column
    s.n = x.sizes[dim] if x.ndim else 1
    if s.n > LONGEST_LINE:
        raise RuntimeError(f"{op}: lines of at most {<int64_t> LONGEST_LINE} elements are supported, got {s.n}")
    order_of(x.dtype, descending, &s.order)
    s.k, s.last_only, s.count = k, last_only, x.numel // s.n
    s.item = 16 if s.order.width == 8 else 8
    column = key_column(s.order.width)
    s.load, s.store = <LoadKeys> hand_kernel(H_LOAD_KEYS, column), <StoreKeys> hand_kernel(H_STORE_KEYS, column)
    s.load_below = <LoadBelow> hand_kernel(H_LOAD_BELOW, column)
    s.sort, s.select = <SortItems> hand_kernel(H_SORT_ITEMS, column), <SelectItems> hand_kernel(H_SELECT_ITEMS, column)
    s.count_digits = <CountDigits> hand_kernel(H_COUNT_DIGITS, column)
    s.move_digits = <MoveDigits> hand_kernel(H_MOVE_DIGITS, column)
    whole[0], whole[1], whole[2] = y, index, x
    memset(sub, 0, sizeof(sub))
    try:
        for j in range(3):
            subs[j] = &sub[j]
            beginnings(subs[j], whole[j], x.ndim, dim)
            s.st[j] = whole[j].strides[dim] * ITEMSIZE[whole[j].dtype] if x.ndim and whole[j].ndim == x.ndim else 0
        iter_build(&s.lines, subs, 3, sub[2].ndim, sub[2].sizes)
        run_sorting(&s)
    finally:
        for j in range(3):
            meta_clear(&sub[j])
    return 0


cdef int check_sortable(str op, int code, bint bools) except -1:
    if dtype_object(code).is_complex or (code == BOOL and not bools):
        if op == "kthvalue":
            no_kernel(op, code)
        raise RuntimeError(f"{op} does not support {'complex' if code != BOOL else 'bool'} dtypes, got {name_of(code)}")
    return 0


cdef tuple sorted_results(str op, Meta* y, Meta* index, Meta* x, int64_t dim, int64_t k, bint descending,
                          bint last_only):
    """The memory of y and index, whose shapes are set, after filling them."""
    cdef Storage values, places
    try:
        values = allocate(y)
        places = allocate(index)
        if y.numel:
            sort_into(op, y, index, x, dim, k, descending, last_only)
    except BaseException:
        meta_clear(y)
        meta_clear(index)
        raise
    return values, places


cdef tuple op_sort(Meta* y, Meta* index, Meta* x, int64_t dim, bint descending, bint stable):
    check_sortable("sort", x.dtype, True)
    meta_dense_like(y, x, x.dtype)
    meta_dense_like(index, x, INT64)
    return sorted_results("sort", y, index, x, dim, x.sizes[dim] if x.ndim else 1, descending, False)


cdef tuple op_topk(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint largest, bint in_order):
    cdef int64_t sizes[MAXDIM]
    cdef int64_t n = x.sizes[dim] if x.ndim else 1
    check_sortable("topk", x.dtype, False)
    if not 0 <= k <= n:
        raise RuntimeError(f"topk: selected index k out of range: k={k} of {n} elements along dimension {dim}")
    memcpy(sizes, x.sizes, x.ndim * sizeof(int64_t))
    if x.ndim:
        sizes[dim] = k
    meta_contig(y, x.ndim, sizes, x.dtype)
    meta_contig(index, x.ndim, sizes, INT64)
    return sorted_results("topk", y, index, x, dim, k if x.ndim else 1, largest, False)


cdef tuple op_kthvalue(Meta* y, Meta* index, Meta* x, int64_t k, int64_t dim, bint keepdim):
    cdef int64_t sizes[MAXDIM]
    cdef int64_t n = x.sizes[dim] if x.ndim else 1
    cdef int ndim = 0
    check_sortable("kthvalue", x.dtype, False)
    if n == 0:
        raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
    if not 1 <= k <= n:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: k={k} of {n} elements")
    reduced_shape(x, <uint64_t> 1 << dim if x.ndim else 0, keepdim, &ndim, sizes)
    meta_contig(y, ndim, sizes, x.dtype)
    meta_contig(index, ndim, sizes, INT64)
    return sorted_results("kthvalue", y, index, x, dim, k, False, True)


# ---- search

cdef int check_sorter(Meta* sorter) except -1:
    cdef const int64_t* p = <const int64_t*> sorter.data
    cdef int64_t n = sorter.sizes[sorter.ndim - 1], i
    for i in range(sorter.numel):
        if not 0 <= p[i] < n:
            raise RuntimeError(f"torch.searchsorted(): sorter index out of range: {p[i]} of {n} boundaries")
    return 0


cdef Storage op_searchsorted(Meta* y, Meta* bounds, Meta* x, Meta* sorter, bint right, bint narrow):
    """bounds, x and sorter (or NULL) are contiguous; bounds are 1-d or have x's leading dimensions."""
    cdef Order order
    cdef int64_t n = bounds.sizes[bounds.ndim - 1], line, lines = 1, m = x.numel, work, chunk = 4096, i
    cdef int code = INT32 if narrow else INT64, threads = 1
    cdef Search run
    cdef Storage s
    if bounds.dtype == BOOL or dtype_object(bounds.dtype).is_complex:
        no_kernel("searchsorted", bounds.dtype)
    if narrow and n > 0x7fffffff:
        raise RuntimeError(f"torch.searchsorted(): the size of boundaries' last dimension should be less than 2**31 if "
                           f"out_int32 is True, got {n}")
    if sorter != NULL:
        check_sorter(sorter)
    order_of(bounds.dtype, False, &order)
    run = <Search> hand_kernel(H_SEARCH, key_column(order.width))
    s = allocate_contig(y, x.ndim, x.sizes, code)
    if m == 0:
        return s
    if bounds.ndim > 1:
        m = x.sizes[x.ndim - 1]
        lines = x.numel // m
    work = (m + chunk - 1) // chunk
    if x.numel >= NOGIL // 4:
        threads = <int> min(num_threads(), work * lines)
    if threads == 1:
        for i in range(work * lines):
            search_chunk(run, y, bounds, x, sorter, right, &order, i // work, i % work * chunk, m)
    else:
        for i in prange(work * lines, nogil=True, num_threads=threads, schedule="static"):
            search_chunk(run, y, bounds, x, sorter, right, &order, i // work, i % work * chunk, m)
    return s


cdef void search_chunk(Search run, Meta* y, Meta* bounds, Meta* x, Meta* sorter, bint right, const Order* o,
                       int64_t line, int64_t first, int64_t m) noexcept nogil:
    """Values from `first` on, up to 4096 of them, of a line of m."""
    cdef int64_t n = bounds.sizes[bounds.ndim - 1], at = line * m + first, size = o.width
    cdef int64_t start = line * n if bounds.ndim > 1 else 0
    run(y.data + at * ITEMSIZE[y.dtype], y.dtype == INT32, bounds.data + start * size,
        NULL if sorter == NULL else <const int64_t*> sorter.data + start, n, x.data + at * size, min(m - first, 4096),
        right, o)


# ---- rows

cdef Storage op_sort_rows(Meta* y, Meta* x):
    """Numbers of the rows of a contiguous matrix, in the rows' order."""
    cdef Order order
    cdef int64_t n = x.sizes[0]
    cdef int64_t* spare
    cdef SortRows run
    cdef Storage s
    check_sortable("sort", x.dtype, True)
    order_of(x.dtype, False, &order)
    run = <SortRows> hand_kernel(H_SORT_ROWS, key_column(order.width))
    s = allocate_contig(y, 1, &n, INT64)
    spare = <int64_t*> malloc((n or 1) * sizeof(int64_t))
    if spare == NULL:
        raise MemoryError(f"sort: no memory for the order of {n} rows")
    with nogil:
        run(<int64_t*> y.data, spare, n, x.data, x.sizes[1], &order)
    free(spare)
    return s

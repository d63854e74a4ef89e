# Kernel group "sort": stable sorting, selection and search on order-preserving keys (see _sort.pxi).
#
# Short lines are merged, long ones sorted by an LSD radix sort, which skips digits that all keys share (Knuth, The Art
# of Computer Programming 3, 5.2.5). Selection narrows down the key of rank k digit by digit, so that no input makes it
# slower than one pass over the items for each byte of a key.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from cygrad.storage.core cimport UINT8, INT16, INT32, INT64, N_DTYPES
include "_hand_ids.pxi"
include "_sort.pxi"

cdef enum:
    BLOCK = 64             # elements that are compared with a limit at once
    RUN = 16               # items sorted by insertion
    FEW = 32               # items to select, up to which the best so far are kept in order
    RADIX_FROM = 64        # items for each byte of a key from which the radix sort is faster than merging

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused item:
    uint64_t
    Wide


# ---- keys

cdef inline word float_key(word u, word inf) noexcept nogil:
    """Without branches, so that loops become vector instructions."""
    cdef word sign = <word> (<uint64_t> 1 << (8 * sizeof(word) - 1))
    cdef word magnitude = u & <word> ~sign
    u = u ^ (<word> (0 - (u >> (8 * sizeof(word) - 1))) | sign)
    u = <word> ~<uint64_t> 0 if magnitude > inf else u
    return sign if magnitude == 0 else u


cdef inline uint64_t key_of(word u, const Order* o) noexcept nogil:
    cdef word sign = <word> (<uint64_t> 1 << (8 * sizeof(word) - 1))
    if o.kind == KEY_UNSIGNED:
        pass
    elif o.kind == KEY_SIGNED:
        u ^= sign
    elif o.kind == KEY_BOOL:
        u = u != 0
    else:
        u = float_key[word](u, <word> o.inf)
    return <word> (u ^ <word> o.flip)


cdef inline bint has_one_pattern(word key, const Order* o) noexcept nogil:
    """Whether only one pattern of bits has this key, which `element_of` gives back."""
    key ^= <word> o.flip
    if o.kind != KEY_FLOAT:
        return True
    return key != <word> ~<uint64_t> 0 and key != <word> (<uint64_t> 1 << (8 * sizeof(word) - 1))


cdef inline word element_of(word key, const Order* o) noexcept nogil:
    cdef word sign = <word> (<uint64_t> 1 << (8 * sizeof(word) - 1))
    key ^= <word> o.flip
    if o.kind == KEY_SIGNED:
        return key ^ sign
    if o.kind == KEY_FLOAT:
        return key ^ sign if key & sign else <word> ~key
    return key


cdef void load_keys(char* items, const word* x, int64_t st, int64_t first, int64_t stop, const Order* o) noexcept nogil:
    cdef uint64_t* narrow = <uint64_t*> items
    cdef Wide* wide = <Wide*> items
    cdef int64_t i
    x = <const word*> (<const char*> x + first * st)
    for i in range(stop - first):
        if sizeof(word) == 8:
            wide[i].key = key_of[word](x[0], o)
            wide[i].place = <uint64_t> (first + i)
        else:
            narrow[i] = key_of[word](x[0], o) << 32 | <uint64_t> (first + i)
        x = <const word*> (<const char*> x + st)


cdef int64_t load_below(char* items, const word* x, int64_t st, int64_t n, const char* limit, const Order* o) noexcept nogil:
    """Most blocks have no such element, and are only compared."""
    cdef word keys[BLOCK]
    cdef Order order = o[0]
    cdef word inf = <word> o.inf, flip = <word> o.flip
    cdef word most = <word> ((<Wide*> limit).key if sizeof(word) == 8 else (<uint64_t*> limit)[0] >> 32)
    cdef int64_t i = -BLOCK, j, m = 0
    cdef bint found
    while i + BLOCK < n:
        i += BLOCK
        if i + BLOCK <= n and st == sizeof(word) and order.kind == KEY_FLOAT:
            for j in range(BLOCK):
                keys[j] = float_key[word](x[i + j], inf) ^ flip
        else:
            for j in range(min(<int64_t> BLOCK, n - i)):
                keys[j] = key_of[word]((<const word*> (<const char*> x + (i + j) * st))[0], &order)
        found = False
        for j in range(BLOCK):
            found |= keys[j] <= most
        if not found:
            continue
        for j in range(min(<int64_t> BLOCK, n - i)):
            if keys[j] > most:
                continue
            if sizeof(word) == 8:
                (<Wide*> items)[m].key = keys[j]
                (<Wide*> items)[m].place = <uint64_t> (i + j)
            else:
                (<uint64_t*> items)[m] = <uint64_t> keys[j] << 32 | <uint64_t> (i + j)
            m += 1
    return m


cdef void store_keys(const char* items, int64_t n, word* y, int64_t ysize, char* place, int64_t psize,
                     const char* x, int64_t st, const Order* o) noexcept nogil:
    cdef const uint64_t* narrow = <const uint64_t*> items
    cdef const Wide* wide = <const Wide*> items
    cdef int64_t i, at
    cdef word key
    for i in range(n):
        if sizeof(word) == 8:
            key = <word> wide[i].key
            at = <int64_t> wide[i].place
        else:
            key = <word> (narrow[i] >> 32)
            at = <int64_t> (narrow[i] & 0xffffffffU)
        if has_one_pattern[word](key, o):
            y[0] = element_of[word](key, o)
        else:
            y[0] = (<const word*> (x + at * st))[0]
        (<int64_t*> place)[0] = at
        y = <word*> (<char*> y + ysize)
        place += psize


# ---- sorting items

cdef inline uint64_t key_in(item a) noexcept nogil:
    if item is Wide:
        return a.key
    else:
        return a >> 32


cdef inline bint after(item a, item b) noexcept nogil:
    """Whether a comes after b. Places decide among equal keys of one-word items; they are in order already."""
    if item is Wide:
        return a.key > b.key
    else:
        return a > b


cdef inline int digit_in(item a, int digit) noexcept nogil:
    return <int> (key_in[item](a) >> (8 * digit) & 255)


cdef void sort_run(item* a, int64_t n) noexcept nogil:
    cdef int64_t i, j
    cdef item v
    for i in range(1, n):
        v = a[i]
        j = i
        while j > 0 and after[item](a[j - 1], v):
            a[j] = a[j - 1]
            j -= 1
        a[j] = v


cdef void merge_runs(const item* a, int64_t n, const item* b, int64_t m, item* to) noexcept nogil:
    cdef int64_t i = 0, j = 0
    while i < n and j < m:
        if after[item](a[i], b[j]):
            to[i + j] = b[j]
            j += 1
        else:
            to[i + j] = a[i]
            i += 1
    memcpy(to + i + j, a + i, (n - i) * sizeof(item))
    memcpy(to + n + j, b + j, (m - j) * sizeof(item))


cdef void merge_sort(item* a, item* b, int64_t n) noexcept nogil:
    cdef item* first = a
    cdef item* other
    cdef int64_t i = 0, size = RUN
    while i < n:
        sort_run[item](a + i, RUN if n - i > RUN else n - i)
        i += RUN
    while size < n:
        i = 0
        while i < n:
            if n - i <= size:
                memcpy(b + i, a + i, (n - i) * sizeof(item))
            else:
                merge_runs[item](a + i, size, a + i + size, size if n - i > 2 * size else n - i - size, b + i)
            i += 2 * size
        other, a, b = b, b, a
        size *= 2
    if a != first:
        memcpy(first, a, n * sizeof(item))


cdef void count_digits(const item* a, int64_t n, int digit, int64_t* counts) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        counts[digit_in[item](a[i], digit)] += 1


cdef void move_digits(const item* a, int64_t n, int digit, int64_t* offsets, item* b) noexcept nogil:
    cdef int64_t i
    cdef int d
    for i in range(n):
        d = digit_in[item](a[i], digit)
        b[offsets[d]] = a[i]
        offsets[d] += 1


cdef void radix_sort(item* a, item* b, int64_t n, int width) noexcept nogil:
    cdef int64_t counts[8][256]
    cdef int64_t i, sum, c
    cdef uint64_t key
    cdef int d, v
    cdef item* first = a
    cdef item* other
    memset(counts, 0, sizeof(counts))
    for i in range(n):
        key = key_in[item](a[i])
        for d in range(width):
            counts[d][key & 255] += 1
            key >>= 8
    for d in range(width):
        if counts[d][digit_in[item](a[0], d)] == n:
            continue
        sum = 0
        for v in range(256):
            c = counts[d][v]
            counts[d][v] = sum
            sum += c
        move_digits[item](a, n, d, counts[d], b)
        other, a, b = b, b, a
    if a != first:
        memcpy(first, a, n * sizeof(item))


cdef void sort_items(item* a, item* spare, int64_t n, int width) noexcept nogil:
    cdef int64_t i = 1
    while i < n and not after[item](a[i - 1], a[i]):
        i += 1
    if i >= n:
        return
    if n <= RUN:
        sort_run[item](a, n)
    elif n < RADIX_FROM * width:
        merge_sort[item](a, spare, n)
    else:
        radix_sort[item](a, spare, n, width)


# ---- selection

cdef uint64_t key_of_rank(const item* a, item* spare, int64_t n, int64_t* rank, int width) noexcept nogil:
    """Key of the item of this rank (from 0); rank becomes the one among items of equal key."""
    cdef int64_t counts[256]
    cdef int64_t i, m
    cdef uint64_t key = 0
    cdef int d = width - 1, v
    while d >= 0:
        memset(counts, 0, sizeof(counts))
        for i in range(n):
            counts[digit_in[item](a[i], d)] += 1
        v = 0
        while rank[0] >= counts[v]:
            rank[0] -= counts[v]
            v += 1
        key |= <uint64_t> v << (8 * d)
        if counts[v] < n:
            m = 0
            for i in range(n):
                if digit_in[item](a[i], d) == v:
                    spare[m] = a[i]
                    m += 1
            a = spare
            n = m
        d -= 1
    return key


cdef bint take_few(const item* a, item* best, int64_t n, int64_t k) noexcept nogil:
    """The k smallest in order, by keeping the best so far; False if they change too often for that to pay."""
    cdef int64_t i, j, left = n // 16 + FEW
    cdef item v
    memcpy(best, a, k * sizeof(item))
    sort_run[item](best, k)
    for i in range(k, n):
        if after[item](best[k - 1], a[i]):
            v = a[i]
            j = k - 1
            while j > 0 and after[item](best[j - 1], v):
                best[j] = best[j - 1]
                j -= 1
            best[j] = v
            left -= 1
            if left < 0:
                return False
    return True


cdef int64_t select_items(item* a, item* spare, int64_t n, int64_t k, int width) noexcept nogil:
    cdef int64_t rank = k - 1, i, m = 0, last = 0
    cdef uint64_t limit, key
    if k <= FEW and n >= (4 if k <= 8 else 16) * k and take_few[item](a, spare, n, k):
        memcpy(a, spare, k * sizeof(item))
        return k - 1
    limit = key_of_rank[item](a, spare, n, &rank, width)
    for i in range(n):
        key = key_in[item](a[i])
        if key > limit:
            continue
        if key == limit:
            if rank < 0:
                continue
            rank -= 1
            last = m
        a[m] = a[i]
        m += 1
    return last


# ---- search

cdef void search(char* y, bint narrow, const word* bounds, const int64_t* sorter, int64_t n, const word* x, int64_t m,
                 bint right, const Order* o) noexcept nogil:
    """Like comparisons of floats, no comparison with a NaN holds: one among the bounds lies below every value."""
    cdef int64_t i, low, high, middle
    cdef uint64_t key, other, nan = <word> ~<uint64_t> 0
    for i in range(m):
        key = key_of[word](x[i], o)
        low, high = 0, n
        while low < high:
            middle = low + (high - low) // 2
            other = key_of[word](bounds[sorter[middle] if sorter != NULL else middle], o)
            if other < key or (right and other == key) or (o.kind == KEY_FLOAT and (other == nan or key == nan)):
                low = middle + 1
            else:
                high = middle
        if narrow:
            (<int32_t*> y)[i] = <int32_t> low
        else:
            (<int64_t*> y)[i] = low


# ---- rows

cdef bint row_after(const word* x, int64_t m, int64_t a, int64_t b, const Order* o) noexcept nogil:
    cdef int64_t i
    cdef uint64_t k, j
    for i in range(m):
        k = key_of[word](x[a * m + i], o)
        j = key_of[word](x[b * m + i], o)
        if k != j:
            return k > j
    return False


cdef void sort_rows(int64_t* rows, int64_t* spare, int64_t n, const word* x, int64_t m, const Order* o) noexcept nogil:
    """Merge sort from runs of one row."""
    cdef int64_t* a = rows
    cdef int64_t* b = spare
    cdef int64_t* other
    cdef int64_t i, j, k, first, middle, end, size = 1
    for i in range(n):
        a[i] = i
    while size < n:
        first = 0
        while first < n:
            middle = n if n - first < size else first + size
            end = n if n - first < 2 * size else first + 2 * size
            i, j = first, middle
            for k in range(first, end):
                if j == end or (i < middle and not row_after[word](x, m, a[i], a[j], o)):
                    b[k] = a[i]
                    i += 1
                else:
                    b[k] = a[j]
                    j += 1
            first = end
        other, a, b = b, b, a
        size *= 2
    if a != rows:
        memcpy(rows, a, n * sizeof(int64_t))


# ---- the table: one column for each width, that of its integers

cdef inline void register_word(const word* tag, int code, void** table) noexcept:
    table[H_LOAD_KEYS * N_DTYPES + code] = <void*> load_keys[word]
    table[H_LOAD_BELOW * N_DTYPES + code] = <void*> load_below[word]
    table[H_STORE_KEYS * N_DTYPES + code] = <void*> store_keys[word]
    table[H_SEARCH * N_DTYPES + code] = <void*> search[word]
    table[H_SORT_ROWS * N_DTYPES + code] = <void*> sort_rows[word]


cdef inline void register_item(const item* tag, int code, void** table) noexcept:
    table[H_SORT_ITEMS * N_DTYPES + code] = <void*> sort_items[item]
    table[H_COUNT_DIGITS * N_DTYPES + code] = <void*> count_digits[item]
    table[H_MOVE_DIGITS * N_DTYPES + code] = <void*> move_digits[item]
    table[H_SELECT_ITEMS * N_DTYPES + code] = <void*> select_items[item]


cdef void register_kernels(void** table) noexcept:
    register_word[uint8_t](NULL, UINT8, table)
    register_word[uint16_t](NULL, INT16, table)
    register_word[uint32_t](NULL, INT32, table)
    register_word[uint64_t](NULL, INT64, table)
    register_item[uint64_t](NULL, UINT8, table)
    register_item[uint64_t](NULL, INT16, table)
    register_item[uint64_t](NULL, INT32, table)
    register_item[Wide](NULL, INT64, table)


def register_address():
    return <size_t> &register_kernels

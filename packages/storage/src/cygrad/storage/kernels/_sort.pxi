# What kernels of sorting and their driver share.
#
# Numbers are sorted as keys: unsigned integers of their width in the same order, NaN above everything, -0 equal to 0.
# So there is one kernel a width, not one a dtype. An item is a key with its place in the line: one 64-bit integer for
# keys of up to 32 bits, else a Wide.

cdef enum:
    KEY_BOOL               # nonzero bytes are alike
    KEY_UNSIGNED
    KEY_SIGNED
    KEY_FLOAT

cdef struct Order:
    int kind
    int width              # bytes of an element
    uint64_t inf           # bits of infinity, for KEY_FLOAT
    uint64_t flip          # 0, or all ones for descending order: keys that sort the other way round

cdef struct Wide:
    uint64_t key
    uint64_t place

# elements first .. stop - 1 of x, st bytes apart, to as many items
ctypedef void (*LoadKeys)(char* items, const char* x, int64_t st, int64_t first, int64_t stop,
                          const Order* o) noexcept nogil
# items of those of the n elements of x whose keys are no larger than that of the item `limit`; returns how many there are
ctypedef int64_t (*LoadBelow)(char* items, const char* x, int64_t st, int64_t n, const char* limit, const Order* o) noexcept nogil
# n items back to elements of y and to int64 places; x is the line they came from (0 and NaN have several bit patterns)
ctypedef void (*StoreKeys)(const char* items, int64_t n, char* y, int64_t ysize, char* place, int64_t psize,
                           const char* x, int64_t st, const Order* o) noexcept nogil
# stable; the result is in items, spare is as large
ctypedef void (*SortItems)(char* items, char* spare, int64_t n, int width) noexcept nogil
# one pass of a radix sort in parts, for threads: how many items have each of 256 digits; moving items to offsets[digit]
ctypedef void (*CountDigits)(const char* items, int64_t n, int digit, int64_t* counts) noexcept nogil
ctypedef void (*MoveDigits)(const char* items, int64_t n, int digit, int64_t* offsets, char* to) noexcept nogil
# the k smallest, the first of equal ones, to the front, in any order; returns where among them the largest is
ctypedef int64_t (*SelectItems)(char* items, char* spare, int64_t n, int64_t k, int width) noexcept nogil
# places of m values among n sorted bounds, as int32 if narrow, else int64
ctypedef void (*Search)(char* y, bint narrow, const char* bounds, const int64_t* sorter, int64_t n, const char* x,
                        int64_t m, bint right, const Order* o) noexcept nogil
# numbers 0 .. n - 1 of rows of m elements in the rows' lexicographic order, stable; spare has n numbers, too
ctypedef void (*SortRows)(int64_t* rows, int64_t* spare, int64_t n, const char* x, int64_t m,
                          const Order* o) noexcept nogil

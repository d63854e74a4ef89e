/* The kernels of recurrent.h for the element type REAL; included once for each. */

#if defined(__GNUC__) || defined(__clang__)
typedef REAL NAME(Vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL NAME(Loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));    /* in memory */
#else
typedef REAL NAME(Vector);
typedef REAL NAME(Loose);
#endif
#define VECTOR NAME(Vector)
#define LOOSE NAME(Loose)
#define LANES ((int64_t)(sizeof(VECTOR) / sizeof(REAL)))
#define PANEL (WIDE * LANES)       /* columns of a tile */

static int64_t NAME(panel)(void) { return PANEL; }

/* ---- products with packed weights: panels of PANEL columns, of each all rows; columns beyond the last are 0 */

static void NAME(pack)(void *packed, const void *w, int64_t depth, int64_t columns, int64_t down, int64_t right) {
    const REAL *from = (const REAL *)w;
    REAL *to = (REAL *)packed;
    int64_t first, k, j;
    for (first = 0; first < columns; first += PANEL)
        for (k = 0; k < depth; k++, to += PANEL)
            for (j = 0; j < PANEL; j++)
                to[j] = first + j < columns ? from[k * down + (first + j) * right] : 0;
}

/* One tile: y = a @ b for `rows` rows of a, which lie TALL to a column; `used` of them are wanted. */
VM void NAME(tile)(int rows, int64_t used, const REAL *a, const REAL *b, int64_t depth, REAL *y, int64_t ld) {
    VECTOR sum[TALL][WIDE], part[WIDE];
    int64_t k;
    int i, v;
#pragma GCC unroll 8
    for (i = 0; i < rows; i++)
        for (v = 0; v < WIDE; v++)
            sum[i][v] = (VECTOR){0};
    for (k = 0; k < depth; k++, a += TALL, b += PANEL) {
        for (v = 0; v < WIDE; v++)
            part[v] = ((const LOOSE *)b)[v];
#pragma GCC unroll 8
        for (i = 0; i < rows; i++)
            for (v = 0; v < WIDE; v++)
                sum[i][v] = FUSED(a[i], part[v], sum[i][v]);
    }
#pragma GCC unroll 8
    for (i = 0; i < rows; i++)
        for (v = 0; v < WIDE; v++)
            if (i < used)
                ((LOOSE *)(y + i * ld))[v] = sum[i][v];
}

/* y (rows x ld, padded to whole panels) = a @ packed weights; a: tiles of TALL rows, `depth` columns each. */
static void NAME(multiply)(REAL *y, int64_t ld, const REAL *a, const REAL *packed, int64_t rows, int64_t depth,
                           int64_t columns) {
    int64_t first, row;
    for (first = 0; first < columns; first += PANEL, packed += depth * PANEL)
        for (row = 0; row < rows; row += TALL) {
            const REAL *tile = a + row * depth;
            REAL *to = y + row * ld + first;
            int64_t left = rows - row;
            if (TALL > 4 && left > 4) NAME(tile)(TALL, left, tile, packed, depth, to, ld);
            else if (left > 2) NAME(tile)(4, left, tile, packed, depth, to, ld);
            else if (left > 1) NAME(tile)(2, left, tile, packed, depth, to, ld);
            else NAME(tile)(1, left, tile, packed, depth, to, ld);
        }
}

/* Row `row` of the left factor, laid out for `tile`. */
static void NAME(lay)(REAL *a, int64_t row, const REAL *from, int64_t depth) {
    int64_t k;
    a += row / TALL * TALL * depth + row % TALL;
    for (k = 0; k < depth; k++)
        a[k * TALL] = from[k];
}

/* ---- one step of one row: x and s are the shares of input and state in the gates */

static void NAME(plain_forward)(const RecurrentPlan *p, const REAL *restrict x, const REAL *restrict s,
                                const REAL *restrict b, REAL *restrict y) {
    int64_t j, n = p->hidden;
    if (p->mode == PLAN_TANH)
        for (j = 0; j < n; j++)
            y[j] = VM_NAME(tanh)(x[j] + (s[j] + b[j]));
    else
        for (j = 0; j < n; j++) {
            REAL v = x[j] + (s[j] + b[j]);
            y[j] = v < 0 ? 0 : v;
        }
}

static void NAME(plain_backward)(const RecurrentPlan *p, const REAL *restrict g, const REAL *restrict y,
                                 REAL *restrict gx) {
    int64_t j, n = p->hidden;
    if (p->mode == PLAN_TANH)
        for (j = 0; j < n; j++)
            gx[j] = g[j] * (1 - y[j] * y[j]);
    else
        for (j = 0; j < n; j++)
            gx[j] = y[j] > 0 ? g[j] : 0;
}

/* kept: the four gates after their functions, and tanh(c) */
static void NAME(lstm_forward)(int64_t n, const REAL *restrict x, const REAL *restrict s, const REAL *restrict b,
                               const REAL *restrict before, REAL *restrict kept, REAL *restrict c, REAL *restrict y) {
    int64_t j;
    for (j = 0; j < 2 * n; j++)
        kept[j] = VM_NAME(sigmoid)(x[j] + (s[j] + b[j]));
    for (j = 2 * n; j < 3 * n; j++)
        kept[j] = VM_NAME(tanh)(x[j] + (s[j] + b[j]));
    for (j = 3 * n; j < 4 * n; j++)
        kept[j] = VM_NAME(sigmoid)(x[j] + (s[j] + b[j]));
    for (j = 0; j < n; j++)
        c[j] = kept[n + j] * before[j] + kept[j] * kept[2 * n + j];
    for (j = 0; j < n; j++) {
        kept[4 * n + j] = VM_NAME(tanh)(c[j]);
        y[j] = kept[3 * n + j] * kept[4 * n + j];
    }
}

/* carried: the gradient of c from the step after, and then that for the step before */
static void NAME(lstm_backward)(int64_t n, const REAL *restrict g, const REAL *restrict gc, const REAL *restrict kept,
                                const REAL *restrict before, REAL *restrict carried, REAL *restrict gx) {
    const REAL *enter = kept, *keep = kept + n, *fresh = kept + 2 * n, *out = kept + 3 * n, *shown = kept + 4 * n;
    int64_t j;
    for (j = 0; j < n; j++) {
        REAL d = g[j] * out[j] * (1 - shown[j] * shown[j]) + carried[j] + (gc ? gc[j] : 0);
        gx[j] = d * fresh[j] * (enter[j] * (1 - enter[j]));
        gx[n + j] = d * before[j] * (keep[j] * (1 - keep[j]));
        gx[2 * n + j] = d * enter[j] * (1 - fresh[j] * fresh[j]);
        gx[3 * n + j] = g[j] * shown[j] * (out[j] * (1 - out[j]));
        carried[j] = d * keep[j];
    }
}

/* kept: the three gates after their functions, and the state's share of the third */
static void NAME(gru_forward)(int64_t n, const REAL *restrict x, const REAL *restrict s, const REAL *restrict b,
                              const REAL *restrict before, REAL *restrict kept, REAL *restrict y) {
    int64_t j;
    for (j = 0; j < 2 * n; j++)
        kept[j] = VM_NAME(sigmoid)(x[j] + (s[j] + b[j]));
    for (j = 0; j < n; j++) {
        REAL old = s[2 * n + j] + b[2 * n + j], fresh = VM_NAME(tanh)(x[2 * n + j] + kept[j] * old);
        kept[2 * n + j] = fresh;
        kept[3 * n + j] = old;
        y[j] = fresh + kept[n + j] * (before[j] - fresh);
    }
}

/* direct: the part of the gradient of the state before that does not go through the product */
static void NAME(gru_backward)(int64_t n, const REAL *restrict g, const REAL *restrict kept, const REAL *restrict before,
                               REAL *restrict direct, REAL *restrict gx, REAL *restrict gh) {
    const REAL *reset = kept, *keep = kept + n, *fresh = kept + 2 * n, *old = kept + 3 * n;
    int64_t j;
    for (j = 0; j < n; j++) {
        REAL d = g[j] * (1 - keep[j]) * (1 - fresh[j] * fresh[j]);
        gh[j] = gx[j] = d * old[j] * (reset[j] * (1 - reset[j]));
        gh[n + j] = gx[n + j] = g[j] * (before[j] - fresh[j]) * (keep[j] * (1 - keep[j]));
        gx[2 * n + j] = d;
        gh[2 * n + j] = d * reset[j];
        direct[j] = g[j] * keep[j];
    }
}

/* ---- all steps of the rows first .. first + tall */

/* The row of `states` (or of `start`) that row r had before step t. */
static const REAL *NAME(earlier)(const RecurrentPlan *p, const char *states, const char *start, int64_t t, int64_t r) {
    int64_t s = p->backwards ? t + 1 : t - 1;
    if (s < 0 || s >= p->steps || r >= p->counts[s])
        return (const REAL *)start + r * p->hidden;
    return (const REAL *)states + (p->starts[s] + r) * p->hidden;
}

static int64_t NAME(rows_of)(const RecurrentPlan *p, int64_t t, int64_t first) {
    int64_t rows = p->counts[t] - first;
    return rows > p->tall ? p->tall : rows;
}

/* Elements of scratch memory that one call wants. */
static int64_t NAME(scratch)(const RecurrentPlan *p) {
    int64_t wide = p->gates * p->hidden, padded = (wide > p->hidden ? wide : p->hidden) + PANEL;
    return p->tall * (wide + padded + 4 * p->hidden) + p->kept_columns * p->hidden + wide + 64;
}

static void NAME(forward)(const RecurrentPlan *p, int64_t first, void *scratch) {
    const int64_t n = p->hidden, wide = p->gates * n, ld = (wide + PANEL - 1) / PANEL * PANEL;
    REAL *a = (REAL *)scratch, *s = a + p->tall * n, *spare = s + p->tall * ld, *zeros = spare + p->kept_columns * n;
    const REAL *bias = p->bias ? (const REAL *)p->bias : zeros;
    int64_t i, r, t, rows;
    memset(zeros, 0, wide * sizeof(REAL));
    memset(a, 0, p->tall * n * sizeof(REAL));       /* whole tiles are multiplied */
    for (i = 0; i < p->steps; i++) {
        t = p->backwards ? p->steps - 1 - i : i;
        rows = NAME(rows_of)(p, t, first);
        if (rows <= 0)
            continue;
        for (r = 0; r < rows; r++)
            NAME(lay)(a, r, NAME(earlier)(p, p->y, p->h0, t, first + r), n);
        NAME(multiply)(s, ld, a, (const REAL *)p->w, rows, n, wide);
        for (r = 0; r < rows; r++) {
            int64_t row = p->starts[t] + first + r;
            const REAL *x = (const REAL *)p->x + row * wide, *share = s + r * ld;
            REAL *kept = p->kept ? (REAL *)p->kept + row * p->kept_columns * n : spare, *y = (REAL *)p->y + row * n;
            if (p->mode == PLAN_LSTM)
                NAME(lstm_forward)(n, x, share, bias, NAME(earlier)(p, p->c, p->c0, t, first + r), kept,
                                   (REAL *)p->c + row * n, y);
            else if (p->mode == PLAN_GRU)
                NAME(gru_forward)(n, x, share, bias, NAME(earlier)(p, p->y, p->h0, t, first + r), kept, y);
            else
                NAME(plain_forward)(p, x, share, bias, y);
        }
    }
}

static void NAME(backward)(const RecurrentPlan *p, int64_t first, void *scratch) {
    const int64_t n = p->hidden, wide = p->gates * n, ld = (n + PANEL - 1) / PANEL * PANEL;
    REAL *a = (REAL *)scratch, *s = a + p->tall * wide, *direct = s + p->tall * ld, *carried = direct + p->tall * n;
    REAL *g = carried + p->tall * n;
    int64_t i, j, r, t, rows, next;
    memset(a, 0, p->tall * wide * sizeof(REAL));    /* whole tiles are multiplied */
    memset(direct, 0, 2 * p->tall * n * sizeof(REAL));
    memset(s, 0, p->tall * ld * sizeof(REAL));      /* rows that begin here have no step after */
    for (i = 0; i < p->steps; i++) {
        t = p->backwards ? i : p->steps - 1 - i;
        rows = NAME(rows_of)(p, t, first);
        if (rows <= 0)
            continue;
        for (r = 0; r < rows; r++) {
            int64_t row = p->starts[t] + first + r;
            const REAL *h = NAME(earlier)(p, p->y, p->h0, t, first + r), *gy = (const REAL *)p->gy + row * n;
            const REAL *kept = (const REAL *)p->kept + row * p->kept_columns * n, *gc = NULL;
            REAL *gx = (REAL *)p->gx + row * wide, *gh = (REAL *)p->gh + row * wide;
            for (j = 0; j < n; j++)
                g[j] = gy[j] + (s[r * ld + j] + direct[r * n + j]);
            memcpy((REAL *)p->before + row * n, h, n * sizeof(REAL));
            if (p->mode == PLAN_LSTM) {
                gc = p->gc ? (const REAL *)p->gc + row * n : NULL;
                NAME(lstm_backward)(n, g, gc, kept, NAME(earlier)(p, p->c, p->c0, t, first + r), carried + r * n, gx);
            } else if (p->mode == PLAN_GRU)
                NAME(gru_backward)(n, g, kept, h, direct + r * n, gx, gh);
            else
                NAME(plain_backward)(p, g, (const REAL *)p->y + row * n, gx);
            NAME(lay)(a, r, gh, wide);
        }
        NAME(multiply)(s, ld, a, (const REAL *)p->w, rows, wide, n);
        next = p->backwards ? t + 1 : t - 1;
        for (r = 0; r < rows; r++) {
            if (next >= 0 && next < p->steps && first + r < p->counts[next])
                continue;
            for (j = 0; j < n; j++)
                ((REAL *)p->gh0)[(first + r) * n + j] = s[r * ld + j] + direct[r * n + j];
            if (p->mode == PLAN_LSTM)
                memcpy((REAL *)p->gc0 + (first + r) * n, carried + r * n, n * sizeof(REAL));
        }
    }
}

#undef VECTOR
#undef LOOSE
#undef LANES
#undef PANEL

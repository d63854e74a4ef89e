/* The loops of slide.h for one type: REAL, and WHOLE, the integer of its size. */

typedef REAL SL(vec) __attribute__((vector_size(SL_BYTES), aligned(sizeof(REAL)), may_alias));
typedef WHOLE SL(bits) __attribute__((vector_size(SL_BYTES), aligned(sizeof(REAL)), may_alias));
typedef REAL SL(short) __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
enum { SL(LANES) = SL_BYTES / sizeof(REAL), SL(QUARTER) = 16 / sizeof(REAL) };

#define SL_AT(p) (*(SL(vec)*)(p))
#define SL_GET(p) (*(const SL(vec)*)(p))

SL_INLINE void SL(sl_copy)(REAL* y, const REAL* x, int64_t n) {
    int64_t i;
    for (i = 0; i + SL(LANES) <= n; i += SL(LANES)) SL_AT(y + i) = SL_GET(x + i);
    if (i == n) return;
    if (n >= SL(LANES)) SL_AT(y + n - SL(LANES)) = SL_GET(x + n - SL(LANES));
    else if (n >= SL(QUARTER)) {
        for (; i + SL(QUARTER) <= n; i += SL(QUARTER)) *(SL(short)*)(y + i) = *(const SL(short)*)(x + i);
        *(SL(short)*)(y + n - SL(QUARTER)) = *(const SL(short)*)(x + n - SL(QUARTER));
    } else for (; i < n; i++) y[i] = x[i];
}

/* Every row_step-th row of x from row_start on, of each every step-th element from start on; what lies outside is 0.
   v: rows, row_start, row_step, row_size, row_stride, columns, start, step, size. */
static void SL(sl_window)(REAL* y, const REAL* x, const int64_t* v) {
    int64_t n = v[5], start = v[6], step = v[7], size = v[8], r, q;
    int64_t left = start < 0 ? (step - 1 - start) / step : 0;
    int64_t right = start < size ? (size - start + step - 1) / step : 0;
    int64_t top = v[1] < 0 ? (v[2] - 1 - v[1]) / v[2] : 0;
    int64_t bottom = v[1] < v[3] ? (v[3] - v[1] + v[2] - 1) / v[2] : 0;
    right = right < n ? right : n;
    bottom = bottom < v[0] ? bottom : v[0];
    if (left > 0 || right < n || top > 0 || bottom < v[0]) memset(y, 0, v[0] * n * sizeof(REAL));
    if (left >= right) return;
    for (r = top; r < bottom; r++) {
        const REAL* line = x + (v[1] + r * v[2]) * v[4] + start;
        REAL* to = y + r * n;
        if (step == 1) SL(sl_copy)(to + left, line + left, right - left);
        else if (step == 2) for (q = left; q < right; q++) to[q] = line[2 * q];
        else for (q = left; q < right; q++) to[q] = line[q * step];
    }
}

static void SL(sl_place)(REAL* y, int64_t down, int64_t across, const REAL* x, int64_t stride, int64_t rows, int64_t columns) {
    int64_t r, q;
    for (r = 0; r < rows; r++, y += down, x += stride) {
        if (across == 1) SL(sl_copy)(y, x, columns);
        else for (q = 0; q < columns; q++) y[q * across] = x[q];
    }
}

/* to[p * width + f] = x[f * stride + p], 0 from `filters` on */
static void SL(sl_turn)(REAL* to, int64_t width, const REAL* x, int64_t stride, int64_t filters, int64_t places) {
    int64_t p, f, i;
    for (p = 0; p < places; p += 16) {
        int64_t n = places - p < 16 ? places - p : 16;
        for (f = 0; f < filters; f++)
            for (i = 0; i < n; i++) to[(p + i) * width + f] = x[f * stride + p + i];
        for (i = 0; i < n; i++)
            for (f = filters; f < width; f++) to[(p + i) * width + f] = 0;
    }
}

/* y[f * ys + p] = bias[f] + the sum over k of w[f * ws + wo[k]] * x[xo[k] + p]. Reads and writes whole vectors of places. */
SL_INLINE void SL(sl_tile)(int high, int wide, REAL* y, int64_t ys, const REAL* x, const int64_t* xo, const REAL* w,
                           int64_t ws, const int64_t* wo, int64_t taps, const REAL* bias) {
    SL(vec) sum[SL_HIGH][SL_LONG], v[SL_LONG];
    const REAL* row[SL_HIGH];
    SL_UNROLL for (int i = 0; i < high; i++) row[i] = w + i * ws;
    SL_UNROLL for (int i = 0; i < high; i++)
        SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = (bias ? bias[i] : 0) - (SL(vec)){0};
    for (int64_t k = 0; k < taps; k++) {
        const REAL* line = x + xo[k];
        int64_t at = wo[k];
        SL_UNROLL for (int j = 0; j < wide; j++) v[j] = SL_GET(line + j * SL(LANES));
        SL_UNROLL for (int i = 0; i < high; i++) {
            SL(vec) b = row[i][at] - (SL(vec)){0};
            SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = SL_FMA(b, v[j], sum[i][j]);
        }
    }
    SL_UNROLL for (int i = 0; i < high; i++)
        SL_UNROLL for (int j = 0; j < wide; j++) SL_AT(y + i * ys + j * SL(LANES)) = sum[i][j];
}

#define SL_CASE(h, n) case h * 8 + n: SL(sl_tile)(h, n, y + p, ys, x + p, xo, w, ws, wo, taps, bias); break;
#define SL_CASES(h) SL_CASE(h, 1) SL_CASE(h, 2) SL_CASE(h, 3)

static void SL(sl_slide)(REAL* y, int64_t ys, const REAL* x, const int64_t* xo, int64_t places, const REAL* w, int64_t ws,
                         const int64_t* wo, int64_t taps, int64_t filters, const REAL* bias) {
    int64_t p, wide, high;
    for (; filters > 0; filters -= high, y += high * ys, w += high * ws, bias = bias ? bias + high : bias) {
        high = filters < SL_HIGH ? filters : SL_HIGH;
        for (p = 0; p < places; p += wide * SL(LANES)) {
            int64_t left = (places - p + SL(LANES) - 1) / SL(LANES);
            wide = high <= 2 ? SL_LONG : SL_WIDE;
            wide = left < wide ? left : wide;
            switch (high * 8 + wide) {
            SL_CASES(1) SL_CASES(2) SL_CASES(3) SL_CASES(4) SL_CASE(1, 4) SL_CASE(2, 4)
#if SL_BYTES == 64
            SL_CASES(5) SL_CASES(6) SL_CASES(7) SL_CASES(8) SL_CASE(1, 5) SL_CASE(1, 6) SL_CASE(2, 5) SL_CASE(2, 6)
#endif
            }
        }
    }
}

#undef SL_CASE
#undef SL_CASES

/* w[k * ws + f] += the sum over rows r and columns q of x[xo[k] + r * xs + q] * g[(r * columns + q) * gs + f] */
SL_INLINE void SL(sl_outer_tile)(int tall, int wide, REAL* w, int64_t ws, const REAL* x, const int64_t* xo, int64_t xs,
                                 const REAL* g, int64_t gs, int64_t rows, int64_t columns) {
    SL(vec) sum[SL_TALL][2], v[2];
    const REAL* line[SL_TALL];
    SL_UNROLL for (int i = 0; i < tall; i++) {
        line[i] = x + xo[i];
        SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = (SL(vec)){0};
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t q = 0; q < columns; q++, g += gs) {
            SL_UNROLL for (int j = 0; j < wide; j++) v[j] = SL_GET(g + j * SL(LANES));
            SL_UNROLL for (int i = 0; i < tall; i++) {
                SL(vec) b = line[i][r * xs + q] - (SL(vec)){0};
                SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = SL_FMA(b, v[j], sum[i][j]);
            }
        }
    }
    SL_UNROLL for (int i = 0; i < tall; i++)
        SL_UNROLL for (int j = 0; j < wide; j++) SL_AT(w + i * ws + j * SL(LANES)) += sum[i][j];
}

#define SL_CASE(h) \
    case h * 2 + 1: SL(sl_outer_tile)(h, 1, w + k * ws + f, ws, x + r * xs, xo + k, xs, g + r * columns * gs + f, gs, n, columns); break; \
    case h * 2 + 2: SL(sl_outer_tile)(h, 2, w + k * ws + f, ws, x + r * xs, xo + k, xs, g + r * columns * gs + f, gs, n, columns); break;

/* `filters` is a multiple of the lanes. Sums are taken of strips of rows, and those added up. */
static void SL(sl_outer)(REAL* w, int64_t ws, const REAL* x, const int64_t* xo, int64_t xs, const REAL* g, int64_t gs,
                         int64_t rows, int64_t columns, int64_t taps, int64_t filters) {
    int64_t strip = columns < SL_STRIP ? SL_STRIP / columns : 1, blocks = (taps + SL_TALL - 1) / SL_TALL, r, f, b;
    for (r = 0; r < rows; r += strip) {
        int64_t n = rows - r < strip ? rows - r : strip;
        for (f = 0; f < filters; f += 2 * SL(LANES)) {
            int wide = filters - f > SL(LANES) ? 2 : 1;
            for (b = 0; b < blocks; b++) {
                int64_t k = taps * b / blocks;
                switch ((taps * (b + 1) / blocks - k) * 2 + wide) {
                SL_CASE(1) SL_CASE(2) SL_CASE(3) SL_CASE(4) SL_CASE(5) SL_CASE(6)
#if SL_BYTES == 64
                SL_CASE(7) SL_CASE(8) SL_CASE(9) SL_CASE(10) SL_CASE(11) SL_CASE(12)
#endif
                }
            }
        }
    }
}

#undef SL_CASE

static __attribute__((noinline)) REAL SL(sl_total)(SL(vec) v) {
    REAL lanes[SL(LANES)];
    SL_AT(lanes) = v;
    SL_UNROLL for (int h = SL(LANES) / 2; h > 0; h /= 2)
        SL_UNROLL for (int q = 0; q < h; q++) lanes[q] += lanes[q + h];
    return lanes[0];
}

/* w[f * ws + k] += the sum over p of g[f * gs + p] * x[xo[k] + p] where mask[p] is all ones. What is masked may be
   infinite. Reads whole vectors of places. */
SL_INLINE void SL(sl_dot_tile)(int high, int wide, REAL* w, int64_t ws, const REAL* g, int64_t gs, const REAL* x,
                               const int64_t* xo, const WHOLE* mask, int64_t places) {
    SL(vec) sum[SL_FEW][SL_LINE], v[SL_LINE];
    SL_UNROLL for (int i = 0; i < high; i++)
        SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = (SL(vec)){0};
    for (int64_t p = 0; p < places; p += SL(LANES)) {
        SL(bits) m = *(const SL(bits)*)(mask + p);
        SL_UNROLL for (int j = 0; j < wide; j++) v[j] = (SL(vec))(*(const SL(bits)*)(x + xo[j] + p) & m);
        SL_UNROLL for (int i = 0; i < high; i++) {
            SL(vec) a = SL_GET(g + i * gs + p);
            SL_UNROLL for (int j = 0; j < wide; j++) sum[i][j] = SL_FMA(a, v[j], sum[i][j]);
        }
    }
    SL_UNROLL for (int i = 0; i < high; i++)
        SL_UNROLL for (int j = 0; j < wide; j++) w[i * ws + j] += SL(sl_total)(sum[i][j]);
}

#define SL_CASE(h, n) case h * 16 + n: SL(sl_dot_tile)(h, n, w + k, ws, g, gs, x, xo + k, mask, places); break;
#define SL_CASES(h) SL_CASE(h, 1) SL_CASE(h, 2) SL_CASE(h, 3)

static void SL(sl_dot)(REAL* w, int64_t ws, const REAL* g, int64_t gs, const REAL* x, const int64_t* xo, const WHOLE* mask,
                       int64_t places, int64_t taps, int64_t filters) {
    int64_t high, b;
    for (; filters > 0; filters -= high, w += high * ws, g += high * gs) {
        high = filters < SL_FEW ? filters : SL_FEW;
        int64_t most = high == 1 ? SL_LINE : SL_TAPS, blocks = (taps + most - 1) / most;
        for (b = 0; b < blocks; b++) {
            int64_t k = taps * b / blocks;
            switch (high * 16 + taps * (b + 1) / blocks - k) {
            SL_CASES(1) SL_CASE(1, 4) SL_CASE(1, 5) SL_CASE(1, 6) SL_CASE(1, 7) SL_CASE(1, 8) SL_CASE(1, 9)
            SL_CASES(2) SL_CASES(3)
#if SL_BYTES == 64
            SL_CASES(4) SL_CASES(5) SL_CASES(6)
            SL_CASE(2, 4) SL_CASE(3, 4) SL_CASE(4, 4) SL_CASE(5, 4) SL_CASE(6, 4)
#endif
            }
        }
    }
}

#undef SL_CASE
#undef SL_CASES
/* Elements line[0], line[step] and so on, one a lane; of a line of step 2 one more is read. */
SL_INLINE SL(vec) SL(sl_every)(const REAL* line, int64_t step) {
    SL(vec) found;
    SL(bits) even;
    if (step == 1) return SL_GET(line);
    SL_UNROLL for (int j = 0; j < SL(LANES); j++) even[j] = 2 * j;
    if (step == 2) return SL_EVEN(SL_GET(line), SL_GET(line + SL(LANES)), even);
    SL_UNROLL for (int j = 0; j < SL(LANES); j++) found[j] = line[j * step];
    return found;
}

/* The windows of some places beside each other, a lane each: their largest elements and where they are, which begins with
   the first element of each. What lies before `left` and from `right` on is padding. */
SL_INLINE void SL(sl_top_lanes)(SL(vec)* top, SL(bits)* at, const REAL* x, const int64_t* v, int64_t column, int64_t step,
                                int inside) {
    enum { LINE = 512 };
    int64_t size = v[7], reach = (v[11] - 1) * v[12], length = SL(LANES) * step + reach, a, b, e, q;
    SL(bits) place, lane;
    REAL line[LINE];
    SL_UNROLL for (int j = 0; j < SL(LANES); j++) lane[j] = (WHOLE)(j * step);
    for (a = v[0]; a < v[1]; a += v[2])
        for (b = v[3]; b < v[4]; b += v[5]) {
            int64_t from = (a * v[6] + b) * size + column;
            const REAL* taken = x + from;
            if (!inside || from + length > v[13]) {
                int64_t left = column < 0 ? -column : 0, right = size - column < length ? size - column : length;
                for (q = 0; q < length; q++) line[q] = -(REAL)INFINITY;
                if (left < right) SL(sl_copy)(line + left, taken + left, right - left);
                taken = line;
            }
            for (e = 0; e < v[11]; e++) {
                SL(vec) value = SL(sl_every)(taken + e * v[12], step);
                SL(bits) take = (SL(bits))(value > *top) | (SL(bits))(value != value);
                place = lane + (WHOLE)(from + e * v[12]);
                *top = (SL(vec))(((SL(bits))value & take) | ((SL(bits))*top & ~take));
                *at = (place & take) | (*at & ~take);
            }
        }
}

/* Largest elements of windows along one line of results, and where in their plane they are: the first of equals, but the
   last NaN; -infinity and -1 where a window has no element.
   v: first, last and step of slices, the same of rows; rows and columns of a slice; places, first column, step between
   windows, taps, dilation; elements of the plane. Windows of a vector of places span at most 512 elements. */
static void SL(sl_top)(REAL* y, int64_t* index, const REAL* x, const int64_t* v) {
    int64_t step = v[10], size = v[7], reach = (v[11] - 1) * v[12], first = (v[0] * v[6] + v[3]) * size, done, q;
    int some = v[0] < v[1] && v[3] < v[4];
    for (done = 0; done < v[8]; done += SL(LANES)) {
        int64_t n = v[8] - done < SL(LANES) ? v[8] - done : SL(LANES), column = v[9] + done * step;
        int inside = column >= 0 && column + (n - 1) * step + reach < size;
        SL(vec) top = (SL(vec)){0} - (REAL)INFINITY;
        SL(bits) at;
        REAL best[SL(LANES)];
        WHOLE where[SL(LANES)];
        int64_t places[SL(LANES)];
        SL_UNROLL for (int j = 0; j < SL(LANES); j++) where[j] = (WHOLE)(first + column + j * step);
        if (!inside || !some) for (q = 0; q < n; q++) {   /* windows that begin in the padding, or have nothing else */
            int64_t from = column + q * step, late = from < 0 ? (v[12] - 1 - from) / v[12] : 0;
            where[q] = some && late < v[11] && from + late * v[12] < size ? where[q] + (WHOLE)(late * v[12]) : -1;
        }
        at = *(SL(bits)*)where;
        if (step == 1) SL(sl_top_lanes)(&top, &at, x, v, column, 1, inside);
        else if (step == 2) SL(sl_top_lanes)(&top, &at, x, v, column, 2, inside);
        else SL(sl_top_lanes)(&top, &at, x, v, column, step, inside);
        SL_AT(best) = top;
        *(SL(bits)*)where = at;
        SL_UNROLL for (int j = 0; j < SL(LANES); j++) places[j] = where[j];
        if (n == SL(LANES)) {
            memcpy(y + done, best, sizeof(best));
            memcpy(index + done, places, sizeof(places));
        } else for (q = 0; q < n; q++) y[done + q] = best[q], index[done + q] = places[q];
    }
}

#undef SL_AT
#undef SL_GET

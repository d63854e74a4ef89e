// Matrix products: cuBLAS, bound when it is first asked for, for floating and complex numbers; a kernel of tiles for integers,
// and for everything where the device is the host.
#include "launch.cuh"
#include "convert.cuh"
#include "device_complex.cuh"
#include "library.cuh"

#ifndef CYG_HOST
#include <dlfcn.h>
#endif

namespace {

template <class T> struct Total { typedef T type; };
template <> struct Total<uint8_t> { typedef int64_t type; };
template <> struct Total<int32_t> { typedef int64_t type; };

template <class V> CYG_FN V times(V a, V b) { return a * b; }
template <class P> CYG_FN complex_t<P> times(complex_t<P> a, complex_t<P> b) { return c_mul(a, b); }
CYG_FN int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
template <class V> CYG_FN V scaled(V a, double r) { return (V)(a * (V)r); }
template <class P> CYG_FN complex_t<P> scaled(complex_t<P> a, double r) { return c_scale(a, (P)r); }
template <class V> CYG_FN V nothing(V*) { return V(0); }
template <class P> CYG_FN complex_t<P> nothing(complex_t<P>*) { return complex_t<P>{0, 0}; }

// A tile of SIDE x SIDE results in a block, one to a thread; strides are in elements.
template <class T> struct Tiles {
    enum { SIDE = 16, THREADS = SIDE * SIDE };
    typedef ValueOf<T> V;
    typedef typename Total<V>::type Acc;
    CygProduct p;
    int64_t across, down;
    CYG_BODY void operator()(Grid g) const {
        CYG_SHARED(V, left, SIDE * SIDE);
        CYG_SHARED(V, right, SIDE * (SIDE + 1));
        CYG_LOCAL(Acc, acc);
        const int64_t batch = g.block / (across * down), tile = g.block % (across * down);
        const int64_t row = tile / across * SIDE, column = tile % across * SIDE;
        const T* a = (const T*)p.a + batch * p.a_batch;
        const T* b = (const T*)p.b + batch * p.b_batch;
        CYG_EACH_THREAD(t) CYG_MY(acc, t) = nothing((Acc*)nullptr);
        for (int64_t k = 0; k < p.k; k += SIDE) {
            CYG_EACH_THREAD(t) {
                const int i = t / SIDE, j = t % SIDE;
                left[t] = row + i < p.m && k + j < p.k
                    ? Stored<T>::load(a[(row + i) * p.a_row + (k + j) * p.a_column]) : nothing((V*)nullptr);
                right[i * (SIDE + 1) + j] = k + i < p.k && column + j < p.n
                    ? Stored<T>::load(b[(k + i) * p.b_row + (column + j) * p.b_column]) : nothing((V*)nullptr);
            }
            CYG_SYNC();
            CYG_EACH_THREAD(t) {
                for (int i = 0; i < SIDE; i++)
                    CYG_MY(acc, t) = CYG_MY(acc, t) + times((Acc)left[t / SIDE * SIDE + i], (Acc)right[i * (SIDE + 1) + t % SIDE]);
            }
            CYG_SYNC();
        }
        CYG_EACH_THREAD(t) {
            const int64_t i = row + t / SIDE, j = column + t % SIDE;
            if (i < p.m && j < p.n) {
                T* y = (T*)p.y + batch * p.y_batch + i * p.n + j;
                Acc v = scaled(CYG_MY(acc, t), p.alpha);
                if (p.beta != 0) v = v + scaled((Acc)Stored<T>::load(*y), p.beta);
                *y = Stored<T>::store((V)v);
            }
        }
    }
};

template <class T> int tiles(const CygProduct& p, void* stream) {
    Tiles<T> k;
    k.p = p;
    k.across = cyg_parts(p.n, Tiles<T>::SIDE), k.down = cyg_parts(p.m, Tiles<T>::SIDE);
    return cyg_launch(k, k.across * k.down * p.batches, stream);
}

#ifndef CYG_HOST

// Of cublas_v2.h and library_types.h: what is called here.
typedef int (*Gemm)(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,
                    long long a_step, const void* b, int b_type, int ldb, long long b_step, const void* beta, void* c, int c_type,
                    int ldc, long long c_step, int count, int compute, int algorithm);
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32F_FAST_TF32 = 77, DEFAULT_ALGORITHM = -1, NO_MEMORY = 3 };
enum { BATCHES = 65535 };                    // of one call: their number may become a dimension of a grid, which is no larger

struct Blas {
    CygCreate create;
    CygSetStream set_stream;
    Gemm gemm;
};
Blas blas;
CygHandles handles;

// The operand whose columns are the rows of the row-major matrix: its leading dimension, and whether it is transposed.
bool lead(int64_t row, int64_t column, int64_t rows, int64_t columns, int* ld, int* transposed) {
    if (column == 1 || columns == 1) {
        *transposed = 0, *ld = (int)cyg_max<int64_t>(rows == 1 ? columns : row, cyg_max<int64_t>(columns, 1));
        return rows == 1 || row >= columns;
    }
    if (row == 1 || rows == 1) {
        *transposed = 1, *ld = (int)cyg_max<int64_t>(column, cyg_max<int64_t>(rows, 1));
        return column >= rows;
    }
    return false;
}

int by_cublas(int code, const CygProduct& p, void* stream) {
    if (!blas.gemm) return CYG_NO_LIBRARY;
    int lda, ldb, ta, tb;
    if (!lead(p.a_row, p.a_column, p.m, p.k, &lda, &ta) || !lead(p.b_row, p.b_column, p.k, p.n, &ldb, &tb)) return CYG_STRIDES;
    const int type = code == C_FLOAT16 ? 2 : code == C_BFLOAT16 ? 14 : code == C_FLOAT32 ? 0 : code == C_FLOAT64 ? 1
        : code == C_COMPLEX64 ? 4 : 5;
    const bool wide = code == C_FLOAT64 || code == C_COMPLEX128, tf32 = p.tf32 && (code == C_FLOAT32 || code == C_COMPLEX64);
    const double alpha[2] = {p.alpha, 0}, beta[2] = {p.beta, 0};
    const float alpha_f[2] = {(float)p.alpha, 0}, beta_f[2] = {(float)p.beta, 0};
    std::lock_guard<std::mutex> hold(handles.busy);
    void* handle;
    const int error = handles.of(stream, blas.create, blas.set_stream, "cublasCreate or cublasSetStream", &handle);
    if (error) return error;
    const int64_t size = c_size(code);
    for (int64_t done = 0; done < p.batches; done += BATCHES) {
        auto multiply = [&] {
            return blas.gemm(handle, tb, ta, (int)p.n, (int)p.m, (int)p.k, wide ? (const void*)alpha : alpha_f,
                p.b + done * p.b_batch * size, type, ldb, p.b_batch, p.a + done * p.a_batch * size, type, lda, p.a_batch,
                wide ? (const void*)beta : beta_f, p.y + done * p.y_batch * size, type, (int)p.n, p.y_batch,
                (int)cyg_min<int64_t>(p.batches - done, BATCHES), wide ? COMPUTE_64F : tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F,
                DEFAULT_ALGORITHM);
        };
        int status = multiply();
        if (status == NO_MEMORY && cyg_make_room()) status = multiply();
        if (status != 0) return cyg_library_failed("cublasGemmStridedBatchedEx", status, nullptr);
    }
    return 0;
}

#endif

}

int cyg_blas_open(const char* path) {
#ifdef CYG_HOST
    (void)path;
    return 1;
#else
    if (blas.gemm) return 1;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    blas.create = (CygCreate)dlsym(library, "cublasCreate_v2");
    blas.set_stream = (CygSetStream)dlsym(library, "cublasSetStream_v2");
    blas.gemm = (Gemm)dlsym(library, "cublasGemmStridedBatchedEx");
    if (!blas.create || !blas.set_stream) blas.gemm = nullptr;
    return blas.gemm != nullptr;
#endif
}

int cyg_product(int code, const CygProduct* p, void* stream) {
    switch (code) {
#define CASE(code, T) case code: return tiles<T>(*p, stream);
        CYG_INTEGERS(CASE)
#ifdef CYG_HOST
        CYG_REALS(CASE)
        CYG_COMPLEX(CASE)
#endif
#undef CASE
    }
#ifdef CYG_HOST
    return CYG_NO_KERNEL;
#else
    return code == C_BOOL ? (int)CYG_NO_KERNEL : by_cublas(code, *p, stream);
#endif
}

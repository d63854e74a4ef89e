// Convolutions by cuDNN, bound when it is first asked for. Numbers and prototypes are those of cudnn_graph.h, cudnn_ops.h and
// cudnn_cnn.h, which versions 8 and 9 have in common.
#include <dlfcn.h>
#include <stdio.h>

#include <array>

#include "geometry.cuh"
#include "library.cuh"
#include "types.cuh"

namespace {

enum { DATA_FLOAT = 0, DATA_DOUBLE = 1, DATA_HALF = 2, DATA_BFLOAT16 = 9 };
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, FMA_MATH = 3 };
enum { NCHW = 0, CROSS_CORRELATION = 1, DETERMINISTIC = 1, MOST_ALGORITHMS = 16 };

struct Perf {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};
static_assert(sizeof(Perf) == 48, "cudnnConvolutionFwdAlgoPerf_t and its like");

// The functions of the three kinds differ in their names: a, b are (x, w), (w, dy) and (x, dy), c is y, dx and dw.
struct Kind {
    int (*choose)(void* handle, void* a, void* b, void* conv, void* c, int wanted, int* found, Perf* perf);
    int (*measure)(void* handle, void* a, const void* pa, void* b, const void* pb, void* conv, void* c, void* pc, int wanted,
                   int* found, Perf* perf, void* room, size_t nbytes);
    int (*room)(void* handle, void* a, void* b, void* conv, void* c, int algorithm, size_t* nbytes);
    int (*run)(void* handle, const void* alpha, void* a, const void* pa, void* b, const void* pb, void* conv, int algorithm,
               void* room, size_t nbytes, const void* beta, void* c, void* pc);
};
const char* const KINDS[3] = {"Forward", "BackwardData", "BackwardFilter"};

struct Dnn {
    bool open = false;
    const int* on = nullptr;                 // where an imitation of the library says whether it is there
    CygCreate create;
    CygSetStream set_stream;
    size_t (*version)(void);
    const char* (*text)(int status);
    int (*new_tensor)(void**);
    int (*new_filter)(void**);
    int (*new_convolution)(void**);
    int (*end_tensor)(void*);
    int (*end_filter)(void*);
    int (*end_convolution)(void*);
    int (*set_tensor)(void*, int type, int ndim, const int* sizes, const int* strides);
    int (*set_filter)(void*, int type, int format, int ndim, const int* sizes);
    int (*set_convolution)(void*, int ndim, const int* pad, const int* stride, const int* dilation, int mode, int compute);
    int (*set_groups)(void*, int groups);
    int (*set_math)(void*, int math);
    Kind kinds[3];
};
Dnn dnn;
CygHandles handles;

template <class F> bool bind(void* library, const char* name, F* f) {
    *f = (F)dlsym(library, name);
    return *f != nullptr;
}
template <class F> bool bind_kind(void* library, const char* before, const char* kind, const char* after, F* f) {
    char name[96];
    snprintf(name, sizeof(name), "cudnn%s%s%s", before, kind, after);
    return bind(library, name, f);
}

int failed(const char* function, int status) { return cyg_library_failed(function, status, dnn.text(status)); }

// The two numberings of "this is not supported", of version 8 and of version 9.
bool is_refusal(int status) { return status == 9 || status / 1000 == 3; }

// And of "there was no memory".
bool is_lack(int status) { return status == 2 || status == 4004; }

typedef std::array<int64_t, 28> Key;

struct Plan {
    int which, algorithm = 0;
    void *x = nullptr, *w = nullptr, *y = nullptr, *conv = nullptr;
    size_t room = 0;
    bool kept = false, wide = false;
    ~Plan() {
        if (x) dnn.end_tensor(x);
        if (y) dnn.end_tensor(y);
        if (w) dnn.end_filter(w);
        if (conv) dnn.end_convolution(conv);
    }
    void* a() const { return which == CYG_CONV_INPUT ? w : x; }
    void* b() const { return which == CYG_CONV_RESULT ? w : y; }
    void* c() const { return which == CYG_CONV_RESULT ? y : which == CYG_CONV_INPUT ? x : w; }
};
struct Places {                              // of a, b and c in memory
    char *a, *b, *c;
    Places(int which, const Conv& v) : a(which == CYG_CONV_INPUT ? v.w : v.x), b(which == CYG_CONV_RESULT ? v.w : v.y),
                                       c(which == CYG_CONV_RESULT ? v.y : which == CYG_CONV_INPUT ? v.x : v.w) {}
};

constexpr size_t MOST_KEPT = 10000;
std::map<Key, Plan*> plans;                  // guarded by handles.busy

Key key_of(int which, const Conv& c, int settings) {
    Key k = {which, settings, c.dtype, c.device, c.nd, c.batch, c.groups, c.channels, c.filters};
    for (int d = 0; d < 3; d++) {
        const int64_t of[6] = {c.size[d], c.out[d], c.window[d], c.stride[d], c.pad[d], c.dilation[d]};
        for (int i = 0; i < 6; i++) k[9 + d * 6 + i] = of[i];
    }
    return k;
}

// Row-major; cuDNN wants two dimensions beside batch and channels at least.
int tensor(void* t, int type, int64_t batch, int64_t channels, const int64_t* size, int nd) {
    int sizes[5], strides[5], step = 1;
    sizes[0] = (int)batch, sizes[1] = (int)channels;
    for (int d = 0; d < nd; d++) sizes[2 + d] = (int)size[3 - nd + d];
    for (int d = nd + 1; d >= 0; d--) strides[d] = step, step *= sizes[d];
    return dnn.set_tensor(t, type, nd + 2, sizes, strides);
}

// CYG_NOT_TAKEN: not within 32 bits, or refused.
int describe(Plan* p, const Conv& c, int settings) {
    const int type = c.dtype == C_FLOAT16 ? DATA_HALF : c.dtype == C_BFLOAT16 ? DATA_BFLOAT16 : c.dtype == C_FLOAT32 ? DATA_FLOAT : DATA_DOUBLE;
    const int nd = c.nd < 2 ? 2 : c.nd;
    const int64_t weight = c.groups * c.filters * c.channels * c.taps;
    if (cyg_max(c.batch * c.groups * cyg_max(c.channels * c.points, c.filters * c.places), weight) > INT32_MAX) return CYG_NOT_TAKEN;
    int filter[5] = {(int)(c.groups * c.filters), (int)c.channels}, pad[3], stride[3], dilation[3], status;
    for (int d = 0; d < nd; d++) {
        const int k = 3 - nd + d;
        filter[2 + d] = (int)c.window[k], pad[d] = (int)c.pad[k], stride[d] = (int)c.stride[k], dilation[d] = (int)c.dilation[k];
    }
    p->wide = type == DATA_DOUBLE;
    if ((status = dnn.new_tensor(&p->x)) != 0 || (status = dnn.new_tensor(&p->y)) != 0)
        return failed("cudnnCreateTensorDescriptor", status);
    if ((status = dnn.new_filter(&p->w)) != 0) return failed("cudnnCreateFilterDescriptor", status);
    if ((status = dnn.new_convolution(&p->conv)) != 0) return failed("cudnnCreateConvolutionDescriptor", status);
    const int math = type == DATA_HALF || type == DATA_BFLOAT16 ? TENSOR_OP_MATH
        : type == DATA_FLOAT && !(settings & CYG_CONV_TF32) ? FMA_MATH : DEFAULT_MATH;
    const char* name = "cudnnSetTensorNdDescriptor";
    status = tensor(p->x, type, c.batch, c.groups * c.channels, c.size, nd);
    if (status == 0) status = tensor(p->y, type, c.batch, c.groups * c.filters, c.out, nd);
    if (status == 0) name = "cudnnSetFilterNdDescriptor", status = dnn.set_filter(p->w, type, NCHW, nd + 2, filter);
    if (status == 0) {
        name = "cudnnSetConvolutionNdDescriptor";
        status = dnn.set_convolution(p->conv, nd, pad, stride, dilation, CROSS_CORRELATION, p->wide ? DATA_DOUBLE : DATA_FLOAT);
    }
    if (status == 0) name = "cudnnSetConvolutionGroupCount", status = dnn.set_groups(p->conv, (int)c.groups);
    if (status == 0) name = "cudnnSetConvolutionMathType", status = dnn.set_math(p->conv, math);
    return status == 0 ? 0 : is_refusal(status) ? (int)CYG_NOT_TAKEN : failed(name, status);
}

// The first algorithm of those offered, best first, that the settings and the room allow.
int choose(Plan* p, const Conv& c, int settings, void* handle, char* memory, int64_t most, void* stream) {
    const Kind& kind = dnn.kinds[p->which];
    Perf perf[MOST_ALGORITHMS];
    int found = 0, status;
    auto look = [&] {
        if (!memory) return kind.choose(handle, p->a(), p->b(), p->conv, p->c(), MOST_ALGORITHMS, &found, perf);
        const Places at(p->which, c);
        return cyg_library_call(stream, [&] {
            return kind.measure(handle, p->a(), at.a, p->b(), at.b, p->conv, p->c(), at.c, MOST_ALGORITHMS, &found, perf, memory, (size_t)most);
        });
    };
    status = look();
    if (is_lack(status) && cyg_make_room()) status = look();
    if (status != 0) return is_refusal(status) ? (int)CYG_NOT_TAKEN : failed("looking for an algorithm", status);
    for (int i = 0; i < found; i++) {
        const Perf& f = perf[i];
        if (f.status != 0 || (!(settings & CYG_CONV_ANY_ORDER) && f.determinism != DETERMINISTIC)) continue;
        if (c.dtype != C_FLOAT32 || settings & CYG_CONV_TF32) {
            status = dnn.set_math(p->conv, f.math);
            if (status != 0) return failed("cudnnSetConvolutionMathType", status);
        }
        p->algorithm = f.algorithm;
        status = kind.room(handle, p->a(), p->b(), p->conv, p->c(), f.algorithm, &p->room);
        if (status == 0 && (int64_t)p->room <= most) return 0;
    }
    return CYG_NOT_TAKEN;
}

int handle_for(void* stream, void** handle) { return handles.of(stream, dnn.create, dnn.set_stream, "cudnnCreate or cudnnSetStream", handle); }

}

int cyg_cudnn_open(const char* path) {
    if (cyg_cudnn_version()) return 1;
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
#ifdef CYG_HOST
    dnn.on = (const int*)dlsym(library, "cygrad_imitated");
    if (!dnn.on) return 0;                   // NVIDIA's own has no business in memory of the processor
#endif
    bool all = bind(library, "cudnnCreate", &dnn.create) && bind(library, "cudnnSetStream", &dnn.set_stream)
        && bind(library, "cudnnGetVersion", &dnn.version) && bind(library, "cudnnGetErrorString", &dnn.text)
        && bind(library, "cudnnCreateTensorDescriptor", &dnn.new_tensor) && bind(library, "cudnnCreateFilterDescriptor", &dnn.new_filter)
        && bind(library, "cudnnCreateConvolutionDescriptor", &dnn.new_convolution)
        && bind(library, "cudnnDestroyTensorDescriptor", &dnn.end_tensor)
        && bind(library, "cudnnDestroyFilterDescriptor", &dnn.end_filter)
        && bind(library, "cudnnDestroyConvolutionDescriptor", &dnn.end_convolution)
        && bind(library, "cudnnSetTensorNdDescriptor", &dnn.set_tensor) && bind(library, "cudnnSetFilterNdDescriptor", &dnn.set_filter)
        && bind(library, "cudnnSetConvolutionNdDescriptor", &dnn.set_convolution)
        && bind(library, "cudnnSetConvolutionGroupCount", &dnn.set_groups)
        && bind(library, "cudnnSetConvolutionMathType", &dnn.set_math);
    for (int i = 0; i < 3; i++) {
        Kind& k = dnn.kinds[i];
        all = all && bind_kind(library, "GetConvolution", KINDS[i], "Algorithm_v7", &k.choose)
            && bind_kind(library, "FindConvolution", KINDS[i], "AlgorithmEx", &k.measure)
            && bind_kind(library, "GetConvolution", KINDS[i], "WorkspaceSize", &k.room)
            && bind_kind(library, "Convolution", KINDS[i], "", &k.run);
    }
    dnn.open = all;
    return cyg_cudnn_version() != 0;
}

int64_t cyg_cudnn_version(void) { return dnn.open && (!dnn.on || *dnn.on) ? (int64_t)dnn.version() : 0; }

int cyg_convolution_known(int which, const void* conv, int settings) {
    std::lock_guard<std::mutex> hold(handles.busy);
    return plans.count(key_of(which, *(const Conv*)conv, settings)) != 0;
}

int cyg_convolution_plan(int which, const void* conv, int settings, char* memory, int64_t most, void** plan, int64_t* room, void* stream) {
    const Conv& c = *(const Conv*)conv;
    std::lock_guard<std::mutex> hold(handles.busy);
    const Key key = key_of(which, c, settings);
    const auto found = plans.find(key);
    Plan* p = found != plans.end() ? found->second : nullptr;
    if (!p) {
        p = new Plan;
        p->which = which;
        void* handle = nullptr;
        int error = describe(p, c, settings);
        if (!error) error = handle_for(stream, &handle);
        if (!error) error = choose(p, c, settings, handle, memory, most, stream);
        if (error && error != CYG_NOT_TAKEN) {
            delete p;
            return error;
        }
        if (error) p->algorithm = -1;
        p->kept = plans.size() < MOST_KEPT;
        if (p->kept) plans[key] = p;
    }
    *plan = p, *room = (int64_t)p->room;
    return p->algorithm < 0 ? (int)CYG_NOT_TAKEN : 0;
}

void cyg_convolution_done(void* plan) {
    Plan* p = (Plan*)plan;
    if (p && !p->kept) delete p;
}

int cyg_convolve(const void* plan, const void* conv, double beta, char* memory, int64_t room, void* stream) {
    const Plan& p = *(const Plan*)plan;
    const Places at(p.which, *(const Conv*)conv);
    const double one = 1;
    const float one_f = 1, beta_f = (float)beta;
    std::lock_guard<std::mutex> hold(handles.busy);
    void* handle;
    const int error = handle_for(stream, &handle);
    if (error) return error;
    auto run = [&] {
        return cyg_library_call(stream, [&] {
            return dnn.kinds[p.which].run(handle, p.wide ? (const void*)&one : &one_f, p.a(), at.a, p.b(), at.b, p.conv, p.algorithm,
                                          memory, (size_t)room, p.wide ? (const void*)&beta : &beta_f, p.c(), at.c);
        });
    };
    int status = run();
    if (is_lack(status) && cyg_make_room()) status = run();
    return status == 0 ? 0 : failed("a convolution", status);
}

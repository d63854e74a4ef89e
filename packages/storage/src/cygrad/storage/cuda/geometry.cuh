// The structs of ops_common_pool.pxi and ops_common_conv.pxi.
#ifndef CYGRAD_GEOMETRY_CUH
#define CYGRAD_GEOMETRY_CUH

#include <stdint.h>

struct Pool {
    int nd, adaptive, with_padding;
    int64_t divisor, size[3], out[3], window[3], stride[3], pad[3], dilation[3], planes, points, places;
    int dtype, device;
    const char* x;
    char* y;
    int64_t* index;
};
struct Conv {
    int nd;
    int64_t batch, groups, channels, filters, size[3], out[3], window[3], stride[3], pad[3], dilation[3], taps, places, points, tile;
    int plain, dtype, device;
    int64_t block, blocks;
    char *x, *w, *bias, *y;
};

#endif

/* What the driver of recurrent layers (ops_recurrent.pxi) tells their kernels. All arrays are row-major and of one type. */
#ifndef CYGRAD_RECURRENT_PLAN_H
#define CYGRAD_RECURRENT_PLAN_H

#include <stdint.h>

enum { PLAN_TANH, PLAN_RELU, PLAN_LSTM, PLAN_GRU };

typedef struct {
    int mode;
    int backwards;                 /* the last step comes first */
    int64_t hidden;                /* H, length of a state */
    int64_t gates;                 /* G: gates of a row have G * H columns, the shares of one gate side by side */
    int64_t kept_columns;          /* of H elements */
    int64_t steps;
    const int64_t *counts;         /* rows of each step: never more than those of the step before */
    const int64_t *starts;         /* the first of them; N rows in all */
    int64_t batch;                 /* B: rows of the first step */
    int64_t tall;                  /* rows of one chunk */
    const char *w;                 /* weights as `pack` lays them out */
    const char *bias;              /* (G * H) or NULL: of the state's share */
    const char *h0, *c0;           /* (B, H): states to start from; c0 of an LSTM only, as all that has c in its name */
    char *y, *c;                   /* (N, H): states after each step */
    char *kept;                    /* (N, kept_columns * H) or NULL: what the gradient reads */
    const char *x;                 /* (N, G * H): the input's share */
    const char *gy, *gc;           /* (N, H): gradients of y and c; gc or NULL */
    char *gx;                      /* (N, G * H): gradient of the input's share */
    char *gh;                      /* the same of the state's share: gx itself, but for a GRU */
    char *gh0, *gc0;               /* (B, H) */
    char *before;                  /* (N, H): the state before each step, for the gradient of the weights */
} RecurrentPlan;

#endif

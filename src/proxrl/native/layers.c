/* Layers of small networks, forward and backward, each with its ReLU, on one core
   (agents/kernels.py). For batches this small, a call of a library costs as much as its arithmetic.

       y = max(0, x W^T + b)                                                      dense
       dW = g^T x,   db = sum g,   dx = g W,   with g = dh/dy where y > 0

   All numbers are float32 in row-major order; states are bytes. A row of y depends on its own row of
   x only, bit for bit: a state has the same values in a batch and alone. NaN passes through, except
   that a weight of the convolution has no effect where the image is zero. */

#include "vectors.h"

/* ------------------------------------------------------------------------------------ products */

/* c[rows, WIDTH] = a[rows, depth] panel[depth, WIDTH], or += with `add`. */
INLINE void tile(const int rows, size_t depth, const float *restrict a, size_t a_row,
                 size_t a_column, const float *restrict panel, float *restrict c, size_t c_row,
                 int add)
{
    lanes left[TILE], right[TILE];
    UNROLL for (int i = 0; i < rows; i++) {
        left[i] = add ? load(c + i * c_row) : (lanes){0};
        right[i] = add ? load(c + i * c_row + LANES) : (lanes){0};
    }
    for (size_t k = 0; k < depth; k++, panel += WIDTH) {
        const lanes l = load(panel), r = load(panel + LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            const float factor = a[i * a_row + k * a_column];
            left[i] += factor * l;
            right[i] += factor * r;
        }
    }
    UNROLL for (int i = 0; i < rows; i++) {
        store(c + i * c_row, left[i]);
        store(c + i * c_row + LANES, right[i]);
    }
}

INLINE void tiles(size_t rows, size_t depth, const float *a, size_t a_row, size_t a_column,
                  const float *panel, float *c, size_t c_row, int add)
{
    size_t i = 0;
    for (; i + TILE <= rows; i += TILE)
        tile(TILE, depth, a + i * a_row, a_row, a_column, panel, c + i * c_row, c_row, add);
    for (; i + 2 <= rows; i += 2)
        tile(2, depth, a + i * a_row, a_row, a_column, panel, c + i * c_row, c_row, add);
    for (; i < rows; i++)
        tile(1, depth, a + i * a_row, a_row, a_column, panel, c + i * c_row, c_row, add);
}

/* c[rows, columns] = a b, with b[depth, columns] copied panel by panel: where rows are a multiple of
   4 KB apart, a column of panels would share the same few places of the L1 cache. Columns that do
   not fill a panel are computed in `rest`, [rows, WIDTH]. */
INLINE void product(size_t rows, size_t columns, size_t depth, const float *a, size_t a_row,
                    size_t a_column, const float *b, float *c, float *rest)
{
    float panel[DEPTH * WIDTH] __attribute__((aligned(64)));
    if (depth == 0) {
        memset(c, 0, rows * columns * sizeof *c);
        return;
    }
    for (size_t j = 0; j < columns; j += WIDTH) {
        const size_t width = columns - j < WIDTH ? columns - j : WIDTH;
        float *const to = width == WIDTH ? c + j : rest;
        const size_t to_row = width == WIDTH ? columns : WIDTH;
        for (size_t from = 0; from < depth; from += DEPTH) {
            const size_t part = depth - from < DEPTH ? depth - from : DEPTH;
            const float *values = b + from * columns + j;
            if (width < WIDTH)
                memset(panel, 0, sizeof panel);
            for (size_t k = 0; k < part; k++, values += columns)
                if (width == WIDTH)
                    memcpy(panel + k * WIDTH, values, WIDTH * sizeof *values);
                else
                    memcpy(panel + k * WIDTH, values, width * sizeof *values);
            tiles(rows, part, a + from * a_column, a_row, a_column, panel, to, to_row, from > 0);
        }
        if (width < WIDTH)
            for (size_t i = 0; i < rows; i++)
                memcpy(c + i * columns + j, rest + i * WIDTH, width * sizeof *c);
    }
}

/* A dot product has eight partial sums, on every CPU. A register holds those of SHARED units, and a
   block of y has ROWS x UNITS numbers. */
enum { SHARED = LANES / 8, ROWS = SHARED == 1 ? 4 : 8, GROUPS = SHARED == 1 ? 3 : 2 };
enum { UNITS = SHARED * GROUPS };

/* Eight numbers, or the `left` that there are and zeros, for each of SHARED units, whose numbers are
   `next` apart: 0 for the same ones. And from the partial sums of units to y: without a branch, which
   would be mispredicted half of the time, and max(0, NaN) is NaN in this order. */
#ifdef __AVX512F__
INLINE lanes join(const float *from, size_t next, size_t left)
{
    const __mmask8 there = left >= 8 ? 0xff : (1 << left) - 1;
    const __m256 first = left >= 8 ? _mm256_loadu_ps(from) : _mm256_maskz_loadu_ps(there, from);
    if (next == 0)
        return (lanes)_mm512_broadcast_f32x8(first);
    const float *const other = from + next;
    const __m256 second = left >= 8 ? _mm256_loadu_ps(other) : _mm256_maskz_loadu_ps(there, other);
    return (lanes)_mm512_insertf32x8(_mm512_castps256_ps512(first), second, 1);
}

INLINE void finish(const int units, const lanes *partial, const float *bias, int with_relu, float *y)
{
    const __m512 first = (__m512)partial[0], second = (__m512)partial[1];
    const __m512 fours = _mm512_shuffle_f32x4(first, second, 0x88) + /* 0 + 4, 1 + 5, 2 + 6, 3 + 7 */
                         _mm512_shuffle_f32x4(first, second, 0xdd);
    const __m512 twos = fours + _mm512_permute_ps(fours, 0x4e);
    const __m512 ones = twos + _mm512_permute_ps(twos, 0xb1);
    const __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    __m128 sums = _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, ones));
    sums += units == 1 ? _mm_load_ss(bias) : _mm_loadu_ps(bias);
    if (with_relu)
        sums = _mm_max_ps(_mm_setzero_ps(), sums);
    if (units == 1)
        _mm_store_ss(y, sums);
    else
        _mm_storeu_ps(y, sums);
}
#else
INLINE lanes join(const float *from, size_t next, size_t left)
{
    if (left >= 8)
        return load(from);
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), places);
    return (lanes)_mm256_maskload_ps(from, there);
}

INLINE void finish(const int units, const lanes *partial, const float *bias, int with_relu, float *y)
{
    UNROLL for (int j = 0; j < units; j++) {
        const __m256 eight = (__m256)partial[j];
        const __m128 fours = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
        const __m128 twos = fours + _mm_movehl_ps(fours, fours); /* 0 + 4 + (2 + 6), 1 + 5 + ... */
        const __m128 sum = _mm_set_ss(bias[j] + (twos[0] + twos[1]));
        _mm_store_ss(y + j, with_relu ? _mm_max_ss(_mm_setzero_ps(), sum) : sum);
    }
}
#endif

/* y[rows, units] = x[rows, inputs] w[units, inputs]^T + bias, for a block of y: UNITS, or one. */
INLINE void dots(const int rows, const int units, size_t inputs, const float *restrict x,
                 const float *restrict w, const float *restrict bias, int with_relu,
                 float *restrict y, size_t y_row)
{
    const int groups = units == 1 ? 1 : GROUPS;
    const size_t next = units == 1 ? 0 : inputs; /* one unit shares its register with itself */
    lanes partial[ROWS][GROUPS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < GROUPS; j++) partial[i][j] = (lanes){0};
    for (size_t k = 0; k < inputs; k += 8) {
        lanes weights[GROUPS];
        UNROLL for (int j = 0; j < groups; j++)
            weights[j] = join(w + j * SHARED * inputs + k, next, inputs - k);
        UNROLL for (int i = 0; i < rows; i++) {
            const lanes values = join(x + i * inputs + k, 0, inputs - k);
            UNROLL for (int j = 0; j < groups; j++) partial[i][j] += values * weights[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        finish(units, partial[i], bias, with_relu, y + i * y_row);
}

/* --------------------------------------------------------------------------------- dense layers */

void dense_forward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                   const float *bias, int with_relu, float *y)
{
    for (size_t i = 0, rows; i < batch; i += rows, x += rows * inputs, y += rows * units) {
        size_t j = 0;
        rows = i + ROWS <= batch ? ROWS : 1;
        for (; j + UNITS <= units; j += UNITS)
            if (rows == ROWS)
                dots(ROWS, UNITS, inputs, x, weight + j * inputs, bias + j, with_relu, y + j, units);
            else
                dots(1, UNITS, inputs, x, weight + j * inputs, bias + j, with_relu, y + j, units);
        for (; j < units; j++)
            if (rows == ROWS)
                dots(ROWS, 1, inputs, x, weight + j * inputs, bias + j, with_relu, y + j, units);
            else
                dots(1, 1, inputs, x, weight + j * inputs, bias + j, with_relu, y + j, units);
    }
}

/* `gradient` is dh/dy. `scratch` has room for batch x units + max(batch, units) x WIDTH numbers.
   Without `to_x`, dx is not computed. */
void dense_backward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                    const float *y, int with_relu, const float *gradient, float *scratch,
                    float *to_weight, float *to_bias, float *to_x)
{
    float *const g = scratch, *const rest = scratch + batch * units;
    memset(to_bias, 0, units * sizeof *to_bias);
    for (size_t i = 0; i < batch; i++) {
        size_t j = 0;
        for (; j + LANES <= units; j += LANES) {
            const size_t at = i * units + j;
            const lanes passed = with_relu ? before_relu(load(gradient + at), load(y + at))
                                           : load(gradient + at);
            store(g + at, passed);
            store(to_bias + j, load(to_bias + j) + passed);
        }
        for (; j < units; j++) {
            const size_t at = i * units + j;
            g[at] = with_relu && y[at] <= 0 ? 0 : gradient[at];
            to_bias[j] += g[at];
        }
    }
    product(units, inputs, batch, g, 1, units, x, to_weight, rest);
    if (to_x)
        product(batch, inputs, units, g, units, 1, weight, to_x, rest);
}

/* --------------------------------------------------- a 3 x 3 convolution with 16 output channels

   The images of small games are mostly zeros. So each value that is not zero is added to the nine
   places of the output that it reaches: three runs of three places, contiguous in memory. Borders
   of two places around the output take what falls outside. `native/call.py` has these sizes too. */

enum { CHANNELS = 16, RUN = 3 * CHANNELS };

/* to[RUN] += factor * from[RUN] */
INLINE void add_run(float *restrict to, float factor, const float *restrict from)
{
    lanes sums[RUN / LANES];
    UNROLL for (int i = 0; i < RUN / LANES; i++)
        sums[i] = load(to + i * LANES) + factor * load(from + i * LANES);
    UNROLL for (int i = 0; i < RUN / LANES; i++) store(to + i * LANES, sums[i]);
}

/* The weight of a kernel: from [output][dy][dx][channel], torch's channels_last, to runs
   [dy][channel][2 - dx][output], or `back`: only then is `weight` written. */
INLINE void convert_kernel(size_t channels, float *weight, float *runs, int back)
{
    for (size_t out = 0; out < CHANNELS; out++)
        for (size_t dy = 0; dy < 3; dy++)
            for (size_t dx = 0; dx < 3; dx++)
                for (size_t channel = 0; channel < channels; channel++, weight++) {
                    float *run = runs + ((dy * channels + channel) * 3 + 2 - dx) * CHANNELS + out;
                    if (back)
                        *weight = *run;
                    else
                        *run = *weight;
                }
}

/* Calls `EACH(value, run, place)`, for each dy, for the values of an image that are not zero, with
   the caller's height, width, channels, runs and padded. Skips eight zeros at a time. */
#define FOR_EACH_VALUE(image, EACH)                                                               \
    for (size_t at = 0; at < height * width * channels; at++) {                                   \
        uint64_t eight;                                                                           \
        while (at + 8 <= height * width * channels &&                                             \
               (memcpy(&eight, image + at, 8), eight == 0))                                       \
            at += 8;                                                                              \
        if (at == height * width * channels)                                                      \
            break;                                                                                \
        if (image[at] == 0)                                                                       \
            continue;                                                                             \
        const size_t pixel = at / channels, channel = at % channels;                              \
        const size_t row = pixel / width, column = pixel % width;                                 \
        const float value = image[at];                                                            \
        for (size_t dy = 0; dy < 3; dy++) {                                                       \
            float *const run = runs + (dy * channels + channel) * RUN;                            \
            float *const place = padded + ((row + 2 - dy) * (width + 2) + column) * CHANNELS;     \
            EACH(value, run, place);                                                              \
        }                                                                                         \
    }

/* `scratch` has room for 9 x channels x 16 + (height + 2) x (width + 2) x 16 numbers. */
void convolution_forward(size_t batch, size_t height, size_t width, size_t channels,
                         const uint8_t *images, const float *weight, const float *bias,
                         float *scratch, float *y)
{
    float *const runs = scratch, *const padded = scratch + 9 * channels * CHANNELS;
    convert_kernel(channels, (float *)weight, runs, 0);
    for (size_t i = 0; i < batch; i++, images += height * width * channels) {
        for (size_t place = 0; place < (height + 2) * (width + 2) * CHANNELS; place += CHANNELS)
            UNROLL for (int at = 0; at < CHANNELS; at += LANES)
                store(padded + place + at, load(bias + at));
#define ADD_TO_OUTPUT(value, run, place) add_run(place, value, run)
        FOR_EACH_VALUE(images, ADD_TO_OUTPUT)
        for (size_t row = 2; row < height; row++) {
            const float *const sums = padded + (row * (width + 2) + 2) * CHANNELS;
            for (size_t at = 0; at < (width - 2) * CHANNELS; at += LANES, y += LANES)
                store(y, relu(load(sums + at)));
        }
    }
}

void convolution_backward(size_t batch, size_t height, size_t width, size_t channels,
                          const uint8_t *images, const float *y, const float *gradient,
                          float *scratch, float *to_weight, float *to_bias)
{
    float *const runs = scratch, *const padded = scratch + 9 * channels * CHANNELS;
    memset(scratch, 0, (9 * channels + (height + 2) * (width + 2)) * CHANNELS * sizeof *scratch);
    lanes sums[CHANNELS / LANES] = {{0}};
    for (size_t i = 0; i < batch; i++, images += height * width * channels) {
        for (size_t row = 2; row < height; row++) {
            float *g = padded + (row * (width + 2) + 2) * CHANNELS;
            for (size_t column = 2; column < width; column++)
                UNROLL for (int j = 0; j < CHANNELS / LANES; j++) {
                    const lanes before = before_relu(load(gradient), load(y));
                    store(g, before);
                    sums[j] += before;
                    g += LANES, y += LANES, gradient += LANES;
                }
        }
#define ADD_TO_KERNEL(value, run, place) add_run(run, value, place)
        FOR_EACH_VALUE(images, ADD_TO_KERNEL)
    }
    convert_kernel(channels, to_weight, runs, 1);
    UNROLL for (int j = 0; j < CHANNELS / LANES; j++) store(to_bias + j * LANES, sums[j]);
}

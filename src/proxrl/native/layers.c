/* Layers of small networks, forward and backward, each with its ReLU, on one core
   (agents/kernels.py). For batches this small, a call of a library costs as much as its arithmetic.

       y = max(0, x W^T + b)                                                      dense
       dW = g^T x,   db = sum g,   dx = g W,   with g = dh/dy where y > 0

   All numbers are float32 in row-major order; states are bytes. A row of y depends on its own row of
   x only, bit for bit: a state has the same values in a batch and alone. NaN passes through, except
   that products with a zero are left out: in the convolution where the image is zero, and in dW and
   dx where g is. */

#include "vectors.h"

/* ------------------------------------------------------------------------------------ products */

/* Vectors of a wide strip of a product, and of a narrow one; rows of b that are copied at a time. */
enum { WIDE = 8, NARROW = 2, DEPTH = 1024 / LANES };
enum { WIDTH = NARROW * LANES };

/* A factor of a product, and the row of the other matrix that it belongs to. */
struct term {
    float factor;
    uint32_t at;
};

/* The factors of a row that are not zero; returns how many. Without a branch: behind a ReLU about
   half of them are zero, in no order. */
INLINE uint32_t find_terms(size_t depth, const float *a, size_t a_column, struct term *terms)
{
    uint32_t count = 0;
    for (size_t k = 0; k < depth; k++) {
        const float factor = a[k * a_column];
        terms[count] = (struct term){factor, (uint32_t)k};
        count += factor != 0;
    }
    return count;
}

/* c[vectors * LANES] = the sum of a row's terms, each a factor times its row of `panel`; or += with
   `add`. */
INLINE void add_terms(const int vectors, size_t count, const struct term *restrict terms,
                      const float *restrict panel, float *restrict c, int add)
{
    lanes sums[WIDE];
    UNROLL for (int v = 0; v < vectors; v++) sums[v] = add ? load(c + v * LANES) : (lanes){0};
    for (size_t t = 0; t < count; t++) {
        const float *const from = panel + terms[t].at * (vectors * LANES);
        UNROLL for (int v = 0; v < vectors; v++) sums[v] += terms[t].factor * load(from + v * LANES);
    }
    UNROLL for (int v = 0; v < vectors; v++) store(c + v * LANES, sums[v]);
}

/* A strip of c, with its part of b[depth, columns] copied to `panel`: where rows are a multiple of
   4 KB apart, a strip of them would share the same few places of the L1 cache. Zeros follow the
   `width` columns that there are. */
INLINE void strip(const int vectors, size_t rows, size_t depth, const struct term *terms,
                  const uint32_t *counts, const float *b, size_t b_row, size_t width, float *panel,
                  float *c, size_t c_row, int add)
{
    const size_t full = (size_t)vectors * LANES;
    if (width < full)
        memset(panel, 0, depth * full * sizeof *panel);
    for (size_t k = 0; k < depth; k++)
        if (width == full)
            UNROLL for (int v = 0; v < vectors; v++)
                store(panel + k * full + v * LANES, load(b + k * b_row + v * LANES));
        else
            memcpy(panel + k * full, b + k * b_row, width * sizeof *panel);
    for (size_t i = 0; i < rows; i++)
        add_terms(vectors, counts[i], terms + i * depth, panel, c + i * c_row, add);
}

/* c[rows, columns] = a[rows, depth] b[depth, columns], in the order of b's rows, without the factors
   in a that are zero. `scratch` has room for 2 x rows x depth + rows x (WIDTH + 1) numbers. */
INLINE void product(size_t rows, size_t columns, size_t depth, const float *a, size_t a_row,
                    size_t a_column, const float *b, float *c, float *scratch)
{
    float panel[DEPTH * WIDE * LANES] __attribute__((aligned(64)));
    struct term *const terms = (struct term *)scratch;
    uint32_t *const counts = (uint32_t *)(scratch + 2 * rows * depth);
    float *const rest = scratch + 2 * rows * depth + rows; /* c where no strip is filled */
    if (depth == 0)
        memset(c, 0, rows * columns * sizeof *c);
    for (size_t from = 0; from < depth; from += DEPTH) {
        const size_t part = depth - from < DEPTH ? depth - from : DEPTH;
        const float *const factors = a + from * a_column, *const values = b + from * columns;
        const int add = from > 0;
        size_t j = 0;
        for (size_t i = 0; i < rows; i++)
            counts[i] = find_terms(part, factors + i * a_row, a_column, terms + i * part);
        for (; j + WIDE * LANES <= columns; j += WIDE * LANES)
            strip(WIDE, rows, part, terms, counts, values + j, columns, WIDE * LANES, panel, c + j,
                  columns, add);
        for (; j + WIDTH <= columns; j += WIDTH)
            strip(NARROW, rows, part, terms, counts, values + j, columns, WIDTH, panel, c + j,
                  columns, add);
        if (j < columns)
            strip(NARROW, rows, part, terms, counts, values + j, columns, columns - j, panel, rest,
                  WIDTH, add);
        for (size_t i = 0; from + part == depth && i < rows; i++)
            memcpy(c + i * columns + j, rest + i * WIDTH, (columns - j) * sizeof *c);
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

/* partial[rows, groups] += x[rows, left] w[units, left]^T. `left` is 8, but for the last inputs: a
   constant, because a comparison for each register would take two fifths of the time. */
INLINE void multiply(const int rows, const int groups, size_t inputs, const float *restrict x,
                     const float *restrict w, size_t next, size_t left,
                     lanes partial[ROWS][GROUPS])
{
    lanes weights[GROUPS];
    UNROLL for (int j = 0; j < groups; j++) weights[j] = join(w + j * SHARED * inputs, next, left);
    UNROLL for (int i = 0; i < rows; i++) {
        const lanes values = join(x + i * inputs, 0, left);
        UNROLL for (int j = 0; j < groups; j++) partial[i][j] += values * weights[j];
    }
}

/* A block of y: y[rows, units] = x[rows, inputs] w[units, inputs]^T + bias, for UNITS units or one. */
INLINE void dots(const int rows, const int units, size_t inputs, const float *restrict x,
                 const float *restrict w, const float *restrict bias, int with_relu,
                 float *restrict y, size_t y_row)
{
    const int groups = units == 1 ? 1 : GROUPS;
    const size_t next = units == 1 ? 0 : inputs; /* one unit shares its register with itself */
    lanes partial[ROWS][GROUPS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < GROUPS; j++) partial[i][j] = (lanes){0};
    size_t k = 0;
    for (; k + 8 <= inputs; k += 8)
        multiply(rows, groups, inputs, x + k, w + k, next, 8, partial);
    if (k < inputs)
        multiply(rows, groups, inputs, x + k, w + k, next, inputs - k, partial);
    UNROLL for (int i = 0; i < rows; i++)
        finish(units, partial[i], bias, with_relu, y + i * y_row);
}

/* --------------------------------------------------------------------------------- dense layers */

/* y of all states, for UNITS units or one: their weights stay in the L1 cache meanwhile. */
INLINE void forward_units(const int count, size_t batch, size_t inputs, size_t units, const float *x,
                          const float *weight, const float *bias, int with_relu, float *y)
{
    size_t i = 0;
    for (; i + ROWS <= batch; i += ROWS)
        dots(ROWS, count, inputs, x + i * inputs, weight, bias, with_relu, y + i * units, units);
    for (; i < batch; i++)
        dots(1, count, inputs, x + i * inputs, weight, bias, with_relu, y + i * units, units);
}

void dense_forward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                   const float *bias, int with_relu, float *y)
{
    size_t j = 0;
    for (; j + UNITS <= units; j += UNITS)
        forward_units(UNITS, batch, inputs, units, x, weight + j * inputs, bias + j, with_relu,
                      y + j);
    for (; j < units; j++)
        forward_units(1, batch, inputs, units, x, weight + j * inputs, bias + j, with_relu, y + j);
}

/* `gradient` is dh/dy. `scratch` has room for 3 x batch x units + max(batch, units) x (WIDTH + 1)
   numbers. Without `to_x`, dx is not computed. */
void dense_backward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                    const float *y, int with_relu, const float *gradient, float *scratch,
                    float *to_weight, float *to_bias, float *to_x)
{
    float *const g = scratch, *const lists = scratch + batch * units;
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
    product(units, inputs, batch, g, 1, units, x, to_weight, lists);
    if (to_x)
        product(batch, inputs, units, g, units, 1, weight, to_x, lists);
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

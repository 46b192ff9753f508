/* Layers of small networks, forward and backward, on one core (agents/kernels.py).

   For batches this small, a call of a library costs as much as its arithmetic. Each function here is
   a whole layer with its ReLU:

       y = max(0, x W^T + b)                                                      dense
       dW = g^T x,   db = sum g,   dx = g W,   with g = dh/dy where y > 0

   All numbers are float32 in row-major order; states are bytes. A row of y depends on its own row of
   x only, bit for bit: a state has the same values in a batch and alone. NaN passes through, except
   that a weight of the convolution has no effect where the image is zero.

   It is compiled for AVX2 with FMA (setup.py); without these, PyTorch is many times faster. */

#include <Python.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 6")

/* Explicit vectors: GCC 12's own vectorizer miscompiles a sum of masked values at -O3. */
typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(32), aligned(4), may_alias));
enum { LANES = 8, WIDTH = 2 * LANES, DEPTH = 256 };

INLINE lanes load(const float *from)
{
    return *(const lanes *)from;
}

INLINE void store(float *to, lanes values)
{
    *(lanes *)to = values;
}

INLINE lanes relu(lanes values)
{
    return (lanes)((bits)values & ~(values < 0));
}

/* The gradient before a ReLU: it passes where the output is positive (or NaN). */
INLINE lanes before_relu(lanes gradient, lanes outputs)
{
    return (lanes)((bits)gradient & ~(outputs <= 0));
}

INLINE float sum_of(lanes values)
{
    const quad low = {values[0], values[1], values[2], values[3]};
    const quad high = {values[4], values[5], values[6], values[7]};
    const quad sums = low + high;
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/* ------------------------------------------------------------------------------------ products */

/* c[rows, WIDTH] = a[rows, depth] panel[depth, WIDTH], or += with `add`. */
INLINE void tile(const int rows, size_t depth, const float *restrict a, size_t a_row,
                 size_t a_column, const float *restrict panel, float *restrict c, size_t c_row,
                 int add)
{
    lanes left[6], right[6];
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
    for (; i + 6 <= rows; i += 6)
        tile(6, depth, a + i * a_row, a_row, a_column, panel, c + i * c_row, c_row, add);
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

/* y[rows, units] = x[rows, inputs] w[units, inputs]^T + bias, for a block of y. */
INLINE void dots(const int rows, const int units, size_t inputs, const float *restrict x,
                 const float *restrict w, const float *restrict bias, int with_relu,
                 float *restrict y, size_t y_row)
{
    lanes sums[4][3];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < units; j++) sums[i][j] = (lanes){0};
    size_t k = 0;
    for (; k + LANES <= inputs; k += LANES) {
        lanes weights[3];
        UNROLL for (int j = 0; j < units; j++) weights[j] = load(w + j * inputs + k);
        UNROLL for (int i = 0; i < rows; i++) {
            const lanes values = load(x + i * inputs + k);
            UNROLL for (int j = 0; j < units; j++) sums[i][j] += values * weights[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < units; j++) {
            float sum = bias[j] + sum_of(sums[i][j]);
            for (size_t last = k; last < inputs; last++)
                sum += x[i * inputs + last] * w[j * inputs + last];
            y[i * y_row + j] = with_relu && sum < 0 ? 0 : sum;
        }
}

/* --------------------------------------------------------------------------------- dense layers */

void dense_forward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                   const float *bias, int with_relu, float *y)
{
    size_t j = 0, i;
    for (; j + 3 <= units; j += 3) {
        for (i = 0; i + 4 <= batch; i += 4)
            dots(4, 3, inputs, x + i * inputs, weight + j * inputs, bias + j, with_relu,
                 y + i * units + j, units);
        for (; i < batch; i++)
            dots(1, 3, inputs, x + i * inputs, weight + j * inputs, bias + j, with_relu,
                 y + i * units + j, units);
    }
    for (; j < units; j++)
        for (i = 0; i < batch; i++)
            dots(1, 1, inputs, x + i * inputs, weight + j * inputs, bias + j, with_relu,
                 y + i * units + j, units);
}

/* `gradient` is dh/dy. `scratch` has room for batch x units + max(batch, units) x WIDTH numbers.
   Without `to_x`, dx is not computed. */
void dense_backward(size_t batch, size_t inputs, size_t units, const float *x, const float *weight,
                    const float *y, int with_relu, const float *gradient, float *scratch,
                    float *to_weight, float *to_bias, float *to_x)
{
    float *const g = scratch, *const rest = scratch + batch * units;
    memset(to_bias, 0, units * sizeof *to_bias);
    for (size_t i = 0; i < batch; i++)
        for (size_t j = 0; j < units; j++) {
            const size_t at = i * units + j;
            g[at] = with_relu && y[at] <= 0 ? 0 : gradient[at];
            to_bias[j] += g[at];
        }
    product(units, inputs, batch, g, 1, units, x, to_weight, rest);
    if (to_x)
        product(batch, inputs, units, g, units, 1, weight, to_x, rest);
}

/* --------------------------------------------------- a 3 x 3 convolution with 16 output channels

   The images of small games are mostly zeros. So each value that is not zero is added to the nine
   places of the output that it reaches: three runs of three places, contiguous in memory. Borders
   of two places around the output take what falls outside. `agents/library.py` has these sizes
   too. */

enum { CHANNELS = 16, RUN = 3 * CHANNELS };

/* to[RUN] += factor * from[RUN] */
INLINE void add_run(float *restrict to, float factor, const float *restrict from)
{
    lanes sums[6];
    UNROLL for (int i = 0; i < 6; i++)
        sums[i] = load(to + i * LANES) + factor * load(from + i * LANES);
    UNROLL for (int i = 0; i < 6; i++) store(to + i * LANES, sums[i]);
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
    const lanes low = load(bias), high = load(bias + LANES);
    for (size_t i = 0; i < batch; i++, images += height * width * channels) {
        for (size_t place = 0; place < (height + 2) * (width + 2) * CHANNELS; place += CHANNELS) {
            store(padded + place, low);
            store(padded + place + LANES, high);
        }
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
    lanes low = {0}, high = {0};
    for (size_t i = 0; i < batch; i++, images += height * width * channels) {
        for (size_t row = 2; row < height; row++) {
            float *const g = padded + (row * (width + 2) + 2) * CHANNELS;
            for (size_t at = 0; at < (width - 2) * CHANNELS; at += CHANNELS) {
                const lanes left = before_relu(load(gradient), load(y));
                const lanes right = before_relu(load(gradient + LANES), load(y + LANES));
                store(g + at, left), store(g + at + LANES, right);
                low += left, high += right;
                y += CHANNELS, gradient += CHANNELS;
            }
        }
#define ADD_TO_KERNEL(value, run, place) add_run(run, value, place)
        FOR_EACH_VALUE(images, ADD_TO_KERNEL)
    }
    convert_kernel(channels, to_weight, runs, 1);
    store(to_bias, low), store(to_bias + LANES, high);
}

/* An empty Python module, so that it is built, found and installed as one. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_kernels", .m_size = 0};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module);
}

/* The other parts of an update on one core: TD targets and losses (agents/heads), Adam
   (agents/adam.py). They are short, but as operations of PyTorch they are many calls. */

#include "vectors.h"

/* --------------------------------------------------------------------------------------- targets

   y = r + gamma max_a' Q(s', a'; theta), and the loss of each transition with its derivative
   (agents/heads/expected.py). */

/* NaN if one of the values is. */
void td_targets(size_t batch, size_t actions, const float *next_values, const float *returns,
                const float *discounts, float *targets)
{
    for (size_t i = 0; i < batch; i++, next_values += actions) {
        float best = next_values[0];
        for (size_t j = 1; j < actions; j++)
            if (next_values[j] > best || isnan(next_values[j]))
                best = next_values[j];
        targets[i] = fmaf(discounts[i], best, returns[i]);
    }
}

/* `found` is [3, batch]: losses, values, priorities; `gradients` [batch, actions] are dh/dQ. An action
   that does not exist has a loss of NaN, which stops the run. */
void td_loss(size_t batch, size_t actions, const float *values, const int64_t *taken,
             const float *targets, int huber, float *found, float *gradients)
{
    memset(gradients, 0, batch * actions * sizeof *gradients);
    for (size_t i = 0; i < batch; i++, values += actions, gradients += actions) {
        const int exists = (uint64_t)taken[i] < actions;
        const float value = exists ? values[taken[i]] : NAN, error = value - targets[i];
        const float clipped = error < -1 ? -1 : error > 1 ? 1 : error;
        const float slope = huber ? clipped : error + error;
        found[i] = huber ? slope * (error - slope / 2) : error * error;
        found[batch + i] = value;
        found[2 * batch + i] = fabsf(error);
        if (exists)
            gradients[taken[i]] = slope / batch;
    }
}

/* -------------------------------------------------------------------- distributions of returns

   The same for distributions over `atoms` (agents/heads/categorical.py): logits [batch, actions,
   atoms] of z(s, a), whose values are the `support`. */

typedef struct {
    float value;   /* the expected return */
    float log_sum; /* log of the sum of exp(logits): log p = logits - log_sum */
} summary;

static summary softmax(size_t atoms, const float *logits, const float *support,
                       float *probabilities)
{
    float most = logits[0], sum = 0, value = 0;
    for (size_t i = 1; i < atoms; i++)
        if (logits[i] > most || isnan(logits[i]))
            most = logits[i];
    for (size_t i = 0; i < atoms; i++)
        sum += probabilities[i] = expf(logits[i] - most);
    for (size_t i = 0; i < atoms; i++) {
        probabilities[i] /= sum;
        value += probabilities[i] * support[i];
    }
    return (summary){value, most + logf(sum)};
}

/* Q(s, .) [actions] of one state; `scratch` has room for `atoms` numbers. */
void categorical_values(size_t actions, size_t atoms, const float *logits, const float *support,
                        float *scratch, float *values)
{
    for (size_t j = 0; j < actions; j++)
        values[j] = softmax(atoms, logits + j * atoms, support, scratch).value;
}

/* `targets` [batch, atoms] are Phi of r + gamma z(s', a*; theta): the probability of each atom is
   split between the two that are next to its place. `scratch` has room for 2 x atoms numbers. */
void categorical_targets(size_t batch, size_t actions, size_t atoms, const float *next_logits,
                         const float *returns, const float *discounts, const float *support,
                         float *scratch, float *targets)
{
    const double gap = ((double)support[atoms - 1] - support[0]) / (atoms - 1);
    float *const probabilities = scratch, *const best = scratch + atoms;
    memset(targets, 0, batch * atoms * sizeof *targets);
    for (size_t i = 0; i < batch; i++, targets += atoms) {
        float largest = 0;
        for (size_t j = 0; j < actions; j++, next_logits += atoms) {
            const float value = softmax(atoms, next_logits, support, probabilities).value;
            if (j == 0 || value > largest || isnan(value)) {
                largest = value;
                memcpy(best, probabilities, atoms * sizeof *best);
            }
        }
        for (size_t j = 0; j < atoms; j++) {
            const float moved = fmaf(discounts[i], support[j], returns[i]);
            double place = ((double)moved - support[0]) / gap;
            place = place < 0 ? 0 : place > atoms - 1 ? atoms - 1 : place; /* NaN stays */
            const size_t below = place < atoms - 1 ? (size_t)place : atoms - 2;
            const float share = place - below;
            targets[below] += (1 - share) * best[j];
            targets[below + 1] += share * best[j];
        }
    }
}

/* The cross-entropy; `found` is [2, batch]: losses and values, `gradients` [batch, actions, atoms]. */
void categorical_loss(size_t batch, size_t actions, size_t atoms, const float *logits,
                      const int64_t *taken, const float *targets, const float *support,
                      float *found, float *gradients)
{
    const size_t size = actions * atoms;
    memset(gradients, 0, batch * size * sizeof *gradients);
    for (size_t i = 0; i < batch; i++, logits += size, targets += atoms, gradients += size) {
        if ((uint64_t)taken[i] >= actions) {
            found[i] = found[batch + i] = NAN;
            continue;
        }
        const float *const chosen = logits + taken[i] * atoms;
        float *const to_chosen = gradients + taken[i] * atoms, loss = 0;
        const summary all = softmax(atoms, chosen, support, to_chosen);
        for (size_t j = 0; j < atoms; j++) {
            loss += targets[j] * (all.log_sum - chosen[j]);
            to_chosen[j] = (to_chosen[j] - targets[j]) / batch;
        }
        found[i] = loss;
        found[batch + i] = all.value;
    }
}

/* ----------------------------------------------------------------------------------------- Adam

   w <- w - rate m / (sqrt(v) / scale + epsilon), with m and v the running means of the gradient and
   its square; `rate` is alpha / (1 - beta_1^t) and `scale` is sqrt(1 - beta_2^t). The rounding is
   that of PyTorch's fused Adam. The number of weights is a multiple of 16. */
INLINE lanes fused(lanes a, lanes b, lanes c)
{
#ifdef __AVX512F__
    return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
    return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#endif
}

INLINE lanes square_root(lanes values)
{
#ifdef __AVX512F__
    return (lanes)_mm512_sqrt_ps((__m512)values);
#else
    return (lanes)_mm256_sqrt_ps((__m256)values);
#endif
}

void adam_step(size_t weights, float *restrict w, const float *restrict gradient, float *restrict m,
               float *restrict v, float new_1, float beta_2, float new_2, float rate, float scale,
               float epsilon)
{
    for (size_t i = 0; i < weights; i += LANES) {
        const lanes g = load(gradient + i), mean = load(m + i);
        const lanes next = new_1 * (g - mean) + mean;
        const lanes old = beta_2 * load(v + i);
        const lanes square = fused(new_2 * g, g, old);
        store(m + i, next);
        store(v + i, square);
        lanes root = square_root(square);
        if (scale != 1)
            root /= scale;
        store(w + i, load(w + i) + -rate * next / (root + epsilon));
    }
}

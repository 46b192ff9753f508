/* The replay: drawing from a sum tree, and reading the transitions that start at given steps. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------------------------- sum tree

   Levels [nodes, FANOUT] of sums, leaves first (replay/sumtree.py). Sums are added from left to
   right, as NumPy's cumsum does. */

enum { FANOUT = 100 };

static double sum_of_children(const double *children)
{
    double sum = children[0];
    for (int i = 1; i < FANOUT; i++)
        sum += children[i];
    return sum;
}

void tree_set(size_t depth, double *const *levels, size_t count, const int64_t *leaves,
              const double *weights)
{
    for (size_t i = 0; i < count; i++)
        levels[0][leaves[i]] = weights[i];
    for (size_t level = 1, width = FANOUT; level < depth; level++, width *= FANOUT)
        for (size_t i = 0; i < count; i++) {
            const size_t node = leaves[i] / width;
            levels[level][node] = sum_of_children(levels[level - 1] + node * FANOUT);
        }
}

/* The sum must be positive. From `left`, how far into it, to the leaves there. Rounding may raise `left` to
   the sum of a node: it is kept below, so that the first child whose running sum is larger always
   has a positive weight. */
void tree_draw(size_t depth, double *const *levels, size_t count, const double *left,
               int64_t *leaves)
{
    for (size_t i = 0; i < count; i++) {
        double rest = left[i];
        size_t node = 0;
        for (size_t level = depth; level-- > 0;) {
            const double *const children = levels[level] + node * FANOUT;
            const double most = nextafter(sum_of_children(children), 0);
            double before = 0, sum = children[0];
            size_t chosen = 0;
            rest = rest < most ? rest : most;
            while (sum <= rest && chosen < FANOUT - 1) {
                before = sum;
                sum += children[++chosen];
            }
            rest -= before;
            node = node * FANOUT + chosen;
        }
        leaves[i] = node;
    }
}

/* ------------------------------------------------------------------------------ replayed steps

   The n-step transitions that start at these steps (replay/nstep.py), and the slots of the frames
   of both states (replay/log.py). */

typedef struct {
    int64_t frame;
    float reward;
    int16_t action;
    uint8_t age, end;
} step; /* STEP in call.py */
_Static_assert(sizeof(step) == 16, "a record of the log");
enum { RUNNING = 0, TERMINATED = 1 };

/* The slots of a state that ends at `frame`, oldest first and `apart` numbers apart. */
static void stack_slots(size_t stack, int64_t frame, size_t age, size_t frames, int64_t zeros,
                        int64_t *slots, size_t apart)
{
    for (size_t back = stack; back-- > 0; slots += apart)
        *slots = back <= age ? (frame - (int64_t)back) % (int64_t)frames : zeros;
}

/* A product that is rounded before it is added, as NumPy does: the compiler must not fuse them. */
static float rounded(float value)
{
    volatile float stored = value;
    return stored;
}

/* `powers` of gamma are [n + 1]; `slots` [stack, 2 x batch], states before next states. */
void read_transitions(size_t batch, size_t n, const int64_t *numbers, const step *steps,
                      size_t steps_in_ring, size_t stack, size_t frames_in_ring, int64_t zeros,
                      const float *powers, int64_t *actions, float *returns, float *discounts,
                      int64_t *slots)
{
    for (size_t i = 0; i < batch; i++) {
        const step first = steps[numbers[i] % steps_in_ring];
        uint8_t end = first.end;
        float sum = first.reward;
        size_t span = 1;
        for (; span < n && end == RUNNING; span++) {
            const step next = steps[(numbers[i] + span) % steps_in_ring];
            sum += rounded(next.reward * powers[span]);
            end = next.end;
        }
        actions[i] = first.action;
        returns[i] = sum;
        discounts[i] = end == TERMINATED ? 0 : powers[span];
        stack_slots(stack, first.frame, first.age, frames_in_ring, zeros, slots + i, 2 * batch);
        stack_slots(stack, first.frame + span, first.age + span, frames_in_ring, zeros,
                    slots + batch + i, 2 * batch);
    }
}

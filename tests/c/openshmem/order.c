/* Minimum and maximum of NaNs and zeros, and sums of NaNs, have the same bits on every PE, however long the
 * vector and whichever the algorithm. */
#include "check.h"
#include <math.h>
#include <stdint.h>

enum { MOST = 6000 };

/* What PE pe gives: NaNs of both signs with different payloads, zeros of both signs, numbers. */
static uint64_t pattern(int pe, int k)
{
    switch (k % 6) {
    case 0: return pe % 2 ? 0x8000000000000000u : 0;
    case 1: return 0x7ff8000000000000u + 1 + (unsigned)pe * 3;
    case 2: return pe == k % n ? 0xfff8000000000000u + (unsigned)pe : 0x3ff0000000000000u + (unsigned)pe;
    case 3: return pe % 2 ? 0x7ff8000000000000u + (unsigned)pe : 0xfff8000000000007u + (unsigned)pe;
    case 4: return pe % 3 ? 0x8000000000000000u : 0;
    default: return ((uint64_t)(pe % 2) << 63 | 0x4000000000000000u) + (unsigned)((pe * 7 + k) % 5);
    }
}

static double of_bits(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* What minimum and maximum must be: a NaN if there is one, else the number, and -0 is below +0. */
static int right(long double got, int k, int want_max)
{
    long double best = 0;
    int nan = 0, first = 1;
    for (int pe = 0; pe < n; pe++) {
        double v = of_bits(pattern(pe, k));
        nan |= isnan(v) != 0;
        int above = v > best || (v == best && !signbit(v) && signbit(best));
        int below = v < best || (v == best && signbit(v) && !signbit(best));
        if (first || (want_max ? above : below))
            best = v;
        first = 0;
    }
    return nan ? isnan(got) : got == best && !signbit(got) == !signbit(best);
}

#define TYPE(NAME, T, BYTES, EXACT)                                                                                    \
    static T NAME##_in[MOST], NAME##_out[MOST], NAME##_all[MOST];                                                      \
    static void NAME##_same(int len)                                                                                   \
    {                                                                                                                  \
        shmem_barrier_all();                                                                                           \
        shmem_getmem(NAME##_all, NAME##_out, len * sizeof(T), 0);                                                      \
        for (int k = 0; k < len; k++) CHECK(memcmp(&NAME##_all[k], &NAME##_out[k], BYTES) == 0);                       \
        shmem_barrier_all();                                                                                           \
    }                                                                                                                  \
    static void NAME##_test(shmem_team_t team, int len)                                                                \
    {                                                                                                                  \
        for (int k = 0; k < len; k++) NAME##_in[k] = (T)of_bits(pattern(me, k));                                       \
        shmem_##NAME##_min_reduce(team, NAME##_out, NAME##_in, len);                                                   \
        for (int k = 0; k < len; k++) CHECK(!EXACT || right(NAME##_out[k], k, 0));                                     \
        NAME##_same(len);                                                                                              \
        shmem_##NAME##_max_reduce(team, NAME##_out, NAME##_in, len);                                                   \
        for (int k = 0; k < len; k++) CHECK(!EXACT || right(NAME##_out[k], k, 1));                                     \
        NAME##_same(len);                                                                                              \
        shmem_##NAME##_sum_reduce(team, NAME##_out, NAME##_in, len);                                                   \
        NAME##_same(len);                                                                                              \
        shmem_##NAME##_prod_reduce(team, NAME##_out, NAME##_in, len);                                                  \
        NAME##_same(len);                                                                                              \
    }
/* The numbers differ by less than a float shows. */
TYPE(float, float, 4, 0)
TYPE(double, double, 8, 1)
TYPE(longdouble, long double, 10, 1)

int main(void)
{
    start();
    shmem_team_t team;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team) == 0);
    static const int lengths[] = { 1, 2, 7, 60, 600, MOST };
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int own = 0; own < 2; own++) {
            float_test(own ? team : SHMEM_TEAM_WORLD, lengths[i]);
            double_test(own ? team : SHMEM_TEAM_WORLD, lengths[i]);
            longdouble_test(own ? team : SHMEM_TEAM_WORLD, lengths[i]);
        }
    }
    return finish("order");
}

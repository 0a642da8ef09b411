/* Broadcast, collect, all-to-all, reductions and scans: every type, sizes from one element to more
 * than any staging buffer, on the world, on part teams, and on active sets. */
#include "check.h"
#include <complex.h>

#define BIG 40000

static long sync_array[SHMEM_REDUCE_SYNC_SIZE], barrier_array[SHMEM_BARRIER_SYNC_SIZE], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static const size_t sizes[] = {1, 3, 64, 1000, BIG};
#define SIZES (sizeof sizes / sizeof *sizes)

/* Element i of PE `pe` of a team. */
static long value(int pe, size_t i)
{
    return (long)(i * 31 + pe * 7 + 3) % 1000;
}

static void moves(shmem_team_t team, long *dest, long *source)
{
    int rank = shmem_team_my_pe(team), size = shmem_team_n_pes(team);
    for (size_t s = 0; s < SIZES; s++) {
        size_t count = sizes[s] / (size_t)size + 1;
        for (int root = 0; root < size; root += 1 + size / 3) {
            for (size_t i = 0; i < sizes[s]; i++)
                source[i] = value(rank, i), dest[i] = -1;
            shmem_barrier_all();
            CHECK(shmem_long_broadcast(team, dest, source, sizes[s], root) == 0);
            for (size_t i = 0; i < sizes[s]; i++)
                CHECK(dest[i] == value(root, i));
            shmem_barrier_all();
        }
        for (size_t i = 0; i < count * size; i++)
            source[i] = value(rank, i), dest[i] = -1;
        shmem_barrier_all();
        CHECK(shmem_long_fcollect(team, dest, source, count) == 0);
        for (int pe = 0; pe < size; pe++)
            for (size_t i = 0; i < count; i++)
                CHECK(dest[pe * count + i] == value(pe, i));
        shmem_barrier_all();
        CHECK(shmem_long_alltoall(team, dest, source, count) == 0);
        for (int pe = 0; pe < size; pe++)
            for (size_t i = 0; i < count; i++)
                CHECK(dest[pe * count + i] == value(pe, rank * count + i));
        shmem_barrier_all();
        if (2 * count * size < BIG) {
            memset(dest, 0, 3 * count * size * sizeof *dest);
            for (size_t i = 0; i < 2 * count * size; i++)
                source[i] = value(rank, i);
            shmem_barrier_all();
            CHECK(shmem_long_alltoalls(team, dest, source, 3, 2, count) == 0);
            for (int pe = 0; pe < size; pe++)
                for (size_t i = 0; i < count; i++) {
                    CHECK(dest[3 * (pe * count + i)] == value(pe, 2 * (rank * count + i)));
                    CHECK(dest[3 * (pe * count + i) + 1] == 0);
                }
            shmem_barrier_all();
        }
        /* Collect: PE i gives i elements more than PE 0, some give none. */
        size_t own = rank % 3 == 2 ? 0 : count / 2 + rank % 5, at = 0;
        shmem_barrier_all();
        CHECK(shmem_collectmem(team, dest, source, own * sizeof *dest) == 0);
        for (int pe = 0; pe < size; pe++) {
            size_t theirs = pe % 3 == 2 ? 0 : count / 2 + pe % 5;
            for (size_t i = 0; i < theirs; i++)
                CHECK(dest[at++] == value(pe, i));
        }
        shmem_barrier_all();
    }
}

/* Sum, product, minimum, maximum against a loop over what the others contribute. */
#define REDUCE(NAME, T, ORDERED)                                                                                       \
    static void NAME##_reductions(shmem_team_t team, void *to, void *from, size_t count)                               \
    {                                                                                                                  \
        T *dest = to, *source = from;                                                                                  \
        int rank = shmem_team_my_pe(team), size = shmem_team_n_pes(team);                                              \
        for (size_t i = 0; i < count; i++)                                                                             \
            source[i] = (T)(value(rank, i) % 4 + 1);                                                                   \
        shmem_barrier_all();                                                                                           \
        CHECK(shmem_##NAME##_sum_reduce(team, dest, source, count) == 0);                                              \
        for (size_t i = 0; i < count; i++) {                                                                           \
            T want = 0;                                                                                                \
            for (int pe = 0; pe < size; pe++)                                                                          \
                want = (T)(want + (T)(value(pe, i) % 4 + 1));                                                          \
            CHECK(dest[i] == want);                                                                                    \
        }                                                                                                              \
        shmem_barrier_all();                                                                                           \
        shmem_##NAME##_sum_inscan(team, dest, source, count);                                                          \
        shmem_##NAME##_sum_exscan(team, dest + count, source, count);                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            T want = 0;                                                                                                \
            for (int pe = 0; pe < rank; pe++)                                                                          \
                want = (T)(want + (T)(value(pe, i) % 4 + 1));                                                          \
            CHECK(dest[count + i] == want && dest[i] == (T)(want + source[i]));                                        \
        }                                                                                                              \
        for (size_t i = 0; i < count; i++)                                                                             \
            source[i] = (T)((rank + i) % 8 == 0 ? 2 : 1);                                                              \
        shmem_barrier_all();                                                                                           \
        CHECK(shmem_##NAME##_prod_reduce(team, source, source, count) == 0); /* in place */                            \
        for (size_t i = 0; i < count; i++) {                                                                           \
            T want = 1;                                                                                                \
            for (int pe = 0; pe < size; pe++)                                                                          \
                want = (T)(want * (T)((pe + i) % 8 == 0 ? 2 : 1));                                                     \
            CHECK(source[i] == want);                                                                                  \
        }                                                                                                              \
        shmem_barrier_all();                                                                                           \
        ORDERED(NAME, T)                                                                                               \
    }
#define MINMAX(NAME, T)                                                                                                \
    for (size_t i = 0; i < count; i++)                                                                                 \
        source[i] = (T)(value(rank, i) % 100);                                                                         \
    shmem_barrier_all();                                                                                               \
    shmem_##NAME##_max_reduce(team, dest, source, count);                                                              \
    shmem_##NAME##_min_reduce(team, dest + count, source, count);                                                      \
    for (size_t i = 0; i < count; i++) {                                                                               \
        long most = 0, least = 100;                                                                                    \
        for (int pe = 0; pe < size; pe++) {                                                                            \
            long v = value(pe, i) % 100;                                                                               \
            most = v > most ? v : most, least = v < least ? v : least;                                                 \
        }                                                                                                              \
        CHECK(dest[i] == (T)most && dest[count + i] == (T)least);                                                      \
    }                                                                                                                  \
    shmem_barrier_all();
#define NO_ORDER(NAME, T)
#define ORDERED_TYPE(NAME, T) REDUCE(NAME, T, MINMAX)
RMA_TYPES(ORDERED_TYPE)
REDUCE(complexf, float _Complex, NO_ORDER)
REDUCE(complexd, double _Complex, NO_ORDER)

static void bitwise(shmem_team_t team, void *to, void *from, size_t count)
{
    uint32_t *dest = to, *source = from;
    int rank = shmem_team_my_pe(team), size = shmem_team_n_pes(team);
    for (size_t i = 0; i < count; i++)
        source[i] = (uint32_t)(value(rank, i) * 2654435761u);
    shmem_barrier_all();
    shmem_uint32_and_reduce(team, dest, source, count);
    shmem_uint32_or_reduce(team, dest + count, source, count);
    shmem_uint32_xor_reduce(team, dest + 2 * count, source, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t all = ~0u, any = 0, odd = 0;
        for (int pe = 0; pe < size; pe++) {
            uint32_t v = (uint32_t)(value(pe, i) * 2654435761u);
            all &= v, any |= v, odd ^= v;
        }
        CHECK(dest[i] == all && dest[count + i] == any && dest[2 * count + i] == odd);
    }
    shmem_barrier_all();
}

/* The deprecated forms over the PEs 0, 2, 4, ... */
static void active_sets(long *dest, long *source)
{
    int size = (n + 1) / 2;
    for (size_t i = 0; i < 300; i++)
        source[i] = value(me, i), dest[i] = -1;
    shmem_barrier_all();
    if (me % 2 == 0) {
        shmem_broadcast64(dest, source, 100, size - 1, 0, 1, size, sync_array);
        for (int i = 0; i < 100; i++)
            CHECK(dest[i] == (me / 2 == size - 1 ? -1 : value(2 * (size - 1), i)));
        shmem_barrier(0, 1, size, barrier_array);
        shmem_fcollect64(dest, source, 3, 0, 1, size, sync_array);
        for (int i = 0; i < 3 * size; i++)
            CHECK(dest[i] == value(i / 3 * 2, i % 3));
        shmem_barrier(0, 1, size, barrier_array);
        shmem_collect32(dest, source, me == 0 ? 2 : 4, 0, 1, size, sync_array);
        for (int pe = 0; pe < size; pe++)
            CHECK(((int *)dest)[pe ? 4 * pe - 2 : 0] == (int)value(2 * pe, 0));
        shmem_barrier(0, 1, size, barrier_array);
        shmem_alltoall64(dest, source, 2, 0, 1, size, sync_array);
        for (int pe = 0; pe < size; pe++)
            CHECK(dest[2 * pe] == value(2 * pe, me));
        shmem_sync(0, 1, size, barrier_array);
        shmem_long_sum_to_all(dest, source, 50, 0, 1, size, work, sync_array);
        for (int i = 0; i < 50; i++) {
            long want = 0;
            for (int pe = 0; pe < size; pe++)
                want += value(2 * pe, i);
            CHECK(dest[i] == want);
        }
    }
    shmem_barrier_all();
}

int main(void)
{
    start();
    long *dest = shmem_malloc(2 * (BIG + 64) * 16), *source = shmem_malloc((BIG + 64) * 16);
    moves(SHMEM_TEAM_WORLD, dest, source);
    active_sets(dest, source);
#define RUN(NAME, T) NAME##_reductions(SHMEM_TEAM_WORLD, dest, source, 5);
    RMA_TYPES(RUN)
    complexf_reductions(SHMEM_TEAM_WORLD, dest, source, 5);
    complexd_reductions(SHMEM_TEAM_WORLD, dest, source, 5);
    for (size_t s = 0; s < SIZES; s++) {
        int_reductions(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
        long_reductions(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
        double_reductions(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
        longdouble_reductions(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
        complexd_reductions(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
        bitwise(SHMEM_TEAM_WORLD, dest, source, sizes[s]);
    }
    return finish("collectives");
}

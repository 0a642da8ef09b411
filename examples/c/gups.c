/* Random access: every PE xors random words of a table spread over all PEs. Doing the same updates
 * a second time restores the table, because xor undoes itself.
 *
 *     oshcc -O2 gups.c -o gups && angara run -n 8 ./gups [UPDATES PER PE]
 */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 4096 /* of the table, on each PE */

static long wrong, wrong_all, changed, changed_all;

static uint64_t rng(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void update(uint64_t *table, long updates, int me, int n)
{
    uint64_t seed = UINT64_C(88172645463325252) + me;
    for (long i = 0; i < updates; i++) {
        uint64_t r = rng(&seed);
        shmem_uint64_atomic_xor(&table[(r >> 32) % WORDS], r, (int)(r % n));
    }
}

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long updates = argc > 1 ? atol(argv[1]) : 2000;
    uint64_t *table = shmem_malloc(WORDS * sizeof *table);
    if (!table || updates < 1) {
        fprintf(stderr, "PE %d: usage: gups [UPDATES PER PE]\n", me);
        shmem_global_exit(1);
    }
    for (int i = 0; i < WORDS; i++)
        table[i] = (uint64_t)me * WORDS + i;
    shmem_barrier_all();

    update(table, updates, me, n);
    shmem_barrier_all();
    for (int i = 0; i < WORDS; i++)
        changed += table[i] != (uint64_t)me * WORDS + i;
    shmem_barrier_all();
    update(table, updates, me, n);
    shmem_barrier_all();
    for (int i = 0; i < WORDS; i++)
        wrong += table[i] != (uint64_t)me * WORDS + i;

    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &wrong_all, &wrong, 1);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &changed_all, &changed, 1);
    int ok = wrong_all == 0 && changed_all > 0;
    if (me == 0)
        printf("gups: 2 x %ld updates on %d PEs, %ld words changed, %ld not restored: %s\n", updates * n, n,
               changed_all, wrong_all, ok ? "right" : "WRONG");
    shmem_finalize();
    return !ok;
}

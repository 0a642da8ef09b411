/* Races of the program's own loads and stores, by name; with FIXED the same without the race. */
#include "races.h"
#include <stdlib.h>

static long cell, flag, data[64];

/* The neighbour reads what was not sent yet. */
static void read_early(void)
{
    long sum = 0;
    shmem_long_p(&cell, me, next);
    FIX(shmem_barrier_all();)
    sum += cell;
    if (sum > n)
        puts("never");
}

/* The source of a put that is under way, in private memory. */
static void source_stored(void)
{
    long mine[16] = {0};
    shmem_long_put_nbi(data, mine, 16, next);
    FIX(shmem_quiet();)
    mine[3] = me;
    shmem_barrier_all();
    if (mine[3] > n)
        puts("never");
}

static void get_used_early(void)
{
    long *mine = malloc(16 * sizeof *mine);
    shmem_long_get_nbi(mine, data, 16, next);
    FIX(shmem_quiet();)
    if (mine[5] > n)
        puts("never");
    shmem_barrier_all();
    free(mine);
}

/* A flag that is looked at by plain loads orders nothing. */
static void plain_flag(void)
{
    if (me == 0) {
        shmem_long_put(data, data + 32, 8, 1);
        shmem_fence();
        shmem_long_p(&flag, 1, 1);
        shmem_quiet();
    } else if (me == 1) {
        BUG(while (*(volatile long *)&flag != 1)
                ;)
        FIX(shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);)
        if (data[3] > n)
            puts("never");
    }
}

/* A loop over an array that a neighbour still gets. */
static void array_rewritten(void)
{
    long theirs[64];
    for (int i = 0; i < 64; i++)
        data[i] = me;
    shmem_barrier_all();
    shmem_long_get(theirs, data, 64, next);
    FIX(shmem_barrier_all();)
    for (int i = 0; i < 64; i++)
        data[i] += theirs[i];
}

static void copied(void)
{
    long mine[64] = {0};
    shmem_long_put(data, mine, 64, next);
    FIX(shmem_barrier_all();)
    memcpy(mine, data, (size_t)(8 * (32 + n)));
    if (mine[5] > n)
        puts("never");
}

/* Stores through the address of another PE's memory. */
static void by_pointer(void)
{
    long *all = shmem_calloc(8, sizeof *all);
    long *there = shmem_ptr(all, next);
    if (there)
        there[me % 8] = me;
    BUG(all[(me + n - 1) % n % 8]++;)
    FIX(shmem_barrier_all();
        all[(me + n - 1) % n % 8]++;)
    shmem_free(all);
}

static const struct race all[] = {
    {"read_early", read_early}, {"source_stored", source_stored}, {"get_used_early", get_used_early},
    {"plain_flag", plain_flag}, {"array_rewritten", array_rewritten}, {"copied", copied}, {"by_pointer", by_pointer},
};

int main(int argc, char **argv)
{
    return run_named(argc, argv, all, sizeof all / sizeof *all);
}

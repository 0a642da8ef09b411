/* Races between calls, by name; with FIXED the same without the race. */
#include "races.h"

static long cell, flag, data[64], other[64], lock;
static uint64_t word;
static long sync_array[SHMEM_REDUCE_SYNC_SIZE];
static long work_array[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

/* Get, add one, put: an update is lost where two do it at once. */
static void increment(void)
{
    BUG(long old = shmem_long_g(&cell, 0);
        shmem_long_p(&cell, old + 1, 0);
        shmem_quiet();)
    FIX(shmem_long_atomic_inc(&cell, 0);)
}

/* Data and a flag to different PEs: a fence orders the way to one PE only. */
static void no_quiet(void)
{
    if (me == 0) {
        shmem_long_put(data, other, 8, 2);
        FIX(shmem_quiet();)
        BUG(shmem_fence();)
        shmem_long_p(&flag, 1, 1);
    } else if (me == 1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        shmem_long_get(other, data, 8, 2);
    }
}

static void no_fence(void)
{
    if (me == 0) {
        shmem_long_put(data, other, 8, 1);
        FIX(shmem_fence();)
        shmem_long_p(&flag, 1, 1);
    } else if (me == 1) {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        shmem_long_put(data + 32, data, 8, me);
    }
}

/* The next phase begins to write what a neighbour may still read. */
static void no_barrier(void)
{
    long sum[8];
    shmem_long_put(data, other, 8, next);
    shmem_barrier_all();
    shmem_long_get(sum, data, 8, next);
    FIX(shmem_barrier_all();)
    shmem_long_put(data, other, 8, (me + 2) % n);
}

/* The source of a put that is under way is written. */
static void source_reused(void)
{
    shmem_long_put_nbi(data, other, 8, next);
    FIX(shmem_quiet();)
    shmem_long_get(other, data + 32, 8, next);
}

static void two_puts(void)
{
    FIX(if (me == 0)) shmem_long_p(&cell, me, 2);
}

static void atomic_and_put(void)
{
    if (me == 0)
        shmem_long_atomic_add(&cell, 1, 2);
    FIX(shmem_barrier_all();)
    if (me == 1)
        shmem_long_p(&cell, 1, 2);
}

/* One wait, two writers: what came first is not known. */
static void wait_on_two(void)
{
    if (me < 2) {
        BUG(shmem_long_p(&flag, 1, 2);)
        FIX(shmem_long_atomic_set(&flag, 1, 2);)
    } else if (me == 2)
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
}

static void get_read_early(void)
{
    static long mine[8];
    shmem_long_get_nbi(mine, data, 8, next);
    FIX(shmem_quiet();)
    shmem_long_put(other, mine, 8, me);
}

/* A PE may still use the array when another begins the next collective with it. */
static void work_reused(void)
{
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
        sync_array[i] = SHMEM_SYNC_VALUE;
    shmem_barrier_all();
    shmem_long_sum_to_all(data, other, 1, 0, 0, n, work_array, sync_array);
    FIX(shmem_barrier_all();)
    shmem_long_max_to_all(data, other, 1, 0, 0, n, work_array, sync_array);
}

static void one_side_locks(void)
{
    long value;
    FIX(int locks = 1;)
    BUG(int locks = me != 1;)
    if (locks)
        shmem_set_lock(&lock);
    shmem_long_get(&value, &cell, 1, 0);
    value++;
    shmem_long_put(&cell, &value, 1, 0);
    if (locks)
        shmem_clear_lock(&lock);
}

/* The signal is no part of the put, so it may come first. */
static void early_signal(void)
{
    if (me == 0) {
        BUG(shmem_long_put_nbi(data, other, 8, 1);
            shmem_signal_set(&word, 1, 1);)
        FIX(shmem_long_put_signal_nbi(data, other, 8, &word, 1, SHMEM_SIGNAL_SET, 1);)
    } else if (me == 1) {
        shmem_signal_wait_until(&word, SHMEM_CMP_EQ, 1);
        shmem_long_put(data + 32, data, 8, me);
    }
}

static const struct race all[] = {
    {"increment", increment}, {"no_quiet", no_quiet}, {"no_fence", no_fence}, {"no_barrier", no_barrier},
    {"source_reused", source_reused}, {"two_puts", two_puts}, {"atomic_and_put", atomic_and_put},
    {"wait_on_two", wait_on_two}, {"get_read_early", get_read_early}, {"work_reused", work_reused},
    {"one_side_locks", one_side_locks}, {"early_signal", early_signal},
};

int main(int argc, char **argv)
{
    return run_named(argc, argv, all, sizeof all / sizeof *all);
}

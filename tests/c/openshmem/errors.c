/* Each argument names a mistake; the last PE makes it, the others wait in a barrier. */
#include "check.h"
#include <sched.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    static long global, lock;
    static const long constant[64] = { 1 };
    /* What the compiler cannot see. */
    long *volatile fixed = (long *)constant, *volatile nowhere = NULL;
    long local = 0;
    if (!strcmp(what, "before-init"))
        return shmem_my_pe();
    start();
    long *heap = shmem_malloc(64);
    long *freed = shmem_malloc(64);
    shmem_free(freed);
    int all = !strcmp(what, "other-arguments") || !strcmp(what, "reduce-overlap") || !strncmp(what, "all-", 4);
    if (me == n - 1 && !all) {
        if (!strcmp(what, "no-such-pe"))
            shmem_long_p(heap, 1, n);
        if (!strcmp(what, "negative-pe"))
            shmem_long_get(&local, heap, 1, -1);
        if (!strcmp(what, "not-symmetric"))
            shmem_long_p(&local, 1, 0);
        if (!strcmp(what, "nothing-to-nowhere"))
            shmem_long_put(nowhere, nowhere, 1, 0);
        if (!strcmp(what, "nothing-from-nowhere"))
            shmem_int_get((int *)nowhere, (int *)nowhere, 1, 0);
        if (!strcmp(what, "past-the-heap"))
            shmem_putmem((char *)heap, heap, (size_t)1 << 40, 0);
        if (!strcmp(what, "misaligned"))
            shmem_long_atomic_inc((long *)((char *)heap + 4), 0);
        if (!strcmp(what, "wait-on-local"))
            shmem_long_wait_until(&local, SHMEM_CMP_EQ, 1);
        if (!strcmp(what, "bad-comparison"))
            shmem_long_wait_until(&global, 77, 1);
        if (!strcmp(what, "bad-free"))
            shmem_free((char *)heap + 8);
        if (!strcmp(what, "put-constant"))
            shmem_long_p(fixed, 1, 0);
        if (!strcmp(what, "put-constants"))
            shmem_putmem(fixed, heap, 300, 0);
        if (!strcmp(what, "add-constant"))
            shmem_long_atomic_add(fixed, 1, 0);
        if (!strcmp(what, "signal-constant"))
            shmem_long_put_signal(heap, heap, 1, (uint64_t *)fixed, 1, SHMEM_SIGNAL_SET, 0);
        if (!strcmp(what, "iput-constant"))
            shmem_long_iput(fixed, heap, 2, 1, 2, 0);
        if (!strcmp(what, "lock-constant"))
            shmem_set_lock(fixed);
        if (!strcmp(what, "bad-stride"))
            shmem_long_iput(heap, heap, 0, 1, 2, 0);
        if (!strcmp(what, "bad-root"))
            shmem_long_broadcast(SHMEM_TEAM_WORLD, heap, heap, 1, n);
        if (!strcmp(what, "bad-team"))
            shmem_long_sum_reduce((shmem_team_t)99, heap, heap, 1);
        if (!strcmp(what, "bad-context"))
            shmem_ctx_long_p((shmem_ctx_t)99, heap, 1, 0);
        if (!strcmp(what, "not-held"))
            shmem_clear_lock(&lock);
        /* Found with SHMEM_DEBUG=1. */
        if (!strcmp(what, "overrun"))
            shmem_putmem(heap + 4, &local, 8 * sizeof(long), 0);
        if (!strcmp(what, "freed"))
            shmem_long_p(freed, 1, 0);
        if (!strcmp(what, "overlap"))
            shmem_putmem(heap, heap + 1, 16, me);
        if (!strcmp(what, "other-routine"))
            shmem_sync_all();
        if (!strcmp(what, "hang"))
            shmem_long_wait_until(&global, SHMEM_CMP_EQ, 5);
        if (!strcmp(what, "loop"))
            for (;;) sched_yield();
        if (!strcmp(what, "global-exit"))
            shmem_global_exit(23);
        fprintf(stderr, "PE %d: nothing happened\n", me);
        shmem_global_exit(99);
    }
    if (!strcmp(what, "other-arguments"))
        shmem_long_broadcast(SHMEM_TEAM_WORLD, heap, heap, me == 1 ? 2 : 1, 0);
    if (!strcmp(what, "all-broadcast-constant"))
        shmem_long_broadcast(SHMEM_TEAM_WORLD, fixed, heap, 1, 0);
    if (!strcmp(what, "all-reduce-constant"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, fixed, heap, 1);
    if (!strcmp(what, "all-collect-constant"))
        shmem_long_fcollect(SHMEM_TEAM_WORLD, fixed, heap, 1);
    if (!strncmp(what, "all-teams-", 10)) {
        /* Two teams with PEs in common, which enter them in different order. */
        int same = !strcmp(what, "all-teams-same-pes"), turned = me == n - 1;
        shmem_team_t teams[2];
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &teams[0]);
        shmem_team_split_strided(SHMEM_TEAM_WORLD, same ? 0 : 1, 1, same ? n : n - 1, NULL, 0, &teams[1]);
        for (int i = 0; i < 2; i++)
            if (teams[i ^ turned] != SHMEM_TEAM_INVALID)
                shmem_long_broadcast(teams[i ^ turned], &global, heap, 1, 0);
    }
    if (!strcmp(what, "reduce-overlap"))
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, heap, heap + 1, 2);
    shmem_barrier_all();
    shmem_finalize();
    return 98;
}

// Blocking calls over and over: what a stop of a PE costs on the wall, and how many a call takes. Arguments: a pattern and
// its number of rounds.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 64 };
static long word, sums[2];
static long halo[2][CELLS], edge[CELLS];

static void pingpong(long round, int me, int n) {
    if (me % 2 == 0 && me + 1 < n) {
        shmem_long_p(&word, round, me + 1);
        shmem_long_wait_until(&word, SHMEM_CMP_GE, round);
    } else if (me % 2 == 1) {
        shmem_long_wait_until(&word, SHMEM_CMP_GE, round);
        shmem_long_p(&word, round, me - 1);
    }
}

static void put_quiet(long round, int me, int n) {
    shmem_long_p(&word, round, (me + 1) % n);
    shmem_quiet();
}

static void get(long round, int me, int n) {
    (void)round;
    (void)shmem_long_g(&word, (me + 1) % n);
}

static void exchange(long round, int me, int n) {
    static uint64_t arrived[2];
    for (int side = 0; side < 2; side++)
        shmem_putmem_signal(halo[side], edge, sizeof edge, &arrived[side], round, SHMEM_SIGNAL_SET,
                            (me + (side ? n - 1 : 1)) % n);
    for (int side = 0; side < 2; side++)
        shmem_uint64_wait_until(&arrived[side], SHMEM_CMP_GE, round);
}

static void barrier(long round, int me, int n) {
    (void)round, (void)me, (void)n;
    shmem_barrier_all();
}

static void allreduce(long round, int me, int n) {
    (void)me, (void)n;
    sums[0] = round;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sums[1], &sums[0], 1);
}

// All add to a word of PE 0, which waits for the last of them and tells all.
static void gather(long round, int me, int n) {
    static long count;
    if (me > 0) {
        shmem_long_atomic_add(&count, 1, 0);
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, round);
        return;
    }
    shmem_long_wait_until(&count, SHMEM_CMP_GT, round * (n - 1) - 1);
    for (int pe = 1; pe < n; pe++)
        shmem_long_p(&word, round, pe);
}

static const struct {
    const char *name;
    void (*round)(long round, int me, int n);
} patterns[] = {{"pingpong", pingpong}, {"put_quiet", put_quiet}, {"get", get},
                {"halo", exchange},     {"barrier", barrier},     {"allreduce", allreduce},
                {"gather", gather}};

int main(int argc, char **argv) {
    shmem_init();
    long rounds = argc > 2 ? atol(argv[2]) : 1000;
    for (size_t i = 0; argc > 1 && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(argv[1], patterns[i].name) == 0)
            for (long round = 1; round <= rounds; round++)
                patterns[i].round(round, shmem_my_pe(), shmem_n_pes());
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        printf("%ld rounds\n", rounds);
    shmem_finalize();
    return 0;
}

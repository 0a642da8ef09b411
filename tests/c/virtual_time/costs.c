// What operations take by the program's own clock: lines of a name and nanoseconds. The target is the last PE.
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 100, BYTES = 1 << 20 };
static long word;
static char to[BYTES], from[BYTES];

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

#define TIMED(name, rounds, what)                                                  \
    do {                                                                           \
        shmem_barrier_all();                                                       \
        long begin = now();                                                        \
        for (int i = 0; i < (rounds); i++)                                         \
            what;                                                                  \
        if (me == 0)                                                               \
            printf("%s %.2f\n", name, (double)(now() - begin) / (rounds));         \
    } while (0)

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), last = n - 1;
    TIMED("barrier", ROUNDS, shmem_barrier_all());
    TIMED("half-barrier", ROUNDS, shmemx_half_barrier_all());
    TIMED("sync", ROUNDS, shmem_sync_all());
    TIMED("team sync", ROUNDS, shmem_team_sync(SHMEM_TEAM_WORLD));
    TIMED("put and barrier", ROUNDS, (shmem_long_p(&word, i, (me + 1) % n), shmem_barrier_all()));
    if (me == 0) {
        for (int i = 0; i < 2; i++) // the first one warms up
            shmem_putmem(to, from, BYTES, last), shmem_quiet();
    }
    TIMED("stream", 1, if (me == 0) { shmem_putmem(to, from, BYTES, last); shmem_quiet(); });
    TIMED("put and quiet", ROUNDS, if (me == 0) { shmem_long_p(&word, i, last); shmem_quiet(); });
    TIMED("get", ROUNDS, if (me == 0) shmem_long_g(&word, last));
    TIMED("fetch-add", ROUNDS, if (me == 0) shmem_long_atomic_fetch_add(&word, 1, last));
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

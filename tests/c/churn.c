/* Keeps every part of the library busy for a number of seconds (first argument, default 60) or until a file is
 * there (second argument): puts into a ring, gets of what was put, atomics on one PE, reductions, broadcasts, barriers. Every round checks itself. Tests kill
 * pieces of such a job at random moments. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORDS 512
#define APART 16

static long inbox[WORDS]; /* symmetric static data */
static long back[WORDS], some[WORDS / APART];
static long total;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 60;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    long *out = shmem_malloc(WORDS * sizeof(long));
    long *go = shmem_malloc(2 * sizeof(long));
    double end = now() + seconds;
    shmem_barrier_all();
    if (me == 0) {
        printf("churning\n");
        fflush(stdout);
    }
    for (long round = 1;; round++) {
        for (int i = 0; i < WORDS; i++)
            out[i] = round * 1000003 + me * 1009 + i;
        shmem_long_put(inbox, out, WORDS, right);
        shmem_long_atomic_add(&total, 1, 0);
        shmem_barrier_all();
        for (int i = 0; i < WORDS; i++)
            if (inbox[i] != round * 1000003 + left * 1009 + i) {
                fprintf(stderr, "PE %d round %ld: inbox[%d] = %ld\n", me, round, i, inbox[i]);
                return 1;
            }
        /* The same read back, many requests at a time. */
        for (int i = 0; i < WORDS; i++)
            shmem_long_get_nbi(&back[i], &inbox[i], 1, right);
        shmem_long_iget(some, inbox, 1, APART, WORDS / APART, right);
        shmem_quiet();
        for (int i = 0; i < WORDS; i++) {
            long wanted = round * 1000003 + me * 1009 + i;
            if (back[i] != wanted || (i % APART == 0 && some[i / APART] != wanted)) {
                fprintf(stderr, "PE %d round %ld: read back %ld and %ld at %d\n", me, round, back[i], some[i / APART], i);
                return 1;
            }
        }
        if (me == 0 && total != round * n) {
            fprintf(stderr, "round %ld: %ld atomics of %ld\n", round, total, round * n);
            return 1;
        }
        go[0] = me == 0 ? now() < end && !(argc > 2 && access(argv[2], F_OK) == 0) : 0;
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, go + 1, go, 1);
        if (!go[1])
            break;
        shmem_barrier_all();
    }
    shmem_barrier_all();
    if (me == 0)
        printf("churned\n");
    shmem_finalize();
    return 0;
}

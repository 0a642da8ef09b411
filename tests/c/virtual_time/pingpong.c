// A ping-pong of WORDS words (1) between the first PE and the last, by the program's own clock: prints picoseconds per way.
#include <shmem.h>
#include <stdio.h>
#include <time.h>

#ifndef WORDS
#define WORDS 1
#endif
enum { ROUNDS = 1000 };
static long there[WORDS], here[WORDS];

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), last = shmem_n_pes() - 1;
    shmem_barrier_all();
    long begin = now();
    for (long i = 1; i <= ROUNDS; i++) {
        for (int k = 0; k < WORDS; k++)
            here[k] = i;
        if (me == 0)
            shmem_long_put(there, here, WORDS, last);
        if (me == 0 || me == last)
            shmem_long_wait_until(&there[WORDS - 1], SHMEM_CMP_EQ, i);
        if (me == last)
            shmem_long_put(there, here, WORDS, 0);
    }
    long end = now();
    if (me == 0)
        printf("%ld\n", (end - begin) * 1000 / (2 * ROUNDS));
    shmem_finalize();
    return 0;
}

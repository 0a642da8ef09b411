// Every way in which a program can wait in a loop without a routine that waits: PE 1 looks again and again until PE 0 has
// written, which PE 0 does a microsecond later. Argument: which way. Prints when PE 1 saw it, in nanoseconds.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long flag, lock;
static uint64_t signal_word;
static long many[4];

static long seen(int way, long *heap) {
    int me = shmem_my_pe();
    long value = 0;
    switch (way) {
    case 0: return shmem_long_atomic_fetch(&flag, me);
    case 1: return shmem_long_atomic_fetch_add(heap, 0, me);
    case 2: return shmem_long_g(&flag, me);
    case 3: return shmem_long_g(heap, me);
    case 4: shmem_long_get(&value, &flag, 1, me); return value;
    case 5: shmem_getmem_nbi(&value, heap, 8, me); shmem_quiet(); return value;
    case 6: shmem_long_iget(&value, heap, 1, 1, 1, me); return value;
    case 7: return shmem_long_test(&flag, SHMEM_CMP_NE, 0);
    // A test that succeeds all the time, and then does not.
    case 8: return !shmem_long_test(&flag, SHMEM_CMP_EQ, 0);
    case 9: return shmem_signal_fetch(&signal_word);
    case 10: return shmem_long_test_any(many, 4, NULL, SHMEM_CMP_NE, 0) != SIZE_MAX;
    case 11: shmem_fence(); return *(volatile long *)&flag;
    case 12: shmem_quiet(); return *(volatile long *)&flag;
    case 13: shmem_long_atomic_fetch_nbi(&value, &flag, me); shmem_quiet(); return value;
    case 14: return shmem_long_atomic_compare_swap(&flag, 1, 1, me);
    default: return shmem_test_lock(&lock) == 0;
    }
}

int main(int argc, char **argv) {
    shmem_init();
    int way = atoi(argv[1]), me = shmem_my_pe();
    long *heap = shmem_calloc(1, sizeof *heap);
    if (way == 15 && me == 0)
        shmem_set_lock(&lock);
    shmem_barrier_all();
    if (me == 0) {
        nanosleep(&(struct timespec){0, 1000}, NULL);
        shmem_long_p(&flag, 1, 1);
        shmem_long_p(heap, 1, 1);
        shmem_long_p(&many[2], 1, 1);
        shmem_signal_set(&signal_word, 1, 1);
        if (way == 15)
            shmem_clear_lock(&lock);
    } else {
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        while (!seen(way, heap))
            ;
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%ld\n", (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

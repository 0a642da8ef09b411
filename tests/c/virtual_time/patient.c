// A program that may have threads: PE 1 waits for a second until PE 0 has slept.
#include <shmem.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long flag;

int main(void) {
    int provided;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided);
    struct timespec before, after;
    shmem_barrier_all();
    clock_gettime(CLOCK_MONOTONIC, &before);
    if (shmem_my_pe() == 0) {
        sleep(1);
        shmem_long_p(&flag, 1, 1);
    } else {
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
        clock_gettime(CLOCK_MONOTONIC, &after);
        printf("%ld\n", (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000);
    }
    shmem_barrier_all();
    shmem_finalize();
    return provided != SHMEM_THREAD_MULTIPLE;
}

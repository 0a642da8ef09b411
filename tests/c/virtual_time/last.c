/* Each PE writes the time of its clock behind a barrier, at once, and what it was, at exit. */
#include <shmem.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe();
    shmem_barrier_all();
    char line[100];
    int n = snprintf(line, sizeof line, "PE %d at %ld writes\n", me, now());
    if (write(1, line, n) != n)
        return 1;
    shmem_barrier_all();
    // Into a buffer that is flushed when the process ends.
    printf("PE %d at %ld ends\n", me, now());
    shmem_finalize();
    return 0;
}

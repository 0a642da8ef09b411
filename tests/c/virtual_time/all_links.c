/* PE 0 of a torus of 3x3x3 puts 1 MiB to each of its six neighbours at once; prints the nanoseconds that the first N took.
 * Usage: all_links N */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 1 << 20 };

int main(int argc, char **argv)
{
    static const int neighbours[] = {1, 2, 3, 6, 9, 18};
    int n = argc > 1 ? atoi(argv[1]) : 6, wrong = 0;
    shmem_init();
    char *from = shmem_malloc(BYTES), *to = shmem_calloc(1, BYTES);
    memset(from, 7, BYTES);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        for (int i = 0; i < n; i++)
            shmem_putmem_nbi(to, from, BYTES, neighbours[i]);
        shmem_quiet();
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("%ld\n", (end.tv_sec - start.tv_sec) * 1000000000L + end.tv_nsec - start.tv_nsec);
    }
    shmem_barrier_all();
    for (int i = 0; i < n; i++)
        if (shmem_my_pe() == neighbours[i])
            wrong = memcmp(from, to, BYTES) != 0;
    shmem_finalize();
    return wrong;
}

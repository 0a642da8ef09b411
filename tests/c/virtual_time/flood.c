// More operations than adapter and queues hold, then a quiet: all must have been done. Prints how many were.
#include <shmem.h>
#include <stdio.h>

enum { MANY = 1 << 16 };
static long count;

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    for (int i = 0; i < MANY; i++)
        shmem_long_atomic_add(&count, 1, (me + 1) % n);
    shmem_quiet();
    shmem_sync_all();
    printf("%ld\n", shmem_long_atomic_fetch(&count, me));
    shmem_finalize();
    return 0;
}

// A race: PE 0 believes that what PE 2 puts later than PE 1 arrives later, too. With the argument `fixed` it waits for it.
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <string.h>

static long from_1, from_2;

int main(int argc, char **argv) {
    shmem_init();
    int me = shmem_my_pe(), fixed = argc > 1 && !strcmp(argv[1], "fixed");
    long early = 1;
    shmem_barrier_all();
    if (me == 1) {
        shmemx_compute(100);
        shmem_long_p(&from_1, 1, 0);
    }
    if (me == 2)
        shmem_long_p(&from_2, 1, 0);
    if (me == 0) {
        shmem_long_wait_until(&from_1, SHMEM_CMP_EQ, 1);
        if (fixed)
            shmem_long_wait_until(&from_2, SHMEM_CMP_EQ, 1);
        early = from_2;
        if (!early)
            fprintf(stderr, "PE 2 was late\n");
    }
    shmem_barrier_all();
    shmem_finalize();
    return early ? 0 : 3;
}

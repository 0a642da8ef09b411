/* Barriers in a row, with data that each must have delivered: barriers.c ROUNDS */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static long from_left;

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    for (long round = 1; round <= rounds; round++) {
        if (round % 2) shmem_long_p(&from_left, round, (me + 1) % n);
        shmem_barrier_all();
        if (round % 2 && from_left != round) {
            fprintf(stderr, "PE %d, round %ld: the barrier let go before %ld had come\n", me, round, round);
            shmem_global_exit(1);
        }
    }
    if (me == 0) printf("%ld barriers\n", rounds);
    shmem_finalize();
    return 0;
}

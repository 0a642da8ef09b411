// Sixteen PEs, each of which sends BYTES to one partner, ROUNDS times, and waits for as much from it. On a torus of 4x4, in
// linear order, partners are as far apart as nodes can be: half a ring in both dimensions.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 20, WORDS = 512, PARTNER = 10 };
static long there[WORDS], here[WORDS];

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), partner = me ^ PARTNER;
    if (shmem_n_pes() != 16) {
        fprintf(stderr, "start 16 PEs\n");
        return 1;
    }
    shmem_barrier_all();
    for (long i = 1; i <= ROUNDS; i++) {
        for (int k = 0; k < WORDS; k++)
            here[k] = i;
        shmem_long_put(there, here, WORDS, partner);
        // The last word is written last.
        shmem_long_wait_until(&there[WORDS - 1], SHMEM_CMP_GE, i);
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

/* A token goes round the PEs: each waits for it, adds its number and puts it to the next.
 *
 *     oshcc ring.c -o ring && angara run -n 8 ./ring
 */
#include <shmem.h>
#include <stdio.h>

#define ROUNDS 20

static long token, turn; /* the value, and how often it has come by */

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;

    for (long round = 1; round <= ROUNDS; round++) {
        /* PE 0 starts each round with what the last one brought back. */
        if (me != 0)
            shmem_long_wait_until(&turn, SHMEM_CMP_GE, round);
        shmem_long_p(&token, token + me + 1, next);
        shmem_fence(); /* the value arrives before the turn */
        shmem_long_p(&turn, round, next);
        if (me == 0)
            shmem_long_wait_until(&turn, SHMEM_CMP_GE, round);
    }

    long want = (long)ROUNDS * n * (n + 1) / 2;
    int ok = me != 0 || token == want;
    if (me == 0)
        printf("%d rounds over %d PEs: token %ld, expected %ld\n", ROUNDS, n, token, want);
    shmem_barrier_all();
    shmem_finalize();
    return !ok;
}

/* Each PE puts its number into a variable of the next PE. */
#include <shmem.h>
#include <stdio.h>

static int from; /* symmetric: every PE has one, and others may write it */

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    shmem_int_p(&from, me, (me + 1) % pes);
    shmem_barrier_all();
    printf("PE %d of %d has heard from PE %d\n", me, pes, from);
    shmem_finalize();
    return from != (me + pes - 1) % pes;
}

/* Every PE puts to the next one and adds up with all, in the heap alone, so that PEs may be of
 * several architectures. */
#include <shmem.h>
#include <stdio.h>

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long *got = shmem_calloc(3, sizeof *got);
    for (int round = 0; round < 20; round++) {
        shmem_long_p(&got[0], me + 1, (me + 1) % n);
        shmem_barrier_all();
        got[1] = got[0];
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &got[2], &got[1], 1);
    }
    int right = got[0] == (me + n - 1) % n + 1 && got[2] == (long)n * (n + 1) / 2;
    if (me == 0 || !right)
        printf("PE %d of %d: %s\n", me, n, right ? "ok" : "wrong");
    shmem_finalize();
    return !right;
}

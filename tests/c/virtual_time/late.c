// PE 2 comes late to a sum of all PEs.
#include <shmem.h>
#include <shmemx.h>

static long mine = 1, sum;

int main(void) {
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == 2)
        shmemx_compute(50000);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1);
    if (sum != shmem_n_pes())
        shmem_global_exit(1);
    shmem_finalize();
    return 0;
}

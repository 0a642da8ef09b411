// PE after PE computes a microsecond more than the one before, and hands a word on: the path that decides when all is done.
#include <shmem.h>
#include <shmemx.h>

static long word;

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_barrier_all();
    if (me > 0)
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, me);
    shmemx_compute(1000 * (me + 1));
    if (me + 1 < n)
        shmem_long_p(&word, me + 1, me + 1);
    shmem_finalize();
    return 0;
}

// PE 1 waits for what nobody writes, the others wait for PE 1.
#include <shmem.h>

static long word;

int main(void) {
    shmem_init();
    if (shmem_my_pe() == 1)
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, 5);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

// PE 1 computes for ever; the others wait for it in a barrier.
#include <shmem.h>

int main(void) {
    shmem_init();
    for (volatile int endless = shmem_my_pe() == 1; endless;)
        ;
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

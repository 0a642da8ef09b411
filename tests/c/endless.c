/* Every PE puts to the next one until the job is ended. */
#include <shmem.h>

static long words[512], mine[512];

int main(void)
{
    shmem_init();
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    for (;;) {
        shmem_long_put(words, mine, 512, next);
        shmem_quiet();
    }
}

/* Says how large the symmetric heap is, or that the start has failed; with an argument, uses memory that is free. */
#include <shmem.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int level, status = shmem_init_thread(SHMEM_THREAD_SINGLE, &level);
    (void)argv;
    if (status != 0) {
        printf("status %d\n", status);
        return 3;
    }
    size_t fits = 0;
    for (size_t step = (size_t)1 << 40; step >= 16; step /= 2) {
        void *p = shmem_malloc(fits + step);
        if (p != NULL)
            fits += step;
        shmem_free(p);
    }
    if (shmem_my_pe() == 0)
        printf("heap %zu\n", fits);
    if (argc > 1) {
        long *p = shmem_malloc(64);
        shmem_free(p);
        shmem_long_p(p, 1, shmem_my_pe());
    }
    shmem_finalize();
    return 0;
}

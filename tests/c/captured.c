/* One operation of each kind from PE 0 to the last PE, whose packets tests know; `forever`: again and again. */
#include <shmem.h>
#include <stdio.h>

#define WORDS 600

long word, list[WORDS], back[WORDS];

int main(int argc, char **argv)
{
    (void)argv;
    shmem_init();
    int last = shmem_n_pes() - 1;
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        for (long round = 0; round == 0 || argc > 1; round++) {
            for (int i = 0; i < WORDS; i++)
                back[i] = i;
            shmem_long_p(&word, 42, last);
            shmem_long_put(list, back, WORDS, last);
            shmem_quiet();
            shmem_long_get(back, list, WORDS, last);
            long old = shmem_long_atomic_fetch_add(&word, 1, last);
            shmem_long_atomic_add(&word, 1, last);
            shmem_quiet();
            if (round == 0) {
                printf("%ld %ld\n", old, back[WORDS - 1]);
                fflush(stdout);
            }
        }
    }
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

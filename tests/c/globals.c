/* Symmetric globals that a debugger and a core dump must show. With the argument `abort` PE 1
 * aborts; else PE 0 says `ready` and everyone waits for PE 0's standard input to close. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long marker = 11;
long table[3000];
static int stop;

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    shmem_long_p(&marker, 31415000 + me, (me + 1) % n);
    for (int i = 0; i < 3000; i++)
        table[i] = 7000000 + i;
    shmem_barrier_all();
    if (argc > 1 && !strcmp(argv[1], "abort") && me == n - 1)
        abort();
    if (me == 0) {
        printf("ready\n");
        fflush(stdout);
        while (getchar() != EOF) {
        }
        for (int pe = 1; pe < n; pe++)
            shmem_int_p(&stop, 1, pe);
    } else {
        shmem_int_wait_until(&stop, SHMEM_CMP_EQ, 1);
    }
    shmem_finalize();
    return 0;
}

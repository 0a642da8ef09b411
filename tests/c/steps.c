/* A job that does one operation at a time, as told on the standard input of PE 0:
 *   put PE VALUE | get PE | add PE VALUE | swap PE VALUE | block PE BYTES | quit
 * The other PEs wait inside the library, or outside of it if there is an argument: then only PE 0 can notice what
 * becomes of the network. Tests use it to act between two operations. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (1 << 20)

long cell = 1000; /* symmetric static data */
int stop;

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    unsigned char *block = shmem_malloc(BLOCK);
    memset(block, 1 + me, BLOCK);
    cell += me;
    shmem_barrier_all();
    (void)argv;
    while (me != 0 && argc > 1)
        pause();
    if (me != 0) {
        shmem_int_wait_until(&stop, SHMEM_CMP_EQ, 1);
        shmem_finalize();
        return 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("ready %d\n", n);
    char line[200], word[20];
    while (fgets(line, sizeof line, stdin)) {
        int pe = 0;
        long value = 0;
        if (sscanf(line, "%19s %d %ld", word, &pe, &value) < 1)
            continue;
        if (pe < 0 || pe >= n) {
            printf("no PE %d\n", pe);
        } else if (!strcmp(word, "put")) {
            shmem_long_p(&cell, value, pe);
            shmem_quiet();
            printf("put %d %ld\n", pe, value);
        } else if (!strcmp(word, "get")) {
            printf("get %d = %ld\n", pe, shmem_long_g(&cell, pe));
        } else if (!strcmp(word, "add")) {
            shmem_long_atomic_add(&cell, value, pe);
            shmem_quiet();
            printf("add %d %ld\n", pe, value);
        } else if (!strcmp(word, "swap")) {
            printf("swap %d was %ld\n", pe, shmem_long_atomic_swap(&cell, value, pe));
        } else if (!strcmp(word, "block")) {
            unsigned char *copy = malloc(BLOCK);
            size_t bytes = value > 0 && value <= BLOCK ? (size_t)value : BLOCK;
            for (size_t i = 0; i < bytes; i++)
                copy[i] = (unsigned char)(i * 7 + pe);
            shmem_putmem(block, copy, bytes, pe);
            shmem_quiet();
            unsigned char *back = calloc(1, BLOCK);
            shmem_getmem(back, block, bytes, pe);
            printf("block %d %s\n", pe, memcmp(copy, back, bytes) ? "DAMAGED" : "whole");
            free(copy);
            free(back);
        } else if (!strcmp(word, "quit")) {
            break;
        } else {
            printf("unknown %s\n", word);
        }
    }
    for (int pe = 1; pe < n; pe++)
        shmem_int_p(&stop, 1, pe);
    shmem_quiet();
    shmem_finalize();
    printf("bye\n");
    return 0;
}

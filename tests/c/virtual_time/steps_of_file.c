// Makes the calls that a file lists and says when the clock was what. A line is the number of a PE, a letter, and up to
// four numbers; a PE does the lines of its own number in order.
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <stdlib.h>
#include "steps_of_file.h"

int main(int argc, char **argv) {
    shmem_init();
    prepare();
    FILE *file = fopen(argc > 1 ? argv[1] : "", "r");
    if (file == NULL) {
        perror("the list of steps");
        shmem_global_exit(1);
    }
    int me = shmem_my_pe(), pe;
    char what;
    unsigned long a, b, c, d;
    while (fscanf(file, "%d %c %lu %lu %lu %lu", &pe, &what, &a, &b, &c, &d) == 6) {
        if (pe != me)
            continue;
        switch (what) {
        case 'P': shmem_uint64_p(&words[b], c, a); break;
        case 'M': shmem_putmem(&words[c], filled(d), b, a); break;
        case 'D': shmem_putmem(data, mine, b, a); break;
        case 'K': shmem_putmem_nbi(data, source, b, a); break;
        case 'L': shmem_putmem_nbi(&words[c], ones(), b, a); break;
        case 'U': shmem_putmem_signal(data, mine, b, &words[c], d, SHMEM_SIGNAL_SET, a); break;
        case 'V': shmem_putmem_signal(data, mine, b, &words[c], d, SHMEM_SIGNAL_ADD, a); break;
        case 'I': shmem_uint64_iput(&words[b], filled(d), c >> 32, 1, c & 0xffffffff, a); break;
        case 'X': for (unsigned long i = 0; i < c; i++) shmem_uint64_p(&words[b], i, a); break;
        case 'g': (void)shmem_uint64_g(&words[b], a); break;
        case 'G': shmem_getmem(mine, data, b, a); break;
        case 'S': shmem_getmem(into, data, b, a); break;
        case 'N': shmem_getmem_nbi(into, data, b, a); break;
        case '+': shmem_uint64_atomic_add(&words[b], c, a); break;
        case '^': shmem_uint64_atomic_xor(&words[b], c, a); break;
        case '&': shmem_uint64_atomic_and(&words[b], c, a); break;
        case '|': shmem_uint64_atomic_or(&words[b], c, a); break;
        case '=': shmem_uint64_atomic_set(&words[b], c, a); break;
        case '1': (void)shmem_uint64_atomic_fetch_add(&words[b], c, a); break;
        case '2': (void)shmem_uint64_atomic_fetch_xor(&words[b], c, a); break;
        case '3': (void)shmem_uint64_atomic_fetch_and(&words[b], c, a); break;
        case '4': (void)shmem_uint64_atomic_fetch_or(&words[b], c, a); break;
        case '5': (void)shmem_uint64_atomic_swap(&words[b], c, a); break;
        case '6': (void)shmem_uint64_atomic_compare_swap(&words[b], d, c, a); break;
        case '7': (void)shmem_uint64_atomic_fetch(&words[b], a); break;
        case 'q': shmem_quiet(); break;
        case 'f': shmem_fence(); break;
        case 'b': shmem_barrier_all(); break;
        case 'y': shmem_sync_all(); break;
        case 'w': shmem_uint64_wait_until(&words[a], SHMEM_CMP_GE, b); break;
        case 'a': shmem_uint64_wait_until_all(&words[a], b, NULL, SHMEM_CMP_GE, c); break;
        case 'c': shmemx_compute(a); break;
        case 'l': (void)shmem_uint64_atomic_fetch(&own, me); break;
        case 'o': shmem_uint64_p(&own, 1, me); break;
        case 't': (void)shmem_uint64_test(&own, SHMEM_CMP_GT, 1); break;
        case 'T': look(); break;
        default: fprintf(stderr, "no step is called %c\n", what); shmem_global_exit(1);
        }
    }
    fclose(file);
    tell(me);
    shmem_finalize();
    return 0;
}

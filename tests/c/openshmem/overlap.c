/* Puts and gets to oneself whose source and destination overlap end as memmove does, in the heap and in globals, small
 * and large. */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 3 << 20 };
static unsigned char global[ROOM];
static unsigned char before[ROOM], wanted[ROOM];

static const size_t lengths[] = { 1, 7, 8, 15, 64, 100, 1000, 70000, 600 << 10, (1 << 20) + 3, 2 << 20 };
static const size_t shifts[][2] = { { 0, 8 }, { 8, 0 }, { 0, 1 }, { 3, 0 }, { 0, 4096 }, { 4096, 0 }, { 16, 16 } };

typedef void (*copy)(void *, const void *, size_t, int);
static void get_quiet(void *to, const void *from, size_t n, int pe) {
    shmem_getmem_nbi(to, from, n, pe);
    shmem_quiet();
}
static void put_quiet(void *to, const void *from, size_t n, int pe) {
    shmem_putmem_nbi(to, from, n, pe);
    shmem_quiet();
}
static void put(void *to, const void *from, size_t n, int pe) {
    shmem_putmem(to, from, n, pe);
    shmem_quiet();
}

static void check(unsigned char *at, const char *what, copy call, size_t n, const size_t shift[2]) {
    memcpy(at, before, ROOM);
    memcpy(wanted, before, ROOM);
    memmove(wanted + shift[0], wanted + shift[1], n);
    call(at + shift[0], at + shift[1], n, shmem_my_pe());
    if (memcmp(at, wanted, ROOM) == 0) return;
    fprintf(stderr, "%s of %zu bytes from %zu to %zu is not what memmove makes of it\n", what, n, shift[1], shift[0]);
    shmem_global_exit(1);
}

int main(void) {
    shmem_init();
    unsigned char *heap = shmem_malloc(ROOM);
    for (size_t i = 0; i < ROOM; i++) before[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
    if (shmem_my_pe() == 0)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
            for (size_t s = 0; s < sizeof shifts / sizeof *shifts; s++)
                for (int where = 0; where < 2; where++) {
                    unsigned char *at = where ? global : heap;
                    check(at, "a put", put, lengths[l], shifts[s]);
                    check(at, "a get", shmem_getmem, lengths[l], shifts[s]);
                    check(at, "a put_nbi", put_quiet, lengths[l], shifts[s]);
                    check(at, "a get_nbi", get_quiet, lengths[l], shifts[s]);
                }
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("overlap passed\n");
    shmem_finalize();
    return 0;
}

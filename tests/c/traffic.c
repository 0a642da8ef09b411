/* A fixed pattern of operations from every PE to every other one, without waiting loops, so that
 * the traffic of a run is the same on every engine. Checks what it moves. */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE 70001

static const size_t sizes[] = {1, 2, 3, 8, 15, 16, 17, 100, 255, 256, 257, 511, 4096, 5000, LARGE};
#define SIZES (sizeof sizes / sizeof *sizes)

long words[8]; /* symmetric static data */
int64_t bits[2];

static unsigned char pattern(int from, int to, size_t i)
{
    return (unsigned char)(i * 13 + from * 5 + to * 3 + (i >> 8));
}

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), bad = 0;
    size_t slot = (LARGE + 7) & ~(size_t)7;
    unsigned char *in = shmem_calloc(n, slot), *own = malloc(LARGE);
    shmem_barrier_all();
    for (int step = 0; step < n; step++) {
        int pe = (me + step) % n;
        for (size_t s = 0; s < SIZES; s++) {
            for (size_t i = 0; i < sizes[s]; i++)
                own[i] = pattern(me, pe, i);
            shmem_putmem(in + me * slot, own, sizes[s], pe);
        }
    }
    shmem_barrier_all();
    for (int from = 0; from < n; from++)
        for (size_t i = 0; i < LARGE; i++)
            bad += in[from * slot + i] != pattern(from, me, i);
    for (int step = 0; step < n; step++) {
        int pe = (me + step) % n;
        for (size_t s = 0; s < SIZES; s++) {
            memset(own, 0, sizes[s]);
            shmem_getmem(own, in + me * slot, sizes[s], pe);
            for (size_t i = 0; i < sizes[s]; i++)
                bad += own[i] != pattern(me, pe, i);
        }
        shmem_long_atomic_add(&words[0], me + 1, pe);
        shmem_int64_atomic_xor(&bits[0], INT64_C(1) << (me % 60), pe);
        shmem_long_atomic_inc(&words[2], pe);
        shmem_long_atomic_fetch_add(&words[3], 2, pe);
        shmem_int64_atomic_or(&bits[1], INT64_C(1) << (me % 60), pe);
    }
    shmem_barrier_all();
    int64_t xors = 0, ors = 0;
    for (int from = 0; from < n; from++) {
        xors ^= INT64_C(1) << (from % 60);
        ors |= INT64_C(1) << (from % 60);
    }
    bad += words[0] != (long)n * (n + 1) / 2;
    bad += bits[0] != xors;
    bad += words[2] != n;
    bad += words[3] != 2L * n;
    bad += bits[1] != ors;
    if (bad)
        fprintf(stderr, "PE %d: %d values are wrong\n", me, bad);
    shmem_barrier_all();
    if (me == 0 && !bad)
        printf("traffic done\n");
    shmem_finalize();
    return bad != 0;
}

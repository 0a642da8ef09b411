/* More PEs than anybody has cores: barriers, all-to-all, a sort by samples; and what a PE's memory takes. */
#include "check.h"

enum { KEYS = 256 };

static long keys[KEYS];

static int by_value(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

/* Memory of this process alone or shared with none, in KiB: what one more PE costs. */
static long private_kib(void)
{
    long sum = 0, kib;
    char line[256];
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Clean: %ld", &kib) == 1 || sscanf(line, "Private_Dirty: %ld", &kib) == 1) sum += kib;
    if (f) fclose(f);
    return sum;
}

int main(void)
{
    start();
    long *out = shmem_malloc(n * sizeof(long)), *in = shmem_malloc(n * sizeof(long));
    long *counts = shmem_calloc(n, sizeof(long)), *mine = shmem_malloc(4 * KEYS * sizeof(long));
    static long sum, top, length;
    for (int i = 0; i < 50; i++) shmem_barrier_all();

    for (int pe = 0; pe < n; pe++) out[pe] = (long)me * n + pe;
    shmem_barrier_all();
    shmem_long_alltoall(SHMEM_TEAM_WORLD, in, out, 1);
    for (int pe = 0; pe < n; pe++) CHECK(in[pe] == (long)pe * n + me);

    /* Every key goes to the PE that owns its range. */
    unsigned long random = 88172645463325252UL + me;
    for (int i = 0; i < KEYS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        keys[i] = (long)(random >> 2) % (1L << 40);
    }
    shmem_barrier_all();
    for (int i = 0; i < KEYS; i++) {
        int owner = (int)(keys[i] / ((1L << 40) / n + 1));
        long at = shmem_long_atomic_fetch_inc(&length, owner);
        if (at < 4 * KEYS) shmem_long_p(&mine[at], keys[i], owner);
    }
    shmem_barrier_all();
    CHECK(length <= 4 * KEYS);
    qsort(mine, length, sizeof(long), by_value);
    counts[0] = length;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, counts, 1);
    CHECK(sum == (long)n * KEYS);
    top = length ? mine[length - 1] : 0;
    shmem_barrier_all();
    if (me > 0 && length) CHECK(shmem_long_g(&top, me - 1) <= mine[0]);
    shmem_barrier_all();

    long kib = private_kib();
    CHECK(kib > 0 && kib <= 8 * 1024);
    if (me == 0) printf("%ld KiB private memory\n", kib);
    return finish("many");
}

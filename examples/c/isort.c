/* Integer sort: keys are dealt to PEs by value, then each PE counts its own range. Room at the
 * receiver is reserved with a fetching atomic add, the keys follow by put.
 *
 *     oshcc -O2 isort.c -o isort && angara run -n 8 ./isort [KEYS PER PE]
 */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANGE (1u << 18) /* keys are below this */

static long received; /* keys that have arrived here, or are on their way */
static long border;   /* smallest key of the next PE that has keys */
static long mine[3], all[3];

static uint64_t rng(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int owner(uint32_t key, int n)
{
    return (int)((uint64_t)key * n / RANGE);
}

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long keys = argc > 1 ? atol(argv[1]) : 20000;
    long room = 2 * keys + 1000 * n; /* far above what chance can bring */
    uint32_t *in = shmem_malloc(room * sizeof *in);
    uint32_t *key = malloc(keys * sizeof *key), *out = malloc(keys * sizeof *out);
    long *count = calloc(n, sizeof *count), *start = calloc(n + 1, sizeof *start);
    if (keys < 1 || !in || !key || !out) {
        fprintf(stderr, "PE %d: no memory for %ld keys\n", me, keys);
        shmem_global_exit(1);
    }

    uint64_t seed = me;
    for (long i = 0; i < keys; i++) {
        key[i] = (uint32_t)(rng(&seed) % RANGE);
        mine[0] += key[i];
        count[owner(key[i], n)]++;
    }
    for (int pe = 0; pe < n; pe++)
        start[pe + 1] = start[pe] + count[pe];
    long *at = malloc(n * sizeof *at);
    memcpy(at, start, n * sizeof *at);
    for (long i = 0; i < keys; i++)
        out[at[owner(key[i], n)]++] = key[i];

    for (int step = 0; step < n; step++) {
        int pe = (me + step) % n; /* everybody starts at a different one */
        if (count[pe] == 0)
            continue;
        long place = shmem_long_atomic_fetch_add(&received, count[pe], pe);
        if (place + count[pe] > room) {
            fprintf(stderr, "PE %d: more than %ld keys for PE %d\n", me, room, pe);
            shmem_global_exit(1);
        }
        shmem_uint32_put(in + place, out + start[pe], count[pe], pe);
    }
    shmem_barrier_all();

    /* Counting sort of my range. */
    uint32_t low = (uint32_t)(((uint64_t)RANGE * me + n - 1) / n);
    uint32_t high = (uint32_t)(((uint64_t)RANGE * (me + 1) + n - 1) / n);
    long *histogram = calloc(high - low + 1, sizeof *histogram), wrong = 0;
    for (long i = 0; i < received; i++) {
        if (in[i] < low || in[i] >= high)
            wrong++;
        else
            histogram[in[i] - low]++;
    }
    long sorted = 0;
    for (uint32_t k = low; k < high; k++)
        for (long i = 0; i < histogram[k - low]; i++)
            in[sorted++] = k;
    wrong += sorted != received;

    /* Order inside, order across the border, and nothing lost: count and sum of all keys. */
    for (long i = 1; i < sorted; i++)
        wrong += in[i - 1] > in[i];
    border = RANGE;
    shmem_barrier_all();
    if (me > 0 && sorted > 0)
        shmem_long_p(&border, in[0], me - 1);
    shmem_barrier_all();
    wrong += sorted > 0 && (long)in[sorted - 1] > border;
    mine[1] = received;
    for (long i = 0; i < sorted; i++)
        mine[0] -= in[i];
    mine[2] = wrong;
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, all, mine, 3);

    int ok = all[0] == 0 && all[1] == keys * n && all[2] == 0;
    if (me == 0)
        printf("isort: %ld keys on %d PEs, %ld misplaced, checksum difference %ld: %s\n", all[1], n, all[2], all[0],
               ok ? "sorted" : "WRONG");
    shmem_finalize();
    return !ok;
}

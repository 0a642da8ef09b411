/* What old programs expect of active sets beyond what the specification promises. */
#include "check.h"
#include <unistd.h>

enum { ROUNDS = 200, MANY = 20000 };

static long sync_[2][SHMEM_BCAST_SYNC_SIZE], reduce_sync[SHMEM_REDUCE_SYNC_SIZE], gather_sync[SHMEM_COLLECT_SYNC_SIZE];
static long work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long small[2], big[2][MANY], source[MANY];

/* Two work arrays and two destinations in turn, and no barrier: the root must not be two broadcasts ahead of a PE
 * that still looks at the first. */
static void alternating(long *first, long *second, int len, int root)
{
    long *dest[2] = { first, second };
    shmem_barrier_all();
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < len; k++) source[k] = 7L * i + k;
        shmem_broadcast64(dest[i % 2], source, len, root, 0, 0, n, sync_[i % 2]);
        if (me != root) {
            if (i % 16 == me % 16)
                usleep(300); /* looks at it later */
            CHECK(dest[i % 2][0] == 7L * i && dest[i % 2][len - 1] == 7L * i + len - 1);
        }
    }
    shmem_barrier_all();
}

int main(void)
{
    start();
    alternating(&small[0], &small[1], 1, 0);
    alternating(&small[0], &small[1], 1, n - 1);
    alternating(big[0], big[1], MANY, 0);
    /* With one PE there is no distance to the next, so any stride will do. */
    for (int stride = -1; stride < 80; stride += 9) {
        long one = me;
        shmem_barrier(me, stride, 1, sync_[0]);
        shmem_sync(me, stride, 1, sync_[0]);
        shmem_broadcast64(&small[0], &source[0], 1, 0, me, stride, 1, sync_[0]);
        source[0] = one;
        shmem_fcollect64(&small[0], source, 1, me, stride, 1, gather_sync);
        CHECK(small[0] == one);
        shmem_long_sum_to_all(&small[1], source, 1, me, stride, 1, work, reduce_sync);
        CHECK(small[1] == one);
    }
    return finish("active_sets");
}

/* shmemx.h: traffic, half-barriers, collectives of the routers that run beside the program. */
#include "check.h"
#include <sched.h>
#include <shmemx.h>

static long value;

/* What all links together and, if they exist, the first node's links have carried. */
static void links(size_t *packets, size_t *bytes)
{
    int zero[SHMEMX_DIMS_MAX] = { 0 }, dims[SHMEMX_DIMS_MAX], nd = shmemx_torus_dims(dims);
    size_t p, b, sum = 0;
    CHECK(shmemx_link_traffic(NULL, 0, 0, packets, bytes) == 0);
    CHECK(shmemx_link_traffic(zero, nd, 1, &p, &b) == -1);
    CHECK(shmemx_link_traffic(zero, 0, 0, &p, &b) == -1);
    CHECK(shmemx_link_traffic((int[SHMEMX_DIMS_MAX]){ dims[0] }, 0, 1, &p, &b) == -1);
    int at[SHMEMX_DIMS_MAX] = { 0 };
    for (int node = 0, more = 1; more; node++) {
        for (int d = 0; d < nd; d++)
            for (int way = -1; way <= 1; way += 2)
                if (shmemx_link_traffic(at, d, way, &p, NULL) == 0) sum += p;
        more = 0;
        for (int d = 0; d < nd && !more; d++) {
            more = ++at[d] < dims[d];
            if (!more) at[d] = 0;
        }
    }
    /* Others may have sent meanwhile. */
    size_t later;
    CHECK(shmemx_link_traffic(NULL, 0, 0, &later, NULL) == 0);
    CHECK(*packets <= sum && sum <= later);
}

int main(void)
{
    start();
    long *to = shmem_malloc(600 * sizeof(long)), own[600], result[600];
    size_t before, after, packets, bytes;
    int next = (me + 1) % n;

    CHECK(shmemx_pe_traffic(next, SHMEMX_PUT, &before, NULL, NULL) == 0);
    shmem_putmem(to, own, 600, next);
    CHECK(shmemx_pe_traffic(next, SHMEMX_PUT, &after, &packets, &bytes) == 0);
    CHECK(after == before + 1 && packets >= 3 && bytes >= 600);
    CHECK(shmemx_pe_traffic(n, SHMEMX_PUT, &after, NULL, NULL) == -1);
    CHECK(shmemx_pe_traffic(0, 4, &after, NULL, NULL) == -1);

    /* 600 bytes are three packets on each link of their way. Only this PE sends. */
    size_t p0, b0, p1, b1, hops = shmemx_pe_hops(next);
    for (int turn = 0; turn < n; turn++) {
        shmem_barrier_all();
        if (turn == me) {
            links(&p0, &b0);
            shmem_putmem(to, own, 600, next);
            shmem_quiet();
            links(&p1, &b1);
            CHECK(p1 - p0 >= 3 * hops && b1 - b0 >= 600 * hops);
            if (n == 1) CHECK(p1 == 0 && b1 == 0);
        }
    }
    shmem_barrier_all();

    /* A half-barrier orders what was put before it against what is read after it, on every PE. */
    for (long i = 1; i <= 20; i++) {
        shmem_long_p(&value, i, next);
        shmem_quiet();
        shmemx_half_barrier_all();
        CHECK(value == i);
        shmem_barrier_all();
    }

    int tree = shmemx_tree_open(SHMEM_TEAM_WORLD, 0);
    if (tree >= 0) {
        for (int i = 0; i < 600; i++) own[i] = me * 1000 + i;
        long sum = shmemx_tree_reduce_nb(tree, SHMEMX_SUM, SHMEMX_INT64, own, 600);
        long most = shmemx_tree_reduce_nb(tree, SHMEMX_MAX, SHMEMX_INT64, own, 1);
        long cast = shmemx_tree_broadcast_nb(tree, to, own, sizeof own, n - 1);
        memset(own, 0, sizeof own); /* sources may be reused at once */
        while (!shmemx_test(most)) sched_yield();
        shmemx_wait(most, result);
        CHECK(result[0] == (n - 1) * 1000);
        shmemx_wait(sum, result);
        for (int i = 0; i < 600; i++) CHECK(result[i] == 500L * n * (n - 1) + (long)n * i);
        shmemx_wait(cast, NULL);
        for (int i = 0; i < 600; i++) CHECK(to[i] == (n - 1) * 1000 + i);
        shmemx_tree_close(SHMEM_TEAM_WORLD, tree);
    }
    CHECK(n == 1 || tree >= 0);
    return finish("extensions");
}

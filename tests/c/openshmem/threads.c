/* SHMEM_THREAD_MULTIPLE: 4 threads of each PE at once, on the default context, on one they share and on
 * contexts of their own: nothing is lost, neither data nor counts. Then in collectives of
 * different teams. */
#include "check.h"
#include <pthread.h>
#include <shmemx.h>

#ifndef ROUNDS
#define ROUNDS 500
#endif
enum { THREADS = 4 };

static long hits, shared_hits, slots[64 * THREADS], shared_slots[64 * THREADS], ready[THREADS], swapped;
static shmem_ctx_t shared;

static void *work(void *arg)
{
    int t = (int)(long)arg, next = (me + 1) % n;
    shmem_ctx_t own;
    CHECK(shmem_ctx_create(t % 2 ? SHMEM_CTX_PRIVATE : SHMEM_CTX_SERIALIZED, &own) == 0);
    for (int i = 1; i <= ROUNDS; i++) {
        for (int pe = 0; pe < n; pe++) {
            shmem_long_atomic_inc(&hits, pe);
            shmem_ctx_long_atomic_fetch_add(own, &hits, 2, pe);
            shmem_ctx_long_atomic_inc(shared, &shared_hits, pe);
            shmem_long_p(&slots[me * THREADS + t], i, pe);
        }
        shmem_ctx_long_put(own, &slots[me * THREADS + t], &(long){ 2 * i }, 1, next);
        shmem_ctx_quiet(own);
        CHECK(shmem_ctx_long_g(own, &slots[me * THREADS + t], next) == 2 * i);
        /* A quiet ends the puts of this thread whatever the others have on the same context meanwhile. */
        shmem_ctx_long_p(shared, &shared_slots[me * THREADS + t], 3 * i, next);
        shmem_ctx_quiet(shared);
        CHECK(shmem_ctx_long_g(shared, &shared_slots[me * THREADS + t], next) == 3 * i);
    }
    for (;;) { /* a counter that only compare-and-swap moves */
        long now = shmem_long_atomic_fetch(&swapped, 0);
        if (shmem_long_atomic_compare_swap(&swapped, now, now + 1, 0) == now)
            break;
    }
    /* Threads wait for each other's signals side by side. */
    shmem_long_atomic_inc(&ready[t], next);
    shmem_long_wait_until(&ready[t], SHMEM_CMP_EQ, 1);
    shmem_ctx_destroy(own);
    return NULL;
}

/* Each thread has a team of its own, made by it out of a team of its own: all of them are in
 * collectives at once, and the PEs' threads run in different orders. */
static shmem_team_t mine[THREADS];
static long from[THREADS][300], to[THREADS][300 * 64];

static void *collect(void *arg)
{
    int t = (int)(long)arg;
    shmem_team_t team = mine[t], part;
    for (int i = 0; i < 50; i++) {
        int size = shmem_team_n_pes(team), rank = shmem_team_my_pe(team), len = i % 3 ? 1 + i : 300;
        for (int k = 0; k < len; k++) from[t][k] = 1000 * t + rank + k;
        shmem_team_sync(team);
        shmem_long_sum_reduce(team, to[t], from[t], len);
        for (int k = 0; k < len; k++) CHECK(to[t][k] == (1000L * t + k) * size + size * (size - 1) / 2);
        shmem_team_sync(team);
        shmem_long_fcollect(team, to[t], from[t], len);
        for (int pe = 0; pe < size; pe++) CHECK(to[t][pe * len + len - 1] == 1000 * t + pe + len - 1);
        shmem_team_sync(team);
        shmem_long_broadcast(team, to[t], from[t], len, i % size);
        CHECK(to[t][len - 1] == 1000 * t + i % size + len - 1);
        if (i % 10 == 0) {
            CHECK(shmem_team_split_strided(team, 0, 1, size, NULL, 0, &part) == 0);
            shmem_team_sync(part);
            shmem_team_destroy(part);
        }
        shmem_team_sync(team);
    }
    return NULL;
}

static void collectives_at_once(void)
{
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, t % 2 ? n - 1 : 0, t % 2 ? -1 : 1, n, NULL, 0, &mine[t]) == 0);
    for (long i = 0; i < THREADS; i++) {
        long t = me % 2 ? THREADS - 1 - i : i;
        pthread_create(&threads[t], NULL, collect, (void *)t);
    }
    /* The main thread is in collectives of all PEs meanwhile. */
    for (int i = 0; i < 20; i++) {
        shmem_barrier_all();
        shmem_free(shmem_malloc(100));
    }
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) shmem_team_destroy(mine[t]);
    shmem_barrier_all();
}

int main(void)
{
    int level;
    pthread_t threads[THREADS];
    size_t ops[3][64], now;
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) == 0 && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    for (int pe = 0; pe < n; pe++)
        for (int c = SHMEMX_PUT; c <= SHMEMX_AMO; c++) CHECK(shmemx_pe_traffic(pe, c, &ops[c][pe], NULL, NULL) == 0);
    CHECK(shmem_ctx_create(0, &shared) == 0);
    shmem_barrier_all();
    for (long t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    shmem_barrier_all();
    shmem_ctx_destroy(shared);
    CHECK(hits == 3L * ROUNDS * THREADS * n && shared_hits == (long)ROUNDS * THREADS * n);
    if (me == 0) CHECK(swapped == (long)THREADS * n);
    for (int pe = 0; pe < n; pe++) {
        size_t to_next = pe == (me + 1) % n ? 2 * THREADS * ROUNDS : 0;
        CHECK(shmemx_pe_traffic(pe, SHMEMX_PUT, &now, NULL, NULL) == 0 && now - ops[0][pe] == THREADS * ROUNDS + to_next);
        CHECK(shmemx_pe_traffic(pe, SHMEMX_GET, &now, NULL, NULL) == 0 && now - ops[1][pe] == to_next);
        /* Compare-and-swap to PE 0 may need any number of tries. */
        CHECK(shmemx_pe_traffic(pe, SHMEMX_AMO, &now, NULL, NULL) == 0);
        CHECK(now - ops[2][pe] >= 3 * THREADS * ROUNDS);
        if (pe > 0) CHECK(now - ops[2][pe] == 3 * THREADS * ROUNDS + (pe == (me + 1) % n ? THREADS : 0));
    }
    collectives_at_once();
    return finish("threads");
}

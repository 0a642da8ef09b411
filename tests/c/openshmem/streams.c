/* More teams than any fixed number of signal sets, in collectives of two threads at once; then teams that come
 * and go. */
#include "check.h"
#include <pthread.h>

#ifndef ROUNDS
#define ROUNDS 10
#endif
#ifndef LIVES
#define LIVES 10000
#endif
enum { TEAMS = 32, THREADS = 2, LEN = 600 };

static shmem_team_t teams[TEAMS];
static long from[THREADS][LEN], to[THREADS][LEN * 64];

/* Thread t has the teams whose number is t modulo 2, in another order on every other PE. */
static void *work(void *arg)
{
    int t = (int)(long)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = t; i < TEAMS; i += THREADS) {
            shmem_team_t team = teams[i];
            if (team == SHMEM_TEAM_INVALID)
                continue;
            int size = shmem_team_n_pes(team), rank = shmem_team_my_pe(team);
            int len = round % 2 ? LEN : 1 + i, root = (i + round) % size;
            for (int k = 0; k < LEN; k++) from[t][k] = 1000 * i + rank + k;
            shmem_long_sum_reduce(team, to[t], from[t], len);
            for (int k = 0; k < len; k++) CHECK(to[t][k] == (1000L * i + k) * size + size * (size - 1) / 2);
            shmem_team_sync(team);
            shmem_long_fcollect(team, to[t], from[t], len);
            for (int pe = 0; pe < size; pe++) CHECK(to[t][pe * len + len - 1] == 1000 * i + pe + len - 1);
            shmem_team_sync(team);
            shmem_long_broadcast(team, to[t], from[t], len, root);
            CHECK(to[t][len - 1] == 1000 * i + root + len - 1);
            shmem_team_sync(team);
            shmem_long_sum_exscan(team, to[t], from[t], len);
            CHECK(to[t][0] == 1000L * i * rank + rank * (rank - 1) / 2);
            shmem_team_sync(team);
            shmem_long_collect(team, to[t], from[t], rank + 1);
            CHECK(to[t][size * (size + 1) / 2 - 1] == 1000 * i + size - 1 + size - 1);
            shmem_team_sync(team);
        }
    }
    return NULL;
}

/* A thread that sends for a team whose other PEs come late must not stop the other thread, and takes no more room
 * than for two messages. */
static long ahead_from, ahead_to, late;

static void *run_ahead(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        ahead_from = me + i;
        shmem_long_sum_inscan(teams[0], &ahead_to, &ahead_from, 1);
        CHECK(ahead_to == (long)(me + 1) * i + me * (me + 1) / 2);
    }
    return NULL;
}

static void one_runs_ahead(void)
{
    pthread_t thread;
    if (me == 0)
        pthread_create(&thread, NULL, run_ahead, NULL);
    for (int i = 0; i < 200; i++) {
        long one = 1;
        static long source, sum;
        source = one;
        shmem_long_sum_reduce(teams[1], &sum, &source, 1);
        CHECK(sum == n);
        shmem_team_sync(teams[1]);
    }
    shmem_long_atomic_inc(&late, 0);
    if (me != 0)
        pthread_create(&thread, NULL, run_ahead, NULL);
    pthread_join(thread, NULL);
    if (me == 0)
        shmem_long_wait_until(&late, SHMEM_CMP_EQ, n);
    shmem_barrier_all();
}

static void come_and_go(void)
{
    for (int i = 0; i < LIVES; i++) {
        shmem_team_t team;
        int size = 1 + i % n;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size, NULL, 0, &team) == 0);
        CHECK((team != SHMEM_TEAM_INVALID) == (me < size));
        if (i % 16 == 0 && team != SHMEM_TEAM_INVALID) {
            static long one, sum;
            one = i;
            shmem_long_sum_reduce(team, &sum, &one, 1);
            CHECK(sum == (long)i * size);
        }
        shmem_team_destroy(team);
    }
    shmem_barrier_all();
}

static long resident(void)
{
    long pages = 0, rest;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &rest, &pages) != 2)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages;
}

int main(void)
{
    int level;
    pthread_t threads[THREADS];
    CHECK(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level) == 0 && level == SHMEM_THREAD_MULTIPLE);
    me = shmem_my_pe();
    n = shmem_n_pes();
    for (int i = 0; i < TEAMS; i++) {
        int first = i % 3 == 2 && n > 1 ? 1 : 0;
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, i % 2 ? n - 1 : first, i % 2 ? -1 : 1, n - (i % 2 ? 0 : first),
                                       NULL, 0, &teams[i]) == 0);
    }
    for (long i = 0; i < THREADS; i++) {
        long t = me % 2 ? THREADS - 1 - i : i;
        pthread_create(&threads[t], NULL, work, (void *)t);
    }
    for (int i = 0; i < 20; i++) shmem_barrier_all();
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    shmem_barrier_all();
    one_runs_ahead();
    come_and_go();
    long before = resident();
    come_and_go();
    CHECK(resident() - before < 256);
    for (int i = 0; i < TEAMS; i++) shmem_team_destroy(teams[i]);
    return finish("streams");
}

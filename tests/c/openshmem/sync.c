/* Waiting and testing, signals, ordering, locks. */
#include "check.h"

#define ROUNDS 30

/* A lap: each PE waits for its left neighbour's value and passes it on, once for every comparison. */
#define WAIT(NAME, T)                                                                                                  \
    static T NAME##_flag;                                                                                              \
    static void NAME##_wait_test(void)                                                                                 \
    {                                                                                                                  \
        static const int cmp[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE};                             \
        for (int i = 0; i < 4; i++) {                                                                                  \
            T before = (T)(i * 2), value = (T)(i * 2 + 2);                                                             \
            T with = cmp[i] == SHMEM_CMP_NE || cmp[i] == SHMEM_CMP_GT ? before : value;                                \
            if (me == 0)                                                                                               \
                shmem_##NAME##_p(&NAME##_flag, value, (me + 1) % n);                                                   \
            shmem_##NAME##_wait_until(&NAME##_flag, cmp[i], with);                                                     \
            CHECK(NAME##_flag == value && shmem_##NAME##_test(&NAME##_flag, cmp[i], with));                            \
            CHECK(!shmem_##NAME##_test(&NAME##_flag, SHMEM_CMP_LT, value));                                            \
            CHECK(shmem_##NAME##_test(&NAME##_flag, SHMEM_CMP_LE, value));                                             \
            if (me != 0)                                                                                               \
                shmem_##NAME##_p(&NAME##_flag, value, (me + 1) % n);                                                   \
            shmem_barrier_all();                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    static void NAME##_many(void *heap, int *status, size_t *indices)                                                  \
    {                                                                                                                  \
        T *flags = heap, *values = malloc((n + 1) * sizeof *values);                                                   \
        memset(flags, 0, n * sizeof *flags);                                                                           \
        shmem_barrier_all();                                                                                           \
        CHECK(shmem_##NAME##_test_any(flags, n, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);                                   \
        CHECK(shmem_##NAME##_test_some(flags, n, indices, NULL, SHMEM_CMP_NE, 0) == 0);                                \
        CHECK(!shmem_##NAME##_test_all(flags, n, NULL, SHMEM_CMP_NE, 0));                                              \
        CHECK(shmem_##NAME##_test_all(flags, 0, NULL, SHMEM_CMP_NE, 0));                                               \
        CHECK(shmem_##NAME##_wait_until_any(flags, 0, NULL, SHMEM_CMP_NE, 0) == SIZE_MAX);                             \
        shmem_barrier_all();                                                                                           \
        for (int pe = 0; pe < n; pe++)                                                                                 \
            shmem_##NAME##_p(&flags[me], (T)(me + 1), pe);                                                             \
        memset(status, 0, n * sizeof *status);                                                                         \
        for (int seen = 0; seen < n; seen++) {                                                                         \
            size_t i = shmem_##NAME##_wait_until_any(flags, n, status, SHMEM_CMP_GT, 0);                               \
            CHECK(i < (size_t)n && !status[i] && flags[i] == (T)(i + 1));                                              \
            status[i < (size_t)n ? i : 0] = 1;                                                                         \
        }                                                                                                              \
        CHECK(shmem_##NAME##_wait_until_any(flags, n, status, SHMEM_CMP_GT, 0) == SIZE_MAX);                           \
        CHECK(shmem_##NAME##_wait_until_some(flags, n, indices, status, SHMEM_CMP_GT, 0) == 0);                        \
        shmem_##NAME##_wait_until_all(flags, n, NULL, SHMEM_CMP_GT, 0);                                                \
        CHECK(shmem_##NAME##_wait_until_some(flags, n, indices, NULL, SHMEM_CMP_GT, 0) == (size_t)n);                  \
        for (int i = 0; i < n; i++) {                                                                                  \
            CHECK(indices[i] == (size_t)i);                                                                            \
            values[i] = (T)(i + 1);                                                                                    \
        }                                                                                                              \
        shmem_##NAME##_wait_until_all_vector(flags, n, NULL, SHMEM_CMP_EQ, values);                                    \
        CHECK(shmem_##NAME##_wait_until_any_vector(flags, n, NULL, SHMEM_CMP_EQ, values) < (size_t)n);                 \
        CHECK(shmem_##NAME##_wait_until_some_vector(flags, n, indices, NULL, SHMEM_CMP_EQ, values) == (size_t)n);      \
        CHECK(shmem_##NAME##_test_all_vector(flags, n, NULL, SHMEM_CMP_EQ, values));                                   \
        CHECK(shmem_##NAME##_test_any_vector(flags, n, NULL, SHMEM_CMP_GT, values) == SIZE_MAX);                       \
        CHECK(shmem_##NAME##_test_some_vector(flags, n, indices, NULL, SHMEM_CMP_LT, values) == 0);                    \
        free(values);                                                                                                  \
        shmem_barrier_all();                                                                                           \
    }
#define WAIT_TYPES(X) AMO_TYPES(X) X(short, short) X(ushort, unsigned short)
WAIT_TYPES(WAIT)

static void signals(void)
{
    static uint64_t sig, counter;
    static long box[512];
    long mine[512];
    int to = (me + 1) % n, from = (me + n - 1) % n;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        size_t count = round * 17;
        for (size_t i = 0; i < count; i++)
            mine[i] = me * 100000L + round * 1000 + (long)i;
        if (round % 2)
            shmem_long_put_signal(box, mine, count, &sig, round, SHMEM_SIGNAL_SET, to);
        else
            shmem_putmem_signal_nbi(box, mine, count * sizeof *mine, &sig, 1, SHMEM_SIGNAL_ADD, to);
        CHECK(shmem_signal_wait_until(&sig, SHMEM_CMP_GE, round) == round);
        for (size_t i = 0; i < count; i++)
            CHECK(box[i] == from * 100000L + (long)round * 1000 + (long)i);
        shmem_barrier_all();
    }
    shmem_signal_add(&counter, 3, 0);
    shmem_barrier_all();
    if (me == 0) {
        CHECK(shmem_signal_fetch(&counter) == 3u * n);
        shmem_signal_set(&counter, 1, n - 1);
    }
    if (me == n - 1)
        shmem_uint64_wait_until(&counter, SHMEM_CMP_EQ, 1);
    shmem_barrier_all();
}

/* Whoever sees the flag sees the data put before the fence. */
static void fences(void)
{
    static long data[100], flag;
    int to = (me + 1) % n, from = (me + n - 1) % n;
    for (long round = 1; round <= ROUNDS; round++) {
        long mine[100];
        for (int i = 0; i < 100; i++)
            mine[i] = round * me + i;
        shmem_long_put_nbi(data, mine, 100, to);
        shmem_fence();
        shmem_long_p(&flag, round, to);
        shmem_long_wait_until(&flag, SHMEM_CMP_GE, round);
        for (int i = 0; i < 100; i++)
            CHECK(data[i] == round * from + i);
        shmem_barrier_all();
    }
    int targets[2] = {to, from};
    shmem_pe_quiet(targets, 2);
    shmem_ctx_pe_quiet(SHMEM_CTX_DEFAULT, targets, 1);
}

/* Unprotected read-modify-write of words at PE 0 under locks. */
static void locks(void)
{
    static long global_lock, sum, order;
    long *lock = shmem_calloc(2, sizeof *lock);
    long *held[2] = {&global_lock, &lock[1]};
    for (int l = 0; l < 2; l++) {
        sum = order = 0;
        shmem_barrier_all();
        for (int i = 0; i < ROUNDS; i++) {
            if (i % 3)
                shmem_set_lock(held[l]);
            else
                while (shmem_test_lock(held[l])) {
                }
            long value = shmem_long_g(&sum, 0);
            shmem_long_p(&sum, value + me + 1, 0);
            shmem_long_p(&order, shmem_long_g(&order, 0) + 1, 0);
            shmem_clear_lock(held[l]);
        }
        shmem_barrier_all();
        CHECK(me != 0 || (sum == (long)ROUNDS * n * (n + 1) / 2 && order == (long)ROUNDS * n));
        CHECK(*held[l] == 0);
        shmem_barrier_all();
    }
    shmem_free(lock);
}

int main(void)
{
    start();
    void *heap = shmem_malloc((n + 1) * 8);
    int *status = malloc(n * sizeof *status);
    size_t *indices = malloc(n * sizeof *indices);
#define RUN(NAME, T)                                                                                                   \
    NAME##_wait_test();                                                                                                \
    NAME##_many(heap, status, indices);
    WAIT_TYPES(RUN)
    signals();
    fences();
    locks();
    return finish("sync");
}

/* A program whose PEs may be of several architectures: all that is symmetric lies in the heap. With an argument, the last
   PE makes the mistake that it names (`all-…`: every PE does), and the others wait in a barrier. */
#include "check.h"

#define MANY 100000

/* What PE p tells PE q at place i. */
static long told(int p, int q, long i) { return ((long)p << 40 | (long)q << 32) + i * 0x01010101L; }

static void *room(size_t bytes)
{
    void *p = shmem_calloc(1, bytes);
    CHECK(p != NULL);
    return p;
}

#define MOVES(NAME, T)                                                                                                 \
    static void NAME##_moves(void)                                                                                     \
    {                                                                                                                  \
        /* What is not symmetric may be anywhere. */                                                                   \
        static T mine[7];                                                                                              \
        T *to = room(sizeof mine), *back = room(sizeof mine);                                                          \
        int next = (me + 1) % n, last = (me + n - 1) % n;                                                              \
        for (int i = 0; i < 7; i++)                                                                                    \
            mine[i] = (T)(me * 10 + i);                                                                                \
        shmem_##NAME##_put(to, mine, 6, next);                                                                         \
        shmem_##NAME##_p(to + 6, mine[6], next);                                                                       \
        shmem_barrier_all();                                                                                           \
        for (int i = 0; i < 7; i++)                                                                                    \
            CHECK(to[i] == (T)(last * 10 + i));                                                                        \
        shmem_##NAME##_get(back, to, 7, next);                                                                         \
        CHECK(back[3] == (T)(me * 10 + 3) && shmem_##NAME##_g(to + 5, next) == (T)(me * 10 + 5));                      \
        shmem_##NAME##_iget(back, to, 1, 3, 3, next);                                                                  \
        CHECK(back[2] == (T)(me * 10 + 6));                                                                            \
        shmem_barrier_all();                                                                                           \
        shmem_free(back);                                                                                              \
        shmem_free(to);                                                                                                \
    }
AMO_TYPES(MOVES)
SMALL_TYPES(MOVES)
MOVES(float, float)
MOVES(double, double)

static void large(void)
{
    long *to = room(MANY * sizeof *to), *from = room(MANY * sizeof *from);
    int next = (me + 1) % n, last = (me + n - 1) % n, wrong = 0;
    for (long i = 0; i < MANY; i++)
        from[i] = told(me, next, i);
    shmem_long_put_nbi(to, from, MANY, next);
    shmem_quiet();
    shmem_barrier_all();
    for (long i = 0; i < MANY; i++)
        wrong += to[i] != told(last, me, i);
    CHECK(wrong == 0);
    shmem_long_get(from, to, MANY, next);
    for (long i = 0; i < MANY; i++)
        wrong += from[i] != told(me, next, i);
    CHECK(wrong == 0);
    shmem_barrier_all();
    shmem_free(from);
    shmem_free(to);
}

#define COUNTS(NAME, T)                                                                                                \
    static void NAME##_counts(void)                                                                                    \
    {                                                                                                                  \
        T *word = room(2 * sizeof *word);                                                                              \
        shmem_##NAME##_atomic_add(word, (T)(me + 1), 0);                                                               \
        T seen = shmem_##NAME##_atomic_fetch_inc(word + 1, n - 1);                                                     \
        CHECK(seen < (T)n);                                                                                            \
        shmem_barrier_all();                                                                                           \
        CHECK(me != 0 || word[0] == (T)(n * (n + 1) / 2));                                                             \
        CHECK(shmem_##NAME##_atomic_fetch(word + 1, n - 1) == (T)n);                                                   \
        shmem_barrier_all();                                                                                           \
        CHECK(me != 0 || shmem_##NAME##_atomic_compare_swap(word, (T)(n * (n + 1) / 2), (T)-3, 0) == (T)(n * (n + 1) / 2)); \
        shmem_barrier_all();                                                                                           \
        CHECK(shmem_##NAME##_atomic_swap(word, (T)-3, 0) == (T)-3);                                                    \
        shmem_barrier_all();                                                                                           \
        shmem_free(word);                                                                                              \
    }
AMO_TYPES(COUNTS)

/* Rounds in a ring, each PE waiting for what the one before it has told. */
static void signals(void)
{
    uint64_t *flag = room(sizeof *flag);
    long *data = room(16 * sizeof *data), *turn = room(sizeof *turn);
    int next = (me + 1) % n, last = (me + n - 1) % n;
    for (uint64_t round = 1; round <= 50; round++) {
        long mine[16];
        for (int i = 0; i < 16; i++)
            mine[i] = told(me, next, i) + (long)round;
        shmem_long_put_signal(data, mine, 16, flag, round, SHMEM_SIGNAL_SET, next);
        CHECK(shmem_signal_wait_until(flag, SHMEM_CMP_GE, round) >= round);
        for (int i = 0; i < 16; i++)
            CHECK(data[i] == told(last, me, i) + (long)round);
        shmem_barrier_all();
    }
    /* Signed comparison. */
    if (me == 0)
        for (int pe = 0; pe < n; pe++)
            shmem_long_p(turn, -5, pe);
    shmem_long_wait_until(turn, SHMEM_CMP_LT, -4);
    shmem_barrier_all();
    shmem_free(turn);
    shmem_free(data);
    shmem_free(flag);
}

static void locks(void)
{
    long *lock = room(sizeof *lock), *count = room(sizeof *count);
    for (int i = 0; i < 20; i++) {
        shmem_set_lock(lock);
        shmem_long_p(count, shmem_long_g(count, 0) + 1, 0);
        shmem_quiet();
        shmem_clear_lock(lock);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(count, 0) == 20L * n);
    shmem_barrier_all();
    shmem_free(count);
    shmem_free(lock);
}

/* From one element to more than fits into a message. */
static void reductions(shmem_team_t team, size_t count)
{
    int k = shmem_team_n_pes(team), i = shmem_team_my_pe(team);
    int *a = room(count * sizeof *a), *b = room(count * sizeof *b);
    double *x = room(count * sizeof *x), *y = room(count * sizeof *y);
    char *c = room(count), *d = room(count);
    for (size_t j = 0; j < count; j++) {
        a[j] = i - 1 + (int)j;
        x[j] = (i + 1) * 0.25 - (double)j;
        c[j] = (char)(0x70 + i);
    }
    size_t j = count - 1;
    shmem_int_sum_reduce(team, b, a, count);
    CHECK(b[j] == k * (k - 1) / 2 - k + k * (int)j);
    shmem_int_min_reduce(team, b, a, count);
    CHECK(b[j] == (int)j - 1);
    shmem_int_max_reduce(team, b, a, count);
    CHECK(b[j] == k - 2 + (int)j);
    shmem_double_sum_reduce(team, y, x, count);
    CHECK(y[j] == k * (k + 1) / 2 * 0.25 - k * (double)j);
    shmem_double_min_reduce(team, y, x, count);
    CHECK(y[j] == 0.25 - (double)j);
    shmem_double_max_reduce(team, y, x, count);
    CHECK(y[j] == k * 0.25 - (double)j);
    shmem_int_sum_inscan(team, b, a, count);
    CHECK(b[j] == i * (i + 1) / 2 - (i + 1) + (i + 1) * (int)j);
    /* Sums of char do not depend on its sign, and the order of the other two is the same everywhere. */
    shmem_char_sum_reduce(team, d, c, count);
    CHECK((unsigned char)d[j] == (unsigned char)(0x70 * k + k * (k - 1) / 2));
    for (size_t j = 0; j < count; j++)
        c[j] = (char)(0x7e + i);
    shmem_uchar_max_reduce(team, (unsigned char *)d, (unsigned char *)c, count);
    CHECK((unsigned char)d[j] == 0x7e + k - 1);
    shmem_schar_min_reduce(team, (signed char *)d, (signed char *)c, count);
    CHECK((signed char)d[j] == (k > 2 ? -128 : 0x7e));
    shmem_team_sync(team);
    void *all[] = { a, b, x, y, c, d };
    for (int p = 5; p >= 0; p--)
        shmem_free(all[p]);
}

static void gathers(void)
{
    long *mine = room(n * sizeof *mine), *all = room(n * n * sizeof *all);
    for (int q = 0; q < n; q++)
        mine[q] = told(me, q, 1);
    shmem_long_fcollect(SHMEM_TEAM_WORLD, all, mine, n);
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++)
            CHECK(all[p * n + q] == told(p, q, 1));
    shmem_barrier_all();
    shmem_long_alltoall(SHMEM_TEAM_WORLD, all, mine, 1);
    for (int p = 0; p < n; p++)
        CHECK(all[p] == told(p, me, 1));
    shmem_barrier_all();
    /* Of different lengths: PE p gives p + 1 elements. */
    shmem_long_collect(SHMEM_TEAM_WORLD, all, mine, me + 1 < n ? me + 1 : n);
    for (int p = 0, at = 0; p < n; p++)
        for (int q = 0; q <= p; q++)
            CHECK(all[at++] == told(p, q, 1));
    shmem_barrier_all();
    shmem_long_broadcast(SHMEM_TEAM_WORLD, all, mine, n, n - 1);
    CHECK(all[n - 1] == told(n - 1, n - 1, 1));
    shmem_barrier_all();
    shmem_free(all);
    shmem_free(mine);
}

static void mistake(const char *what)
{
    static long variable;
    static const long constant[64] = { 1 };
    /* What the compiler cannot see. */
    long *volatile fixed = (long *)constant;
    long local = 0, *heap = room(64);
    long double *extended = room(64);
    if (!strcmp(what, "static"))
        shmem_long_p(&variable, 1, 0);
    if (!strcmp(what, "static-add"))
        shmem_long_atomic_add(&variable, 1, 0);
    if (!strcmp(what, "static-get"))
        shmem_getmem(heap, &variable, 8, 0);
    if (!strcmp(what, "constant"))
        shmem_long_get(heap, fixed, 1, 0);
    if (!strcmp(what, "stack"))
        shmem_long_p(&local, 1, 0);
    if (!strcmp(what, "long-double-put"))
        shmem_longdouble_put(extended, extended + 1, 1, 0);
    if (!strcmp(what, "long-double-p"))
        shmem_longdouble_p(extended, 1.0L, 0);
    if (!strcmp(what, "long-double-g"))
        extended[1] = shmem_longdouble_g(extended, 0);
    if (!strcmp(what, "all-long-double-sum"))
        shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, extended, extended + 1, 1);
    if (!strcmp(what, "all-long-double-collect"))
        shmem_longdouble_fcollect(SHMEM_TEAM_WORLD, extended, extended + 1, 0);
    if (!strcmp(what, "all-char-max"))
        shmem_char_max_reduce(SHMEM_TEAM_WORLD, (char *)heap, (char *)heap + 1, 1);
    if (!strcmp(what, "all-char-min"))
        shmem_char_min_reduce(SHMEM_TEAM_WORLD, (char *)heap, (char *)heap + 1, 1);
    fprintf(stderr, "PE %d: nothing happened\n", me);
    shmem_global_exit(99);
}

int main(int argc, char **argv)
{
    start();
    if (argc > 1) {
        if (me == n - 1 || !strncmp(argv[1], "all-", 4))
            mistake(argv[1]);
        else
            room(64), room(64);
        shmem_barrier_all();
        return 98;
    }
#define CALL_MOVES(NAME, T) NAME##_moves();
    AMO_TYPES(CALL_MOVES)
    SMALL_TYPES(CALL_MOVES)
    float_moves();
    double_moves();
    large();
#define CALL_COUNTS(NAME, T) NAME##_counts();
    AMO_TYPES(CALL_COUNTS)
    signals();
    locks();
    for (size_t count = 1; count <= MANY; count *= 10)
        reductions(SHMEM_TEAM_WORLD, count);
    gathers();
    int *mine = room(sizeof *mine), *all = room(sizeof *all);
    *mine = bad;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, all, mine, 1);
    int failed = *all;
    /* Which PEs were of which kind. */
    *mine = sizeof(long double) == 16 && (char)-1 < 0;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, all, mine, 1);
    if (me == 0)
        printf("heterogeneous %s: %d PEs with a signed char, %d without\n", failed ? "FAILED" : "passed", *all, n - *all);
    shmem_finalize();
    return failed != 0;
}

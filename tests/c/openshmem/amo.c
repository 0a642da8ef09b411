/* Atomics of every type: results one at a time, then everybody at once on one word. */
#include "check.h"

#define STANDARD(NAME, T)                                                                                              \
    static T NAME##_word, NAME##_counter;                                                                              \
    static void NAME##_standard(T *heap)                                                                               \
    {                                                                                                                  \
        T *places[2] = {heap, &NAME##_word}, old = 0;                                                                  \
        int to = (me + 1) % n;                                                                                         \
        for (int p = 0; p < 2; p++) {                                                                                  \
            T *w = places[p];                                                                                          \
            *w = (T)10;                                                                                                \
            shmem_barrier_all();                                                                                       \
            shmem_##NAME##_atomic_add(w, (T)5, to);                                                                    \
            CHECK(shmem_##NAME##_atomic_fetch(w, to) == (T)15);                                                        \
            CHECK(shmem_##NAME##_atomic_fetch_add(w, (T)-7, to) == (T)15);                                             \
            shmem_##NAME##_atomic_inc(w, to);                                                                          \
            CHECK(shmem_##NAME##_atomic_fetch_inc(w, to) == (T)9);                                                     \
            CHECK(shmem_##NAME##_atomic_compare_swap(w, (T)9, (T)1, to) == (T)10);                                     \
            CHECK(shmem_ctx_##NAME##_atomic_compare_swap(SHMEM_CTX_DEFAULT, w, (T)10, (T)20, to) == (T)10);            \
            CHECK(shmem_##NAME##_atomic_swap(w, (T)-3, to) == (T)20);                                                  \
            shmem_##NAME##_atomic_set(w, (T)100, to);                                                                  \
            shmem_##NAME##_atomic_fetch_add_nbi(&old, w, (T)1, to);                                                    \
            shmem_quiet();                                                                                             \
            CHECK(old == (T)100);                                                                                      \
            shmem_##NAME##_atomic_fetch_inc_nbi(&old, w, to);                                                          \
            shmem_quiet();                                                                                             \
            CHECK(old == (T)101);                                                                                      \
            shmem_##NAME##_atomic_compare_swap_nbi(&old, w, (T)102, (T)50, to);                                        \
            shmem_quiet();                                                                                             \
            CHECK(old == (T)102);                                                                                      \
            shmem_##NAME##_atomic_swap_nbi(&old, w, (T)60, to);                                                        \
            shmem_quiet();                                                                                             \
            CHECK(old == (T)50);                                                                                       \
            shmem_##NAME##_atomic_fetch_nbi(&old, w, to);                                                              \
            shmem_quiet();                                                                                             \
            CHECK(old == (T)60);                                                                                       \
            /* The deprecated names. */                                                                                \
            shmem_##NAME##_set(w, (T)1, to);                                                                           \
            shmem_##NAME##_add(w, (T)2, to);                                                                           \
            shmem_##NAME##_inc(w, to);                                                                                 \
            CHECK(shmem_##NAME##_fadd(w, (T)3, to) == (T)4 && shmem_##NAME##_finc(w, to) == (T)7);                     \
            CHECK(shmem_##NAME##_cswap(w, (T)8, (T)11, to) == (T)8 && shmem_##NAME##_swap(w, (T)12, to) == (T)11);     \
            CHECK(shmem_##NAME##_fetch(w, to) == (T)12);                                                               \
            shmem_barrier_all();                                                                                       \
            CHECK(*w == (T)12);                                                                                        \
            shmem_barrier_all();                                                                                       \
        }                                                                                                              \
        for (int i = 0; i < 100; i++)                                                                                  \
            shmem_##NAME##_atomic_fetch_add(&NAME##_counter, (T)1, i % n);                                             \
        shmem_barrier_all();                                                                                           \
        long want = 0;                                                                                                 \
        for (int i = 0; i < 100; i++)                                                                                  \
            want += i % n == me ? n : 0;                                                                               \
        CHECK(NAME##_counter == (T)want);                                                                              \
    }
AMO_TYPES(STANDARD)

#define BITWISE(NAME, T)                                                                                               \
    static void NAME##_bits(T *w)                                                                                      \
    {                                                                                                                  \
        T old = 0;                                                                                                     \
        int to = (me + 1) % n;                                                                                         \
        *w = (T)0x0ff0;                                                                                                \
        shmem_barrier_all();                                                                                           \
        shmem_##NAME##_atomic_and(w, (T)0xff00, to);                                                                   \
        shmem_##NAME##_atomic_or(w, (T)0x000f, to);                                                                    \
        shmem_##NAME##_atomic_xor(w, (T)0x0101, to);                                                                   \
        CHECK(shmem_##NAME##_atomic_fetch_and(w, (T)0x0fff, to) == (T)0x0e0e);                                         \
        CHECK(shmem_##NAME##_atomic_fetch_or(w, (T)0x1000, to) == (T)0x0e0e);                                          \
        CHECK(shmem_##NAME##_atomic_fetch_xor(w, (T)0xffff, to) == (T)0x1e0e);                                         \
        shmem_##NAME##_atomic_fetch_and_nbi(&old, w, (T)0xf000, to);                                                   \
        shmem_quiet();                                                                                                 \
        CHECK(old == (T)0xe1f1);                                                                                       \
        shmem_##NAME##_atomic_fetch_or_nbi(&old, w, (T)1, to);                                                         \
        shmem_quiet();                                                                                                 \
        CHECK(old == (T)0xe000);                                                                                       \
        shmem_##NAME##_atomic_fetch_xor_nbi(&old, w, (T)1, to);                                                        \
        shmem_quiet();                                                                                                 \
        CHECK(old == (T)0xe001);                                                                                       \
        shmem_barrier_all();                                                                                           \
        CHECK(*w == (T)0xe000);                                                                                        \
        *w = 0;                                                                                                        \
        shmem_barrier_all();                                                                                           \
        shmem_##NAME##_atomic_or(w, (T)1 << me % 31, 0);                                                               \
        shmem_barrier_all();                                                                                           \
        T all = 0;                                                                                                     \
        for (int pe = 0; pe < n; pe++)                                                                                 \
            all |= (T)1 << pe % 31;                                                                                    \
        CHECK(me != 0 || *w == all);                                                                                   \
        shmem_barrier_all();                                                                                           \
    }
#define BIT_TYPES(X)                                                                                                   \
    X(uint, unsigned int)                                                                                              \
    X(ulong, unsigned long)                                                                                            \
    X(ulonglong, unsigned long long)                                                                                   \
    X(int32, int32_t) X(int64, int64_t) X(uint32, uint32_t) X(uint64, uint64_t)
BIT_TYPES(BITWISE)

static float f = 1.5f;
static double d = -2.25;

int main(void)
{
    start();
    void *heap = shmem_calloc(1, 64);
#define RUN(NAME, T) NAME##_standard(heap);
    AMO_TYPES(RUN)
#define RUN_BITS(NAME, T) NAME##_bits(heap);
    BIT_TYPES(RUN_BITS)
    int to = (me + 1) % n;
    CHECK(shmem_float_atomic_swap(&f, 0.1f, to) == 1.5f && shmem_float_atomic_fetch(&f, to) == 0.1f);
    CHECK(shmem_double_atomic_swap(&d, 1e300, to) == -2.25 && shmem_double_atomic_fetch(&d, to) == 1e300);
    shmem_float_atomic_set(&f, -0.5f, to);
    shmem_double_atomic_set(&d, 0.25, to);
    shmem_barrier_all();
    CHECK(f == -0.5f && d == 0.25);
    return finish("amo");
}

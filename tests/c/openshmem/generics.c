/* The type-generic forms: macros in C11, overloads in C++ (this file is compiled as both). */
#include "check.h"

#define TYPE(NAME, T)                                                                                                  \
    static void NAME##_generic(void *heap)                                                                             \
    {                                                                                                                  \
        T *place = (T *)heap, mine[4] = {(T)1, (T)2, (T)3, (T)4};                                                      \
        int to = (me + 1) % n;                                                                                         \
        memset(place, 0, 16 * sizeof(T));                                                                              \
        shmem_barrier_all();                                                                                           \
        shmem_put(place, mine, 2, to);                                                                                 \
        shmem_put(SHMEM_CTX_DEFAULT, place + 2, mine + 2, 2, to);                                                      \
        shmem_p(place + 4, (T)5, to);                                                                                  \
        shmem_p(SHMEM_CTX_DEFAULT, place + 5, (T)6, to);                                                               \
        shmem_iput(place + 6, mine, 1, 1, 2, to);                                                                      \
        shmem_put_nbi(SHMEM_CTX_DEFAULT, place + 8, mine, 1, to);                                                      \
        shmem_quiet();                                                                                                 \
        CHECK(shmem_g(place + 3, to) == (T)4 && shmem_g(SHMEM_CTX_DEFAULT, place + 5, to) == (T)6);                    \
        shmem_get(mine, (const T *)place + 4, 2, to);                                                                  \
        CHECK(mine[0] == (T)5 && mine[1] == (T)6);                                                                     \
        shmem_barrier_all();                                                                                           \
        shmem_broadcast(SHMEM_TEAM_WORLD, place + 10, place, 2, 0);                                                    \
        CHECK(place[10] == (T)1 && place[11] == (T)2);                                                                 \
        shmem_barrier_all();                                                                                           \
        shmem_max_reduce(SHMEM_TEAM_WORLD, place, place + 2, 2);                                                       \
        shmem_sum_reduce(SHMEM_TEAM_WORLD, place + 4, place + 8, 1);                                                   \
        CHECK(place[0] == (T)3 && place[1] == (T)4 && place[4] == (T)n);                                               \
        shmem_barrier_all();                                                                                           \
    }
RMA_TYPES(TYPE)

#define ATOMIC(NAME, T)                                                                                                \
    static T NAME##_word;                                                                                              \
    static void NAME##_atomic(void)                                                                                    \
    {                                                                                                                  \
        T *w = &NAME##_word, old = 0;                                                                                  \
        int to = (me + 1) % n;                                                                                         \
        shmem_atomic_set(w, (T)4, to);                                                                                 \
        shmem_atomic_add(SHMEM_CTX_DEFAULT, w, (T)2, to);                                                              \
        shmem_atomic_inc(w, to);                                                                                       \
        CHECK(shmem_atomic_fetch_add(w, (T)1, to) == (T)7 && shmem_atomic_fetch_inc(w, to) == (T)8);                   \
        CHECK(shmem_atomic_swap(w, (T)3, to) == (T)9 && shmem_atomic_compare_swap(w, (T)3, (T)2, to) == (T)3);         \
        CHECK(shmem_atomic_fetch((const T *)w, to) == (T)2 && shmem_fadd(w, (T)1, to) == (T)2);                        \
        shmem_atomic_fetch_nbi(&old, w, to);                                                                           \
        shmem_quiet();                                                                                                 \
        CHECK(old == (T)3);                                                                                            \
        shmem_barrier_all();                                                                                           \
        shmem_wait_until(w, SHMEM_CMP_EQ, (T)3);                                                                       \
        CHECK(shmem_test(w, SHMEM_CMP_GT, (T)2) && shmem_test_all(w, 1, NULL, SHMEM_CMP_EQ, (T)3));                    \
        shmem_barrier_all();                                                                                           \
    }
AMO_TYPES(ATOMIC)

static void others(void)
{
    static uint32_t bits = 0xf0;
    static int32_t signed_bits = 0x0f;
    static uint64_t sig;
    int to = (me + 1) % n;
    shmem_atomic_or(&bits, 0x0fu, to);
    CHECK(shmem_atomic_fetch_xor(&bits, 0xffu, to) == 0xff);
    shmem_atomic_and(&signed_bits, 3, to);
    shmem_signal_set(&sig, 1, to);
    shmem_signal_add(SHMEM_CTX_DEFAULT, &sig, 2, to);
    shmem_barrier_all();
    CHECK(bits == 0 && signed_bits == 3 && sig == 3);
    shmem_sync(SHMEM_TEAM_WORLD);
}

int main(void)
{
    start();
    void *heap = shmem_malloc(1024);
#define RUN(NAME, T) NAME##_generic(heap);
    RMA_TYPES(RUN)
#define RUN_ATOMIC(NAME, T) NAME##_atomic();
    AMO_TYPES(RUN_ATOMIC)
    others();
    return finish("generics");
}

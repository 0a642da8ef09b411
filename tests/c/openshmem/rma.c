/* Put and get of every type in every form, to the heap and to global variables. */
#include "check.h"

#define COUNT 40
#define BIG 70003

static unsigned char global_bytes[BIG];

#define TYPE(NAME, T)                                                                                                  \
    static T NAME##_global[COUNT] = {7};                                                                               \
    static void NAME##_test(void *heap)                                                                                \
    {                                                                                                                  \
        T *places[2] = {heap, NAME##_global}, mine[COUNT], back[COUNT];                                                \
        int to = (me + 1) % n, from = (me + n - 1) % n;                                                                \
        for (int p = 0; p < 2; p++) {                                                                                  \
            T *place = places[p];                                                                                      \
            for (int i = 0; i < COUNT; i++)                                                                            \
                mine[i] = (T)(me % 7 * 10 + i), place[i] = (T)1;                                                       \
            shmem_barrier_all();                                                                                       \
            shmem_##NAME##_put(place, mine, 8, to);                                                                    \
            shmem_ctx_##NAME##_put_nbi(SHMEM_CTX_DEFAULT, place + 8, mine + 8, 4, to);                                 \
            shmem_##NAME##_p(place + 12, mine[12], to);                                                                \
            shmem_ctx_##NAME##_p(SHMEM_CTX_DEFAULT, place + 13, mine[13], to);                                         \
            shmem_##NAME##_iput(place + 14, mine + 14, 3, 2, 4, to);     /* 14 17 20 23 <- 14 16 18 20 */              \
            shmem_##NAME##_ibput(place + 26, mine + 26, 4, 2, 2, 3, to); /* 26 27 30 31 34 35 <- 26..31 */             \
            shmem_barrier_all();                                                                                       \
            int who = from % 7 * 10;                                                                                   \
            for (int i = 0; i < 14; i++)                                                                               \
                CHECK(place[i] == (T)(who + i));                                                                       \
            for (int i = 0; i < 4; i++) {                                                                              \
                CHECK(place[14 + 3 * i] == (T)(who + 14 + 2 * i));                                                     \
                CHECK(place[15 + 3 * i] == (T)1);                                                                      \
            }                                                                                                          \
            for (int i = 0; i < 6; i++)                                                                                \
                CHECK(place[26 + i / 2 * 4 + i % 2] == (T)(who + 26 + i));                                             \
            CHECK(place[28] == (T)1 && place[36] == (T)1);                                                             \
            shmem_barrier_all();                                                                                       \
            for (int i = 0; i < COUNT; i++)                                                                            \
                place[i] = (T)(me % 5 * 20 + i), back[i] = (T)2;                                                       \
            shmem_barrier_all();                                                                                       \
            who = to % 5 * 20;                                                                                         \
            shmem_##NAME##_get(back, place, 8, to);                                                                    \
            shmem_##NAME##_get_nbi(back + 8, place + 8, 4, to);                                                        \
            back[12] = shmem_##NAME##_g(place + 12, to);                                                               \
            back[13] = shmem_ctx_##NAME##_g(SHMEM_CTX_DEFAULT, place + 13, to);                                        \
            shmem_##NAME##_iget(back + 14, place + 14, 2, 3, 4, to);     /* 14 16 18 20 <- 14 17 20 23 */              \
            shmem_##NAME##_ibget(back + 26, place + 26, 3, 2, 2, 3, to); /* 26 27 29 30 32 33 <- 26..31 */             \
            shmem_quiet();                                                                                             \
            for (int i = 0; i < 14; i++)                                                                               \
                CHECK(back[i] == (T)(who + i));                                                                        \
            for (int i = 0; i < 4; i++)                                                                                \
                CHECK(back[14 + 2 * i] == (T)(who + 14 + 3 * i) && back[15 + 2 * i] == (T)2);                          \
            for (int i = 0; i < 6; i++)                                                                                \
                CHECK(back[26 + i / 2 * 3 + i % 2] == (T)(who + 26 + i));                                              \
            CHECK(back[28] == (T)2);                                                                                   \
            shmem_barrier_all();                                                                                       \
        }                                                                                                              \
    }
RMA_TYPES(TYPE)

/* Untyped forms: `bytes` per element. */
#define SIZED(N, BYTES)                                                                                                \
    {                                                                                                                  \
        shmem_put##N(heap, mine, 9, to);                                                                               \
        shmem_put##N##_nbi(heap + 9 * BYTES, mine + 9 * BYTES, 3, to);                                                 \
        shmem_iput##N(heap + 12 * BYTES, mine + 12 * BYTES, 1, 1, 4, to);                                              \
        shmem_ibput##N(heap + 16 * BYTES, mine + 16 * BYTES, 2, 2, 2, 3, to);                                          \
        shmem_barrier_all();                                                                                           \
        for (int i = 0; i < 22 * BYTES; i++)                                                                           \
            CHECK(heap[i] == (unsigned char)(i * 3 + from));                                                           \
        memset(back, 0, 22 * BYTES);                                                                                   \
        shmem_get##N(back, heap, 9, to);                                                                               \
        shmem_get##N##_nbi(back + 9 * BYTES, heap + 9 * BYTES, 3, to);                                                 \
        shmem_iget##N(back + 12 * BYTES, heap + 12 * BYTES, 1, 1, 4, to);                                              \
        shmem_ibget##N(back + 16 * BYTES, heap + 16 * BYTES, 2, 2, 2, 3, to);                                          \
        shmem_quiet();                                                                                                 \
        CHECK(memcmp(back, mine, 22 * BYTES) == 0);                                                                    \
        shmem_barrier_all();                                                                                           \
        memset(heap, 0, 22 * BYTES);                                                                                   \
        shmem_barrier_all();                                                                                           \
    }

static void large(unsigned char *heap)
{
    unsigned char *mine = malloc(BIG), *places[2] = {heap, global_bytes};
    int to = (me + 2) % n, from = (me + 2 * n - 2) % n;
    for (int p = 0; p < 2; p++) {
        for (size_t i = 0; i < BIG; i++)
            mine[i] = (unsigned char)(i * 7 + i / 251 + me);
        /* Odd offsets: nothing may assume alignment. */
        shmem_putmem(places[p] + 1, mine, BIG - 1, to);
        shmem_barrier_all();
        for (size_t i = 0; i < BIG - 1; i++)
            CHECK(places[p][i + 1] == (unsigned char)(i * 7 + i / 251 + from));
        memset(mine, 0, BIG);
        shmem_getmem_nbi(mine, places[p] + 1, BIG - 1, to);
        shmem_quiet();
        for (size_t i = 0; i < BIG - 1; i++)
            CHECK(mine[i] == (unsigned char)(i * 7 + i / 251 + me));
        shmem_barrier_all();
    }
    free(mine);
}

int main(void)
{
    start();
    unsigned char *heap = shmem_calloc(1, BIG + 64), mine[512], back[512];
    int to = (me + 1) % n, from = (me + n - 1) % n;
#define RUN(NAME, T) NAME##_test(heap);
    RMA_TYPES(RUN)
    memset(heap, 0, BIG);
    for (int i = 0; i < 512; i++)
        mine[i] = (unsigned char)(i * 3 + me);
    shmem_barrier_all();
    /* What comes back was put there by me. */
    SIZED(8, 1) SIZED(16, 2) SIZED(32, 4) SIZED(64, 8) SIZED(128, 16)
    large(heap);
    /* Nothing to move is nothing to complain about. */
    shmem_putmem(heap, mine, 0, to);
    shmem_getmem(mine, heap, 0, to);
    shmem_int_iput((int *)heap, (int *)mine, 1, 1, 0, to);
    return finish("rma");
}

/* What programs expect beside the standard. */
#include "check.h"
#include <shmemx.h>
#include <pshmem.h>

/* The C symbols themselves, where the header offers generic forms. */
#undef shmem_swap

#define SIGNED(NAME, T)                                                                                                \
    static T NAME##_word, NAME##_old;                                                                                  \
    static void NAME##_bits(shmem_ctx_t ctx)                                                                           \
    {                                                                                                                  \
        int next = (me + 1) % n;                                                                                       \
        NAME##_word = -1;                                                                                              \
        shmem_barrier_all();                                                                                           \
        shmem_##NAME##_atomic_and(&NAME##_word, (T)0x70f, next);                                                       \
        shmem_ctx_##NAME##_atomic_or(ctx, &NAME##_word, (T)0x80, next);                                                \
        shmem_##NAME##_atomic_xor(&NAME##_word, (T)1, next);                                                           \
        CHECK(shmem_##NAME##_atomic_fetch_and(&NAME##_word, (T)~0xf, next) == 0x78e);                                  \
        CHECK(shmem_ctx_##NAME##_atomic_fetch_or(ctx, &NAME##_word, (T)2, next) == 0x780);                             \
        CHECK(shmem_##NAME##_atomic_fetch_xor(&NAME##_word, (T)-1, next) == 0x782);                                    \
        shmem_##NAME##_atomic_fetch_and_nbi(&NAME##_old, &NAME##_word, (T)-1, next);                                   \
        shmem_quiet();                                                                                                 \
        CHECK(NAME##_old == (T)~0x782);                                                                                \
        shmem_barrier_all();                                                                                           \
        CHECK(NAME##_word == (T)~0x782);                                                                               \
    }
SIGNED(int, int)
SIGNED(long, long)
SIGNED(longlong, long long)

/* Handles as bindings for other languages see them. */
static shmem_team_t world_by_macro = SHMEM_TEAM_WORLD, shared_by_macro = SHMEM_TEAM_SHARED;
static shmem_ctx_t context_by_macro = SHMEM_CTX_DEFAULT;
#pragma push_macro("SHMEM_TEAM_WORLD")
#pragma push_macro("SHMEM_TEAM_SHARED")
#pragma push_macro("SHMEM_CTX_DEFAULT")
#undef SHMEM_TEAM_WORLD
#undef SHMEM_TEAM_SHARED
#undef SHMEM_CTX_DEFAULT
static void variables(void)
{
    CHECK(world_by_macro == SHMEM_TEAM_WORLD && shared_by_macro == SHMEM_TEAM_SHARED);
    CHECK(context_by_macro == SHMEM_CTX_DEFAULT);
}
#pragma pop_macro("SHMEM_TEAM_WORLD")
#pragma pop_macro("SHMEM_TEAM_SHARED")
#pragma pop_macro("SHMEM_CTX_DEFAULT")

static long swapped;

int main(void)
{
    double before = shmem_wtime(); /* also without a job */
    start();
    double now = shmem_wtime();
    CHECK(before > 0 && now > before && now - before < 1000);
    CHECK(shmemx_wtime() >= now && pshmem_wtime() >= now);
    int_bits(SHMEM_CTX_DEFAULT);
    long_bits(SHMEM_CTX_DEFAULT);
    longlong_bits(SHMEM_CTX_DEFAULT);
    long word = shmem_atomic_fetch_xor(&long_word, 0L, me); /* generic */
    CHECK(word == long_word);
    swapped = me;
    shmem_barrier_all();
    long (*symbol)(long *, long, int) = shmem_swap;
    CHECK(symbol(&swapped, -5, (me + 1) % n) == (me + 1) % n);
    shmem_barrier_all();
    CHECK(swapped == -5);
    /* Nothing is done with a context that is none. */
    shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    shmem_ctx_session_stop(SHMEM_CTX_INVALID);
    shmem_ctx_pe_quiet(SHMEM_CTX_INVALID, &(int){ 0 }, 1);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_session_config_t config = { .total_ops = 5 };
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    variables();
    return finish("beside");
}

/* Teams that overlap, their collectives in every order, and contexts on them. */
#include "check.h"

static long word[4], sum, mine;

/* Sum of the world numbers of a team's members, three ways. */
static void check_team(shmem_team_t team, int start, int stride, int size)
{
    if (team == SHMEM_TEAM_INVALID)
        return;
    CHECK(shmem_team_n_pes(team) == size && shmem_team_my_pe(team) == (me - start) / stride);
    long want = 0;
    for (int i = 0; i < size; i++) {
        want += start + i * stride;
        CHECK(shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD) == start + i * stride);
    }
    for (int i = 0; i < 5; i++) {
        mine = me;
        shmem_team_sync(team);
        shmem_long_sum_reduce(team, &sum, &mine, 1);
        CHECK(sum == want);
        shmem_team_sync(team);
        long root = me;
        shmem_long_broadcast(team, word, &mine, 1, size - 1);
        CHECK(word[0] == start + (size - 1) * stride && root == me);
    }
}

int main(void)
{
    start();
    shmem_team_t even, odd, third, back, row, column;
    int evens = (n + 1) / 2, odds = n / 2, thirds = (n + 2) / 3;
    CHECK(shmem_team_my_pe(SHMEM_TEAM_WORLD) == me && shmem_team_n_pes(SHMEM_TEAM_WORLD) == n);
    CHECK(shmem_team_my_pe(SHMEM_TEAM_INVALID) == -1 && shmem_team_n_pes(SHMEM_TEAM_INVALID) == -1);
    CHECK(shmem_team_my_pe(SHMEM_TEAM_SHARED) >= 0);

    shmem_team_config_t config = {.num_contexts = 3}, got = {0};
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, evens, &config, SHMEM_TEAM_NUM_CONTEXTS, &even) == 0);
    CHECK((even != SHMEM_TEAM_INVALID) == (me % 2 == 0));
    odd = SHMEM_TEAM_INVALID;
    if (n > 1)
        CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, odds, NULL, 0, &odd) == 0);
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 3, thirds, NULL, 0, &third);
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, n + 1, NULL, 0, &back) != 0 && back == SHMEM_TEAM_INVALID);
    if (even != SHMEM_TEAM_INVALID) {
        CHECK(shmem_team_get_config(even, SHMEM_TEAM_NUM_CONTEXTS, &got) == 0 && got.num_contexts == 3);
        /* The even PEs backwards. */
        CHECK(shmem_team_split_strided(even, evens - 1, evens > 1 ? -1 : 1, evens, NULL, 0, &back) == 0);
        CHECK(shmem_team_my_pe(back) == evens - 1 - me / 2);
        CHECK(shmem_team_translate_pe(back, 0, even) == evens - 1);
        check_team(back, 2 * (evens - 1), evens > 1 ? -2 : 1, evens);
    }
    for (int i = 0; i < 3; i++) {
        check_team(even, 0, 2, evens);
        check_team(third, 0, 3, thirds);
        check_team(odd, 1, 2, odds);
        check_team(SHMEM_TEAM_WORLD, 0, 1, n);
    }

    int width = n > 3 ? 3 : n;
    CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, width, NULL, 0, &row, NULL, 0, &column) == 0);
    int y = me / width, in_row = n - y * width < width ? n - y * width : width;
    check_team(row, y * width, 1, in_row);
    check_team(column, me % width, width, (n - me % width + width - 1) / width);

    /* A context numbers PEs in its team. */
    shmem_ctx_t ctx, bad_ctx = SHMEM_CTX_DEFAULT;
    shmem_team_t of;
    CHECK(shmem_team_create_ctx(row, SHMEM_CTX_PRIVATE, &ctx) == 0);
    CHECK(shmem_ctx_get_team(ctx, &of) == 0 && of == row);
    CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &bad_ctx) != 0 && bad_ctx == SHMEM_CTX_INVALID);
    int right = (shmem_team_my_pe(row) + 1) % in_row;
    const shmem_ctx_session_config_t session = {.total_ops = 2};
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &session, SHMEM_CTX_SESSION_TOTAL_OPS);
    shmem_ctx_long_p(ctx, &word[1], me, right);
    shmem_ctx_long_atomic_add(ctx, &word[2], 5, right);
    shmem_ctx_session_stop(ctx);
    shmem_ctx_fence(ctx);
    shmem_ctx_quiet(ctx);
    shmem_team_sync(row);
    int left = (shmem_team_my_pe(row) + in_row - 1) % in_row;
    CHECK(word[1] == shmem_team_translate_pe(row, left, SHMEM_TEAM_WORLD) && word[2] == 5);
    CHECK(shmem_ctx_long_g(ctx, &word[2], right) == 5);
    void *peer = shmem_team_ptr(row, word, shmem_team_my_pe(row)), *same = shmem_ptr(word, me);
    CHECK(peer == same);
    shmem_ctx_destroy(ctx);
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_team_destroy(row);
    shmem_team_destroy(column);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
    shmem_barrier_all();
    return finish("teams");
}

/* Constants are symmetric for those who read: whatever section the compiler and linker put them in. */
#include "check.h"
#include <stdint.h>

const long number = 42;
static const char text[] = "thirty-two bytes of text, or so.";
static const long table[3000] = { 1, 2, 3, [2999] = 2999 };
/* Relocated by the loader, to addresses that differ from PE to PE. */
static const char *const names[] = { text, text + 7 };
static int (*const volatile entry)(const char *, ...) = printf;
static long variable = 7;

static long got[3000];

int main(void)
{
    start();
    int next = (me + 1) % n;
    CHECK(shmem_addr_accessible(&number, next) && shmem_addr_accessible(text, next));
    CHECK(shmem_addr_accessible(table, next) && shmem_addr_accessible(&table[2999], next));
    CHECK(shmem_addr_accessible(names, next) && shmem_addr_accessible((const void *)&entry, next));
    CHECK(shmem_addr_accessible(&variable, next));
    CHECK(!shmem_addr_accessible(&next, next));
    CHECK(shmem_long_g(&number, next) == 42);
    char copy[sizeof text];
    shmem_getmem(copy, text, sizeof text, next);
    CHECK(memcmp(copy, text, sizeof text) == 0);
    shmem_long_get(got, table, 3000, next);
    CHECK(memcmp(got, table, sizeof table) == 0);
    memset(got, 0, sizeof got);
    shmem_long_get_nbi(got, table, 3000, next);
    shmem_quiet();
    CHECK(memcmp(got, table, sizeof table) == 0);
    shmem_long_iget(got, table, 1, 2, 2, next);
    CHECK(got[0] == 1 && got[1] == 3);
    CHECK(shmem_long_atomic_fetch(&table[2], next) == 3);
    /* They are a source, too. */
    shmem_barrier_all();
    shmem_long_put(got, &table[1], 2000, next);
    shmem_barrier_all();
    CHECK(got[0] == 2 && got[1] == 3 && got[1999] == 0);
    shmem_barrier_all();
    shmem_long_broadcast(SHMEM_TEAM_WORLD, got, table, 3000, 0);
    CHECK(memcmp(got, table, sizeof table) == 0);
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, got, table, 3000);
    CHECK(got[2999] == 2999 && got[0] == 1);
    /* A pointer is the other PE's. */
    static intptr_t mine;
    mine = (intptr_t)names[1];
    shmem_barrier_all();
    const char *theirs;
    shmem_getmem(&theirs, &names[1], sizeof theirs, next);
    CHECK((intptr_t)theirs == (intptr_t)shmem_ptrdiff_g((ptrdiff_t *)&mine, next));
    const long *peer = shmem_ptr(&number, next);
    CHECK(peer == NULL || *peer == 42);
    CHECK(shmem_ptr(&number, me) == &number);
    return finish("constants");
}

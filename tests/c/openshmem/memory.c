/* The symmetric heap, address queries, and global variables of the program and of its library. */
#include "check.h"
#include "statics_lib.h"

#define HUGE_WORDS (4 << 20)

long initialised[4] = {11, 22, 33, 44};
long zeroed[4];
static long private_to_file = 55;
const long *pointer = initialised;    /* a relocation in .data */
static char huge[HUGE_WORDS];          /* far more than what a job copies page by page */
static const long constant = 7;        /* not writable, so not symmetric */

static long *function_static(void)
{
    static long inside[2] = {66, 77};
    return inside;
}

/* The same block at every PE: a put to it arrives in it. */
static void check_block(void *block, size_t bytes)
{
    long *at = (long *)((char *)block + (bytes - sizeof(long)) / 8 * 8);
    *at = -1;
    shmem_barrier_all();
    shmem_long_p(at, me, (me + 1) % n);
    shmem_barrier_all();
    CHECK(*at == (me + n - 1) % n);
}

static void heap(void)
{
    CHECK(shmem_malloc(0) == NULL && shmem_calloc(0, 8) == NULL);
    shmem_free(NULL);
    void *a = shmem_malloc(100), *b = shmem_calloc(3, 100), *c = shmem_align(4096, 64), *e = shmem_align(1 << 21, 100), *d = shmem_malloc(3 << 20);
    CHECK(a && b && c && d && e && (size_t)c % 4096 == 0 && (size_t)e % (1 << 21) == 0);
    for (int i = 0; i < 300; i++)
        CHECK(((char *)b)[i] == 0);
    check_block(a, 96);
    check_block(b, 296);
    check_block(c, 64);
    check_block(e, 96);
    shmem_free(e);
    check_block(d, 3 << 20);
    memset(a, 'x', 100);
    a = shmem_realloc(a, 5000);
    for (int i = 0; i < 100; i++)
        CHECK(((char *)a)[i] == 'x');
    check_block(a, 5000);
    a = shmem_realloc(a, 50);
    CHECK(((char *)a)[49] == 'x');
    shmem_free(d);
    shmem_free(b);
    void *hinted = shmem_malloc_with_hints(1 << 16, SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE);
    check_block(hinted, 1 << 16);
    CHECK(shmem_malloc((size_t)1 << 46) == NULL);
    CHECK(shmem_realloc(hinted, 0) == NULL);
    shmem_free(c);
    shmem_free(a);
    void *again = shmem_malloc(2 << 20);
    CHECK(again != NULL);
    shmem_free(again);
    /* As it was called before version 1.2. */
    CHECK(_my_pe() == me && _num_pes() == n);
    void *old = shmalloc(100), *aligned = shmemalign(4096, 64);
    CHECK((size_t)aligned % 4096 == 0);
    old = shrealloc(old, 5000);
    check_block(old, 5000);
    shfree(aligned);
    shfree(old);
}

static void queries(void)
{
    long *block = shmem_malloc(64), local = 3;
    int next = (me + 1) % n;
    CHECK(shmem_pe_accessible(next) && !shmem_pe_accessible(n) && !shmem_pe_accessible(-1));
    CHECK(shmem_addr_accessible(block, next) && shmem_addr_accessible(zeroed, next));
    CHECK(!shmem_addr_accessible(&local, next) && !shmem_addr_accessible(block, n));
    CHECK(shmem_addr_accessible(&constant, next) && !shmem_addr_accessible(stdout, next));
    CHECK(shmem_ptr(&local, next) == NULL && shmem_ptr(block, n) == NULL && shmem_ptr(block, -1) == NULL);
    /* Where a peer can be reached with plain stores, they arrive. */
    block[0] = -1;
    shmem_barrier_all();
    long *peer = shmem_ptr(block, next);
    if (peer)
        *peer = me;
    else
        shmem_long_p(block, me, next);
    shmem_barrier_all();
    CHECK(block[0] == (me + n - 1) % n);
    shmem_barrier_all();
    long *global = shmem_ptr(zeroed, next);
    if (global)
        *global = me + 1;
    else
        shmem_long_p(zeroed, me + 1, next);
    shmem_barrier_all();
    CHECK(zeroed[0] == (me + n - 1) % n + 1);
    shmem_free(block);
}

static void globals(void)
{
    /* What the compiler put there is still there. */
    CHECK(initialised[0] == 11 && initialised[3] == 44 && zeroed[3] == 0 && private_to_file == 55);
    CHECK(pointer == initialised && function_static()[1] == 77 && library_data[2] == 3 && library_bss[999] == 0);
    CHECK(huge[0] == 0 && huge[HUGE_WORDS - 1] == 0);
    shmem_barrier_all();
    long *all[] = {&initialised[1], &zeroed[1], &private_to_file, &function_static()[0], (long *)&huge[HUGE_WORDS - 8],
                   &library_data[1], &library_bss[500], library_hidden()};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = 5;
        shmem_barrier_all();
        for (int pe = 0; pe < n; pe++)
            shmem_long_atomic_add(all[i], me + 1, pe);
        shmem_barrier_all();
        CHECK(*all[i] == 5 + (long)n * (n + 1) / 2);
        CHECK(shmem_long_g(all[i], (me + 1) % n) == *all[i]);
        shmem_barrier_all();
    }
    CHECK(initialised[0] == 11 && initialised[2] == 33);
}

int main(void)
{
    start();
    globals();
    heap();
    queries();
    return finish("memory");
}

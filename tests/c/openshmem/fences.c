/* Order: what is issued before a fence, a quiet or a barrier is seen by whoever sees what comes after it. Every way to
 * write, to oneself and to a neighbour, of data and of a flag that lie in the heap or in globals. */
#include "check.h"

enum { LONG = 1000, SHORT = 13 };
enum way { P, PUT, PUT_NBI, PUT_LONG, IPUT, SET, ADD, FETCH_ADD, SIGNAL, WAYS };
static const char *const ways[] = { "p", "put", "put_nbi", "long put", "iput", "set", "add", "fetch_add", "signal" };
static const int lengths[] = { 1, SHORT, SHORT, LONG, SHORT, 1, 1, 1, SHORT };
enum order { FENCE, QUIET, BARRIER, ORDERS };
static const char *const orders[] = { "fence", "quiet", "barrier" };

/* A place of each kind, 0 the heap and 1 globals; every element holds the same. */
static long global_data[LONG], global_flag[SHORT]; /* a flag is its first element */
static uint64_t global_signal;
static long *data[2], *flag[2];
static uint64_t *signals[2];
static long source[LONG];

/* Makes `to` of `pe`, whose elements are `from`, hold `k`; a signal says so in `signal` by itself. */
static void write_to(enum way way, long *to, long from, long k, uint64_t *signal, int pe)
{
    int len = lengths[way];
    for (int i = 0; i < len; i++) source[i] = k;
    switch (way) {
    case P: shmem_long_p(to, k, pe); break;
    case PUT: case PUT_LONG: shmem_long_put(to, source, len, pe); break;
    case PUT_NBI: shmem_long_put_nbi(to, source, len, pe); break;
    case IPUT: shmem_long_iput(to, source, 1, 1, len, pe); break;
    case SET: shmem_long_atomic_set(to, k, pe); break;
    case ADD: shmem_long_atomic_add(to, k - from, pe); break;
    case FETCH_ADD: shmem_long_atomic_fetch_add(to, k - from, pe); break;
    default: shmem_long_put_signal(to, source, len, signal, (uint64_t)k, SHMEM_SIGNAL_SET, pe); break;
    }
}

/* How many elements do not hold `k`, read as the program reads its own memory. */
static int wrong(const long *at, int len, long k)
{
    int bad = 0;
    for (int i = 0; i < len; i++) bad += ((volatile const long *)at)[i] != k;
    return bad;
}

/* The program's own looks see the flag earlier than the library does that has slept. */
static void see(long *at, long k)
{
    for (long i = 0; i < 100000 && *(volatile long *)at != k; i++)
        ;
    shmem_long_wait_until(at, SHMEM_CMP_EQ, k);
}

static void complain(const char *first, const char *order, const char *second, int heaps[2], int own, int elements)
{
    if (bad++ < 10)
        fprintf(stderr, "PE %d: %s to %s %s, %s, %s of a flag in %s: %d elements came late\n", me, first,
                own ? "its own" : "a neighbour's", heaps[0] ? "global" : "heap", order, second,
                heaps[1] ? "globals" : "the heap", elements);
}

static void reset(void)
{
    for (int where = 0; where < 2; where++) {
        for (int i = 0; i < LONG; i++) data[where][i] = -1;
        *flag[where] = 0;
        *signals[where] = 0;
    }
    shmem_barrier_all();
}

/* One write of data and, ordered behind it, one of the flag. */
static void ordered(enum way way, enum way by, enum order order, int where[2], int own, long k)
{
    int pe = own ? me : (me + 1) % n, len = lengths[way], late = 0;
    long *to = data[where[0]], back;
    reset();
    write_to(way, to, -1, k, signals[!where[1]], pe);
    switch (order) {
    case FENCE: shmem_fence(); break;
    case QUIET:
        shmem_quiet();
        shmem_long_get(&back, to + len - 1, 1, pe);
        late += back != k || (own && wrong(to, len, k));
        break;
    default:
        shmem_barrier_all();
        late += wrong(to, len, k);
    }
    write_to(by, flag[where[1]], 0, k, signals[where[1]], pe);
    see(flag[where[1]], k);
    late += wrong(to, len, k);
    if (late) complain(ways[way], orders[order], ways[by], where, own, late);
    shmem_barrier_all();
}

/* Data and the signal that travels with it. */
static void signalled(int where[2], int own, long k)
{
    reset();
    write_to(SIGNAL, data[where[0]], -1, k, signals[where[1]], own ? me : (me + 1) % n);
    for (long i = 0; i < 100000 && *(volatile uint64_t *)signals[where[1]] != (uint64_t)k; i++)
        ;
    shmem_signal_wait_until(signals[where[1]], SHMEM_CMP_EQ, (uint64_t)k);
    int late = wrong(data[where[0]], lengths[SIGNAL], k);
    if (late) complain("signal", "itself", "signal", where, own, late);
    shmem_barrier_all();
}

int main(void)
{
    static const enum way flags[] = { P, PUT_NBI, SET, FETCH_ADD, SIGNAL };
    start();
    data[0] = shmem_malloc(sizeof global_data);
    flag[0] = shmem_malloc(sizeof global_flag);
    signals[0] = shmem_malloc(sizeof(uint64_t));
    data[1] = global_data;
    flag[1] = global_flag;
    signals[1] = &global_signal;
    long k = 0;
    for (int at = 0; at < 8; at++) {
        int where[2] = { at & 1, at >> 1 & 1 }, own = at >> 2;
        for (int round = 0; round < 10; round++) signalled(where, own, ++k);
        for (int way = 0; way < WAYS; way++)
            for (unsigned by = 0; by < sizeof flags / sizeof *flags; by++)
                for (int order = 0; order < ORDERS; order++) ordered(way, flags[by], order, where, own, ++k);
    }
    return finish("fences");
}

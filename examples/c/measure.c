/* What operations of a machine take, by the program's own clock. One PE a node; the far end is the last PE.
 *
 *     oshcc -O2 measure.c -o measure
 *     angara run -n 32 --machine desmos --clock virtual ./measure [ROUNDS]
 *
 * Prints one line `VALUE UNIT NAME` per quantity. Data is checked: a speed without a correct result is
 * no speed. On a clock that is not virtual give more ROUNDS than the 10 that it does otherwise.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STREAM = 1 << 20, BLOCK = 8 << 10, PES = 4096 };

static long there[2], here[2]; /* one packet of 16 bytes */
static long word, sum, all[PES], mine[PES];
static char to[STREAM], from[STREAM];
static int me, n, last, rounds = 10;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(int good, const char *name)
{
    if (!good) {
        fprintf(stderr, "PE %d: wrong data after %s\n", me, name);
        shmem_global_exit(1);
    }
}

static void say(double value, const char *unit, const char *name)
{
    if (me == 0)
        printf("%.3f %s %s\n", value, unit, name);
}

/* Nanoseconds of one round of `body`, which PE 0 measures. */
#define TIMED(body)                                  \
    ({                                               \
        body; /* the first one finds its way */      \
        shmem_barrier_all();                         \
        double begin = now();                        \
        for (int round = 0; round < rounds; round++) \
            body;                                    \
        (now() - begin) / rounds;                    \
    })

/* Nanoseconds until the last PE has done `body` since the first began: all PEs must read one clock, as in virtual time. */
#define TOGETHER(body)                                                         \
    ({                                                                         \
        static double begin, end, first, latest;                               \
        double total = 0;                                                      \
        for (int round = 0; round < rounds; round++) {                         \
            shmem_barrier_all();                                               \
            begin = now();                                                     \
            body;                                                              \
            end = now();                                                       \
            shmem_barrier_all();                                               \
            shmem_double_min_reduce(SHMEM_TEAM_WORLD, &first, &begin, 1);      \
            shmem_double_max_reduce(SHMEM_TEAM_WORLD, &latest, &end, 1);       \
            total += latest - first;                                           \
        }                                                                      \
        total / rounds;                                                        \
    })

static void ping_pong(void)
{
    static long turn;
    turn++;
    long ball[2] = {turn, turn};
    if (me == 0) {
        shmem_putmem(there, ball, sizeof ball, last);
        shmem_long_wait_until(&here[1], SHMEM_CMP_EQ, turn);
        check(here[0] == turn, "ping-pong");
    } else if (me == last) {
        shmem_long_wait_until(&there[1], SHMEM_CMP_EQ, turn);
        check(there[0] == turn, "ping-pong");
        shmem_putmem(here, ball, sizeof ball, 0);
    }
}

/* An operation of PE 0 alone. */
#define ALONE(name, body)                              \
    do {                                               \
        double ns = TIMED(if (me == 0) { body; });     \
        say(ns, "ns", name);                           \
    } while (0)

static void stream(void)
{
    if (me == 0)
        for (int i = 0; i < STREAM; i++)
            from[i] = (char)(i * 7 + 1);
    double empty = TIMED(if (me == 0) { shmem_putmem(to, from, 8, last); shmem_quiet(); });
    double full = TIMED(if (me == 0) { shmem_putmem(to, from, STREAM, last); shmem_quiet(); });
    shmem_barrier_all();
    for (int i = 0; me == last && i < STREAM; i++)
        check(to[i] == (char)(i * 7 + 1), "a stream");
    say(STREAM / (full - empty), "GB/s", "stream of 1 MiB");
}

static void collectives(void)
{
    say(TIMED(shmem_barrier_all()), "ns", "barrier of all");
    say(TIMED(shmem_sync_all()), "ns", "sync of all");
    mine[0] = me + 1;
    say(TIMED(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, mine, 1)), "ns", "sum of 8 B");
    check(sum == (long)n * (n + 1) / 2, "a sum");
    say(TOGETHER(shmem_long_broadcast(SHMEM_TEAM_WORLD, &sum, mine, 1, 0)), "ns", "broadcast of 8 B");
    check(sum == 1, "a broadcast");
    say(TIMED(shmem_long_fcollect(SHMEM_TEAM_WORLD, all, mine, 1)), "ns", "collection of 8 B");
    for (int pe = 0; pe < n; pe++)
        check(all[pe] == pe + 1, "a collection");
}

int main(int argc, char **argv)
{
    shmem_init();
    me = shmem_my_pe(), n = shmem_n_pes(), last = n - 1;
    if (argc > 1)
        rounds = atoi(argv[1]);
    if (rounds < 1 || n < 2 || n > PES) {
        fprintf(stderr, "usage: measure [ROUNDS], on 2 to %d PEs\n", PES);
        shmem_global_exit(2);
    }
    say(TIMED(ping_pong()) / 2, "ns", "half ping-pong of 16 B");
    ALONE("put of 16 B and quiet", long ball[2] = {0}; shmem_putmem(there, ball, sizeof ball, last); shmem_quiet());
    ALONE("get of 8 B", shmem_long_g(&word, last));
    ALONE("fetching add", shmem_long_atomic_fetch_add(&word, 1, last));
    stream();
    collectives();
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

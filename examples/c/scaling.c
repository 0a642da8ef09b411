/* What one call takes on this many PEs: barrier, broadcast, reduction, halo exchange, all-to-all. In virtual time the
 * figures are the machine's, and the same in every run.
 *
 *     oshcc -O2 scaling.c -o scaling
 *     angara run -n 64 --clock virtual --pes-as coroutines ./scaling [ROUNDS [CALL...]]
 *
 * All calls but all-to-all are made if none is named: that one sends as many messages as there are pairs of PEs.
 */
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDES = 6, CELLS = 64 }; /* neighbours; numbers of one side of a halo */
enum { AHEAD = 50000 };         /* nanoseconds in which every PE has learnt when to begin */

static long from, to;
static double halo[SIDES][CELLS], edge[CELLS];
static uint64_t arrived[SIDES];
static long *sent, *received; /* one word for each PE */
static long now, latest; /* nanoseconds; symmetric, as reductions demand */

static void barrier(long round)
{
    (void)round;
    shmem_barrier_all();
}

static void broadcast(long round)
{
    from = round;
    shmem_long_broadcast(SHMEM_TEAM_WORLD, &to, &from, 1, 0);
}

static void reduce(long round)
{
    from = round + shmem_my_pe();
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, &to, &from, 1);
}

/* The neighbour on a side of the box that the network's first three dimensions are, around its ends. */
static int neighbour(int side)
{
    int dims[4] = {1, 1, 1, 1}, step = 1, me = shmem_my_pe(), n = shmem_n_pes();
    shmemx_torus_dims(dims);
    for (int d = 0; d < side / 2; d++)
        step *= dims[d];
    int size = dims[side / 2], at = me / step % size;
    int next = me + ((side % 2 ? at + size - 1 : at + 1) % size - at) * step;
    return next < n ? next : me;
}

static int neighbours[SIDES];

static void exchange(long round)
{
    for (int side = 0; side < SIDES; side++)
        shmem_putmem_signal(halo[side ^ 1], edge, sizeof edge, &arrived[side ^ 1], round, SHMEM_SIGNAL_SET,
                            neighbours[side]);
    for (int side = 0; side < SIDES; side++)
        if (neighbours[side] != shmem_my_pe())
            shmem_uint64_wait_until(&arrived[side], SHMEM_CMP_GE, round);
}

static void all_to_all(long round)
{
    (void)round;
    shmem_long_alltoall(SHMEM_TEAM_WORLD, received, sent, 1);
}

/* What is wrong after the last round: nothing, or the call did something else. */
static int wrong_word(long rounds)
{
    return shmem_my_pe() != 0 && to != rounds;
}

static int wrong_largest(long rounds)
{
    return to != rounds + shmem_n_pes() - 1;
}

static int wrong_parts(long rounds)
{
    (void)rounds;
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        if (received[pe] != (long)pe * shmem_n_pes() + shmem_my_pe())
            return 1;
    return 0;
}

static const struct {
    const char *name;
    void (*call)(long round);
    int (*wrong)(long rounds);
} calls[] = {{"barrier", barrier, NULL},
             {"broadcast", broadcast, wrong_word},
             {"reduction", reduce, wrong_largest},
             {"halo", exchange, NULL},
             {"all-to-all", all_to_all, wrong_parts}};
enum { CALLS = sizeof calls / sizeof *calls };

static long clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* All PEs begin at one moment, and the time ends with the last of them; it has one look at the clock in it. With one
 * round this is the latency of the call. In several rounds calls overlap where they do not wait for all: a broadcast's
 * root goes on to the next one. Returns 1 if a result is wrong. */
static int measure(int i, long rounds)
{
    now = clock_ns();
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, &latest, &now, 1);
    long begin = latest + AHEAD;
    struct timespec moment = {begin / 1000000000L, begin % 1000000000L};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
    for (long round = 1; round <= rounds; round++)
        calls[i].call(round);
    now = clock_ns();
    int wrong = calls[i].wrong && calls[i].wrong(rounds);
    shmem_long_max_reduce(SHMEM_TEAM_WORLD, &latest, &now, 1);
    if (shmem_my_pe() == 0)
        printf("%-10s %6d PEs %10.3f us a call\n", calls[i].name, shmem_n_pes(), (latest - begin) / 1e3 / rounds);
    if (wrong)
        fprintf(stderr, "PE %d: %s: a wrong result\n", shmem_my_pe(), calls[i].name);
    return wrong;
}

static int named(int argc, char **argv, const char *call)
{
    for (int arg = 2; arg < argc; arg++)
        if (strcmp(argv[arg], call) == 0)
            return 1;
    return argc <= 2 && strcmp(call, "all-to-all") != 0;
}

int main(int argc, char **argv)
{
    shmem_init();
    long rounds = argc > 1 ? atol(argv[1]) : 10;
    int known = 0, wrong = 0, n = shmem_n_pes();
    for (int i = 0; i < CALLS; i++)
        known += named(argc, argv, calls[i].name);
    if (rounds < 1 || known == 0) {
        if (shmem_my_pe() == 0)
            fprintf(stderr, "usage: scaling [ROUNDS [CALL...]]; calls: barrier broadcast reduction halo all-to-all\n");
        shmem_global_exit(2);
    }
    if (named(argc, argv, "all-to-all")) {
        sent = shmem_malloc(n * sizeof *sent);
        received = shmem_malloc(n * sizeof *received);
        if (!sent || !received) {
            fprintf(stderr, "PE %d: two words for each PE do not fit into the symmetric heap; use --heap\n",
                    shmem_my_pe());
            shmem_global_exit(1);
        }
        for (int pe = 0; pe < n; pe++)
            sent[pe] = (long)shmem_my_pe() * n + pe;
    }
    for (int side = 0; side < SIDES; side++)
        neighbours[side] = neighbour(side);
    for (int i = 0; i < CALLS; i++)
        if (named(argc, argv, calls[i].name))
            wrong |= measure(i, rounds);
    shmem_finalize();
    return wrong;
}

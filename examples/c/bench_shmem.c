/* What an OpenSHMEM library costs: latencies, message rate, bandwidth, collectives, start-up.
 *
 *   oshcc -O2 bench_shmem.c -o bench_shmem && oshrun -np 2 ./bench_shmem [MS [WORD...]]
 *
 * Runs on any implementation of version 1.4 or newer. MS is the time spent on each quantity in
 * milliseconds (10 unless given; 0 measures only start-up); words choose the quantities whose
 * names contain one of them. Prints one line `sample UNIT VALUE NAME` per quantity. With 2 PEs
 * everything between a pair is measured, with any number of PEs every collective. `angara bench
 * shmem` runs it under several libraries in turn and makes a table of the lines.
 *
 *   oshrun -np 2 ./bench_shmem stream
 *
 * measures nothing: the first half of the PEs transfers 16 MiB each to the second half, again and
 * again until the job is ended, to be a neighbour of one that measures.
 *
 * Results are checked: a speed without a correct result is no speed.
 */
#include <sched.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
#define TEAMS 1
#endif

enum { BIG = 4 << 20, HUGE = 256 << 20, BLOCK = 4096, VECTOR = 65536, BATCH = 1000, FEW = 400, FRESH = 2 << 20, STREAM = 16 << 20 };

static int me, pes;
static double target_s = 0.01;
static int words;
static char **word;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Runs before the constructors of any shared library, where a library may already start up. */
static double began;
static void record(void) { began = now(); }
__attribute__((used, section(".preinit_array"))) static void (*const first)(void) = record;

static void sample(const char *unit, double value, const char *name) {
    if (me == 0) printf("sample %s %.6g %s\n", unit, value, name);
}

static int wanted(const char *name) {
    for (int i = 0; i < words; i++)
        if (strstr(name, word[i])) return 1;
    return words == 0;
}

static void check(int good, const char *name) {
    if (good) return;
    fprintf(stderr, "PE %d: wrong result of %s\n", me, name);
    shmem_global_exit(1);
}

static size_t room; /* bytes of `wide` and `sum` */
/* Symmetric memory. */
static long statics[16];
static size_t most = BIG;   /* HUGE if sizes of 16 MiB and more are asked for by a word such as `256 MiB` */
static char *to, *from;     /* `most` bytes each */
static long *word_at;       /* a cache line */
static long *flag;          /* two cache lines */
static long *decision;
static long *wide, *sum;    /* a block for every PE each; VECTOR bytes at least */
/* Private memory. */
static char *plain_to, *plain_from;

/* ---- between two PEs: PE 0 acts, PE 1 waits ---- */

static size_t size;
static int window;

static void put_quiet(void) {
    shmem_putmem(to, from, 8, 1);
    shmem_quiet();
}
static void get(void) { shmem_getmem(to, from, 8, 1); }
static void p_quiet(void) {
    shmem_long_p(word_at, 1, 1);
    shmem_quiet();
}
static void g(void) { (void)shmem_long_g(word_at, 1); }
static void puts_8(void) {
    for (int i = 0; i < BATCH; i++) shmem_putmem(to + 8 * (i & 63), from, 8, 1);
    shmem_quiet();
}
static void ps_8(void) {
    for (int i = 0; i < BATCH; i++) shmem_long_p((long *)to + (i & 63), i, 1);
    shmem_quiet();
}
static void iget(void) { shmem_long_iget((long *)to, (long *)from, 1, 2, BATCH, 1); }
static void iput(void) {
    shmem_long_iput((long *)to, (long *)from, 1, 2, BATCH, 1);
    shmem_quiet();
}
static void gets_nbi(void) {
    for (int i = 0; i < BATCH; i++) shmem_getmem_nbi(to + 8 * i, from + 8 * i, 8, 1);
    shmem_quiet();
}
static void fetch_add(void) { (void)shmem_long_atomic_fetch_add(word_at, 1, 1); }
static void fetch_add_static(void) { (void)shmem_long_atomic_fetch_add(statics, 1, 1); }
static void add_quiet(void) {
    shmem_long_atomic_add(word_at, 1, 1);
    shmem_quiet();
}
static void compare_swap(void) { (void)shmem_long_atomic_compare_swap(word_at, 1, 2, 1); }
static void put_window(void) {
    for (int i = 0; i < window; i++) shmem_putmem(to, from, size, 1);
    shmem_quiet();
}
static void get_window(void) {
    for (int i = 0; i < window; i++) shmem_getmem(to, from, size, 1);
}
/* What the library's get cannot beat: the peer's memory is mapped here, and copied. */
static char *peer_from;
static void get_raw(void) {
    for (int i = 0; i < window; i++) {
        memcpy(to, peer_from, size);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
}
static void memcpy_window(void) {
    for (int i = 0; i < window; i++) {
        memcpy(plain_to, plain_from, size);
        __asm__ volatile("" : : "r"(plain_to) : "memory");
    }
}

/* Seconds of one call, from as many calls as take about target_s. */
static double alone(void (*call)(void)) {
    for (long n = 1;;) {
        double start = now();
        for (long i = 0; i < n; i++) call();
        double took = now() - start;
        if (took > target_s || n > 1L << 30) return took / n;
        n = took > target_s / 100 ? (long)(n * target_s * 1.1 / took) + 1 : n * 10;
    }
}

static void latency(const char *name, void (*call)(void)) {
    if (wanted(name)) sample("ns", alone(call) * 1e9, name);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Calls one by one, for as long as a dozen quantities take: what half of them take at most, and 99 of 100. `spread` must be
 * asked for. */
static void spread(const char *name, void (*call)(void)) {
    enum { MOST = 1 << 16, LEAST = 200 };
    char label[80];
    if (!words || !wanted("spread")) return;
    double *took = malloc(MOST * sizeof *took), end = now() + 12 * target_s;
    int n = 0;
    for (double start = now(), stop; n < MOST && (n < LEAST || start < end); start = stop) {
        call();
        stop = now();
        took[n++] = stop - start;
    }
    qsort(took, n, sizeof *took, by_value);
    snprintf(label, sizeof label, "%s, median", name);
    sample("ns", took[n / 2] * 1e9, label);
    snprintf(label, sizeof label, "%s, 99 %%", name);
    sample("ns", took[n * 99L / 100] * 1e9, label);
    free(took);
}

static void rate(const char *name, void (*call)(void)) {
    if (wanted(name)) sample("M/s", BATCH / alone(call) * 1e-6, name);
}

static void bandwidth(const char *kind, void (*call)(void)) {
    for (size = 8; size <= most; size = size < 256 << 10 ? size * 8 : size * 4) {
        char name[64];
        if (size < 1024) snprintf(name, sizeof name, "%s %zu B bandwidth", kind, size);
        else if (size < 1 << 20) snprintf(name, sizeof name, "%s %zu KiB bandwidth", kind, size >> 10);
        else snprintf(name, sizeof name, "%s %zu MiB bandwidth", kind, size >> 20);
        window = size >= 1 << 20 ? 1 : size >= 16384 ? (1 << 20) / size : 64;
        if (wanted(name)) sample("GB/s", size * window / alone(call) * 1e-9, name);
    }
}

/* One word to the peer and back; half of a round trip. `wait` sees the peer's word arrive. */
static void round_trips(const char *name, void (*send)(long), void (*wait)(long)) {
    if (!wanted(name)) return;
    shmem_barrier_all();
    *flag = 0;
    shmem_barrier_all();
    long i = 1, rounds = 100;
    double took = 0;
    /* Both PEs see the same time: PE 0 sends how far to go. */
    for (;;) {
        long last = i + rounds;
        double start = now();
        for (; i < last; i++) {
            if (me == 0) send(i);
            wait(i);
            if (me == 1) send(i);
        }
        took = now() - start;
        if (me == 0) *decision = took < target_s && rounds < 1L << 24 ? 2 * rounds : 0;
        if (me == 0) shmem_long_put(decision, decision, 1, 1);
        shmem_barrier_all();
        if (*decision == 0) break;
        rounds = *decision;
    }
    sample("ns", took / rounds / 2 * 1e9, name);
}
static void send_p(long i) { shmem_long_p(flag, i, 1 - me); }
static void wait_until(long i) { shmem_long_wait_until(flag, SHMEM_CMP_GE, i); }
static volatile long *peer_flag;
static void send_raw(long i) { *peer_flag = i; }
static void wait_raw(long i) {
    for (long spins = 0; *(volatile long *)flag < i; spins++) {
        __builtin_ia32_pause();
        if (spins > 10000) sched_yield();
    }
}

/* PE 0 works by itself while the others wait for it. */
static void work_alone(double seconds) {
    if (me == 0)
        for (double end = now() + seconds; now() < end;) {}
}

/* Round trips in short runs, PE 0 having worked alone before each: half of one, in the run that nine of ten are not slower
 * than. */
static void round_trips_after_work(const char *name) {
    enum { RUNS = 40, TRIPS = 500 };
    if (!wanted(name)) return;
    double took[RUNS];
    shmem_barrier_all();
    *flag = 0;
    shmem_barrier_all();
    long i = 1;
    for (int run = 0; run < RUNS; run++) {
        work_alone(0.001 * (run % 4));
        double start = now();
        for (long last = i + TRIPS; i < last; i++) {
            if (me == 0) send_p(i);
            wait_until(i);
            if (me == 1) send_p(i);
        }
        took[run] = (now() - start) / TRIPS / 2;
    }
    qsort(took, RUNS, sizeof *took, by_value);
    sample("ns", took[RUNS * 9 / 10] * 1e9, name);
}

static void pair(void) {
    round_trips("put, wait_until", send_p, wait_until);
    round_trips_after_work("put, wait_until after work");
    peer_flag = (volatile long *)shmem_ptr(flag, 1 - me);
    *decision = peer_flag != NULL;
    shmem_barrier_all();
    if (shmem_long_g(decision, 1) && *decision) round_trips("floor: cache line", send_raw, wait_raw);
    shmem_barrier_all();
    if (me == 0) {
        latency("put 8 B + quiet", put_quiet);
        spread("put 8 B + quiet", put_quiet);
        latency("get 8 B", get);
        latency("p + quiet", p_quiet);
        latency("g", g);
        latency("fetch-add, heap", fetch_add);
        latency("fetch-add, static", fetch_add_static);
        latency("add + quiet", add_quiet);
        latency("compare-swap", compare_swap);
        rate("put 8 B rate", puts_8);
        rate("p 8 B rate", ps_8);
        latency("iput 1,000 x 8 B + quiet", iput);
        latency("iget 1,000 x 8 B", iget);
        latency("get_nbi 1,000 x 8 B + quiet", gets_nbi);
        memset(to, 0, most);
        bandwidth("put", put_window);
        bandwidth("get", get_window);
        if (words == 0 || wanted("get 4 MiB bandwidth")) check(to[0] == 2 && to[BIG - 1] == 2, "get");
        peer_from = shmem_ptr(from, 1);
        if (peer_from) bandwidth("floor: get by memcpy", get_raw);
        bandwidth("floor: memcpy", memcpy_window);
    }
    shmem_barrier_all();
    if (me == 1 && (words == 0 || wanted("put 4 MiB bandwidth"))) check(to[0] == 1 && to[BIG - 1] == 1, "put");
}

/* ---- collectives ---- */

#ifndef TEAMS
/* Two sets of work arrays, used in turn, so that a fast PE does not disturb a slow one. */
static long psync[2][SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_COLLECT_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE +
                     SHMEM_REDUCE_SYNC_SIZE + SHMEM_BARRIER_SYNC_SIZE];
static long pwrk[2][VECTOR / sizeof(long) / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static int turn;
#define NEXT (psync[turn ^= 1])
#endif

static void broadcast(size_t n) {
#ifdef TEAMS
    shmem_long_broadcast(SHMEM_TEAM_WORLD, wide, (long *)from, n, 0);
#else
    shmem_broadcast64(wide, from, n, 0, 0, 0, pes, NEXT);
#endif
}
static void reduce(size_t n) {
#ifdef TEAMS
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, sum, wide, n);
#else
    long *sync = NEXT;
    shmem_long_sum_to_all(sum, wide, n, 0, 0, pes, pwrk[turn], sync);
#endif
}
static void fcollect(size_t n) {
#ifdef TEAMS
    shmem_long_fcollect(SHMEM_TEAM_WORLD, sum, wide, n);
#else
    shmem_fcollect64(sum, wide, n, 0, 0, pes, NEXT);
#endif
}
static void collect(size_t n) {
#ifdef TEAMS
    shmem_long_collect(SHMEM_TEAM_WORLD, sum, wide, n);
#else
    shmem_collect64(sum, wide, n, 0, 0, pes, NEXT);
#endif
}
static void alltoall(size_t n) {
#ifdef TEAMS
    shmem_long_alltoall(SHMEM_TEAM_WORLD, sum, wide, n);
#else
    shmem_alltoall64(sum, wide, n, 0, 0, pes, NEXT);
#endif
}

static void broadcast_8(void) {
    broadcast(1);
    shmem_barrier_all();
}
static void broadcast_64k(void) {
    broadcast(VECTOR / sizeof(long));
    shmem_barrier_all();
}
static void sum_8(void) { reduce(1); }
static void sum_64k(void) { reduce(VECTOR / sizeof(long)); }
static void fcollect_8(void) { fcollect(1); }
static void fcollect_4k(void) { fcollect(BLOCK / sizeof(long)); }
static void collect_8(void) { collect(1); }
static void alltoall_8(void) { alltoall(1); }
static void alltoall_4k(void) { alltoall(BLOCK / sizeof(long)); }

/* All PEs call as often as PE 0 says. Microseconds of one call; a synchronisation before, none inside. */
static void together(const char *name, void (*call)(void)) {
    if (!wanted(name)) return;
    double took;
    long n = 1;
    for (;;) {
        shmem_barrier_all();
        double start = now();
        for (long i = 0; i < n; i++) call();
        took = now() - start;
        if (me == 0) {
            *decision = took > target_s || n >= 1L << 24 ? 0
                        : took > target_s / 30           ? (long)(n * target_s * 1.1 / took) + 1
                                                         : n * 5;
            for (int pe = 1; pe < pes; pe++) shmem_long_put(decision, decision, 1, pe);
        }
        shmem_barrier_all();
        if (*decision == 0) break;
        n = *decision;
    }
    sample("us", took / n * 1e6, name);
}

/* A thousand barriers after PE 0 has worked alone for 1 to 5 ms, the others waiting in a barrier. */
static void barriers_after_work(const char *name) {
    if (!wanted(name)) return;
    double took = 0;
    int rounds = 0;
    for (; rounds < 5; rounds++) {
        work_alone(0.001 * (rounds + 1));
        shmem_barrier_all();
        double start = now();
        for (int i = 0; i < BATCH; i++) shmem_barrier_all();
        took += now() - start;
    }
    sample("us", took / rounds / BATCH * 1e6, name);
}

/* What happens to PEs before they meet: new memory, a file. */
static void touch_memory(void) {
    volatile char *p = malloc(FRESH);
    if (!p) return;
    for (size_t i = 0; i < FRESH; i += 4096) p[i] = 1;
    free((void *)p);
}
static void write_file(void) {
    FILE *f = tmpfile();
    char block[4096];
    memset(block, me, sizeof block);
    for (int i = 0; f && i < 256; i++)
        if (fwrite(block, sizeof block, 1, f) != 1) break;
    if (f) fclose(f);
}

/* The few barriers of a short program: a long loop measures what PEs and their cores have settled to. */
static void few_barriers(const char *name, void (*before)(void)) {
    if (!wanted(name)) return;
    if (before) before();
    double start = now();
    for (int i = 0; i < FEW; i++) shmem_barrier_all();
    sample("us", (now() - start) / FEW * 1e6, name);
}

static void collectives(void) {
    long all = (long)pes * (pes - 1) / 2;
    size_t blocks = BLOCK / sizeof(long) * pes;
    together("barrier_all", shmem_barrier_all);
    barriers_after_work("barrier_all after work");
    together("sync_all", shmem_sync_all);
    together("broadcast 8 B + barrier", broadcast_8);
    together("broadcast 64 KiB + barrier", broadcast_64k);
    if (me > 0 && wanted("broadcast 64 KiB + barrier")) check(wide[VECTOR / sizeof(long) - 1] == ((long *)to)[0], "broadcast");
    shmem_barrier_all();
    for (size_t i = 0; i < blocks || i < VECTOR / sizeof(long); i++) wide[i] = me;
    shmem_barrier_all();
    together("sum 8 B", sum_8);
    if (wanted("sum 8 B")) check(sum[0] == all, "sum");
    shmem_barrier_all();
    together("sum 64 KiB", sum_64k);
    if (wanted("sum 64 KiB")) check(sum[0] == all && sum[VECTOR / sizeof(long) - 1] == all, "sum");
    shmem_barrier_all();
    together("fcollect 8 B", fcollect_8);
    if (wanted("fcollect 8 B")) check(sum[pes - 1] == pes - 1, "fcollect");
    shmem_barrier_all();
    together("fcollect 4 KiB", fcollect_4k);
    if (wanted("fcollect 4 KiB")) check(sum[blocks - 1] == pes - 1, "fcollect");
    shmem_barrier_all();
    together("collect 8 B", collect_8);
    if (wanted("collect 8 B")) check(sum[pes - 1] == pes - 1, "collect");
    shmem_barrier_all();
    together("alltoall 8 B", alltoall_8);
    if (wanted("alltoall 8 B")) check(sum[pes - 1] == pes - 1, "alltoall");
    shmem_barrier_all();
    together("alltoall 4 KiB", alltoall_4k);
    if (wanted("alltoall 4 KiB")) check(sum[blocks - 1] == pes - 1, "alltoall");
    shmem_barrier_all();
}

/* One collective at growing sizes, to compare algorithms: `sweep` must be asked for. */
static size_t sweep_n;
static void sweep_broadcast(void) {
    broadcast(sweep_n);
    shmem_barrier_all();
}
static void sweep_reduce(void) { reduce(sweep_n); }
static void sweep_fcollect(void) { fcollect(sweep_n); }

static void sweep(void) {
    static const struct {
        const char *name;
        void (*call)(void);
    } all[] = { { "broadcast", sweep_broadcast }, { "reduce", sweep_reduce }, { "fcollect", sweep_fcollect } };
    for (int c = 0; c < 3; c++)
        for (size_t bytes = 8; bytes <= VECTOR; bytes *= 8) {
            char name[64];
            if (c == 2 && bytes * pes > room) continue;
            sweep_n = bytes / sizeof(long);
            snprintf(name, sizeof name, "sweep %s %zu", all[c].name, bytes);
            together(name, all[c].call);
        }
}

static void *symmetric(size_t bytes) {
    void *p = shmem_align(64, bytes);
    if (!p) {
        fprintf(stderr, "PE %d: no %zu bytes of symmetric memory; set SHMEM_SYMMETRIC_SIZE=%s\n", me, bytes,
                most > BIG ? "1200M" : "64M");
        shmem_global_exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* Transfers until somebody ends the job. */
static void stream(void) {
    char *block = symmetric(STREAM);
    shmem_barrier_all();
    if (me == 0) puts("streaming");
    fflush(stdout);
    while (me < pes / 2) {
        shmem_putmem(block, block, STREAM, me + pes / 2);
        shmem_quiet();
    }
    shmem_barrier_all();
}

int main(int argc, char **argv) {
    int streams = argc > 1 && strcmp(argv[1], "stream") == 0;
    if (argc > 1) target_s = atof(argv[1]) * 1e-3;
    words = argc > 2 ? argc - 2 : 0;
    word = argv + 2;
    shmem_init();
    double ready = now();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    if (streams) stream();
    if (target_s > 0) {
        few_barriers("barrier_all, 400 after the start", NULL);
        few_barriers("barrier_all, 400 after page faults", touch_memory);
        few_barriers("barrier_all, 400 after a file", write_file);
        room = (size_t)BLOCK * pes > VECTOR ? (size_t)BLOCK * pes : VECTOR;
        for (int i = 0; i < words; i++)
            if (strstr(word[i], "16 MiB") || strstr(word[i], "64 MiB") || strstr(word[i], "256 MiB")) most = HUGE;
        to = symmetric(most);
        from = symmetric(most);
        word_at = symmetric(64);
        flag = symmetric(128);
        decision = symmetric(64);
        wide = symmetric(room);
        sum = symmetric(room);
        plain_to = malloc(most);
        plain_from = malloc(most);
        memset(from, me + 1, most);
        memset(to, 1, most); /* what PE 0 broadcasts */
        memset(plain_to, 1, most);
        memset(plain_from, 1, most);
#ifndef TEAMS
        for (size_t i = 0; i < sizeof psync / sizeof(long); i++) ((long *)psync)[i] = SHMEM_SYNC_VALUE;
#endif
        shmem_barrier_all();
        collectives();
        if (words && wanted("sweep")) sweep();
        if (pes == 2) pair();
        shmem_barrier_all();
    }
    double closing = now();
    shmem_finalize();
    if (target_s <= 0 && !streams) {
        sample("ms", (ready - began) * 1e3, "init");
        sample("ms", (now() - closing) * 1e3, "finalize");
    }
    return 0;
}

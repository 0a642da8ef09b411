/* First figures: put+quiet of 8 bytes, put and get of 1 MiB, barrier; and the machine's own floors,
 * measured by the same processes: memcpy of 1 MiB, and one cache line handed to a peer and back.
 *
 *   oshcc -O2 bench_basic.c -o bench_basic && angara run -n 2 ./bench_basic [REPETITIONS]
 *
 * Prints one line `sample NAME UNIT VALUE` per repetition; `angara bench` makes a table of them.
 */
#include <sched.h>
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIB = 1 << 20, TARGET_MS = 20 };

static int me, pes;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static char *target, *source; /* symmetric, 1 MiB each */
static char *plain_from, *plain_to;
static volatile uint64_t *flag; /* symmetric, two cache lines: one per PE of a pair */
static volatile uint64_t *peer_flag;

static void put8(void) {
    shmem_putmem(target, source, 8, pes - 1);
    shmem_quiet();
}
static void put1m(void) {
    shmem_putmem(target, source, MIB, pes - 1);
    shmem_quiet();
}
static void get1m(void) { shmem_getmem(target, source, MIB, pes - 1); }
static void memcpy1m(void) {
    memcpy(plain_to, plain_from, MIB);
    __asm__ volatile("" : : "r"(plain_to) : "memory");
}

/* Seconds of one call, from as many calls as take about TARGET_MS. */
static double seconds_per_call(void (*call)(void)) {
    long n = 1;
    for (;;) {
        double start = now();
        for (long i = 0; i < n; i++) call();
        double took = now() - start;
        if (took > TARGET_MS * 1e-3 || n > 1L << 30) return took / n;
        n = took > 1e-4 ? (long)(n * TARGET_MS * 1.1e-3 / took) + 1 : n * 10;
    }
}

/* One cache line to the peer and back, by plain stores; half of a round trip. */
static double ping_pong(void) {
    const uint64_t rounds = 2000;
    uint64_t base = *flag;
    shmem_barrier_all();
    double start = now();
    for (uint64_t i = base + 1; i <= base + rounds; i++) {
        if (me == 0) *peer_flag = i;
        for (long spins = 0; *flag < i; spins++) {
            __builtin_ia32_pause();
            if (spins > 10000) sched_yield();
        }
        if (me == 1) *peer_flag = i;
    }
    return (now() - start) / rounds / 2;
}

static void sample(const char *name, const char *unit, double value) {
    if (me == 0) printf("sample %s %s %.4f\n", name, unit, value);
}

static void barriers(int repetitions) {
    const int n = pes > 16 ? 200 : 1000;
    for (int r = 0; r < repetitions; r++) {
        shmem_barrier_all();
        double start = now();
        for (int i = 0; i < n; i++) shmem_barrier_all();
        sample("barrier", "ns", (now() - start) / n * 1e9);
    }
}

int main(int argc, char **argv) {
    int repetitions = argc > 1 ? atoi(argv[1]) : 9;
    shmem_init();
    me = shmem_my_pe();
    pes = shmem_n_pes();
    target = shmem_malloc(MIB);
    source = shmem_malloc(MIB);
    flag = shmem_malloc(256);
    plain_from = malloc(MIB);
    plain_to = malloc(MIB);
    if (!target || !source || !flag || !plain_from || !plain_to) {
        fprintf(stderr, "PE %d: out of memory; give --heap 16M or more\n", me);
        shmem_global_exit(1);
    }
    memset(source, me + 1, MIB);
    memset(plain_from, 1, MIB);
    memset(target, 0, MIB);
    *flag = 0;
    shmem_barrier_all();

    barriers(repetitions);
    if (pes == 2) {
        peer_flag = (volatile uint64_t *)shmem_ptr((void *)flag, 1 - me);
        for (int r = 0; r < repetitions && peer_flag; r++) sample("pingpong", "ns", ping_pong() * 1e9);
        shmem_barrier_all();
        for (int r = 0; r < repetitions && me == 0; r++) {
            sample("put8", "ns", seconds_per_call(put8) * 1e9);
            sample("put1m", "GB/s", MIB / seconds_per_call(put1m) * 1e-9);
            sample("get1m", "GB/s", MIB / seconds_per_call(get1m) * 1e-9);
            sample("memcpy1m", "GB/s", MIB / seconds_per_call(memcpy1m) * 1e-9);
        }
        shmem_barrier_all();
        /* A speed without a correct result is no speed. */
        if (me == 0 && target[MIB - 1] != 2) {
            fprintf(stderr, "get delivered %d instead of 2\n", target[MIB - 1]);
            shmem_global_exit(1);
        }
        if (me == 1 && (target[0] != 1 || target[MIB - 1] != 1)) {
            fprintf(stderr, "put delivered %d and %d instead of 1\n", target[0], target[MIB - 1]);
            shmem_global_exit(1);
        }
    }
    shmem_finalize();
    return 0;
}

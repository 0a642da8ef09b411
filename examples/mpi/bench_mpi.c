/* What an MPI library costs: latency, message rate, bandwidth, one-sided, collectives.
 *
 *   mpicc -O2 bench_mpi.c -o bench_mpi && angara run -n 2 ./bench_mpi [MS]
 *
 * MS is the time spent on each quantity in milliseconds (10 unless given). Prints one line `sample UNIT
 * VALUE NAME` per quantity. With 2 ranks everything between a pair is measured, with any number every
 * collective. `angara bench mpi` runs it over several providers in turn and makes a table of the lines.
 *
 * Results are checked: a speed without a correct result is no speed.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BIG = 1 << 20, WINDOW = 64 };

static int me, ranks;
static double target_s = 0.01;
static char *to, *from;
static int size;
static MPI_Win window;
static MPI_Request request[WINDOW];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void check(int good, const char *name) {
    if (good) return;
    fprintf(stderr, "rank %d: wrong result of %s\n", me, name);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Repeats `call` on all ranks until it has taken long enough on rank 0: seconds for one. */
static double repeat(void (*call)(void)) {
    for (int count = 1;; count *= 4) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = now();
        for (int i = 0; i < count; i++) call();
        double took = now() - begin;
        int enough = took >= target_s || count >= 1 << 24;
        MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (enough) return took / count;
    }
}

/* `scale` over the seconds of one call, or times them where `unit` is a time. */
static void measure(const char *name, const char *unit, double scale, void (*call)(void)) {
    double one = repeat(call);
    double value = strstr(unit, "/s") ? scale / one : scale * one;
    if (me == 0) printf("sample %s %.6g %s\n", unit, value, name);
}

/* ---- between two ranks ---- */

static void ping_pong(void) {
    if (me == 0) {
        MPI_Send(from, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(to, size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(to, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(from, size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
}

/* A window of messages one way, and a word back. */
static void stream(void) {
    for (int i = 0; i < WINDOW; i++) {
        if (me == 0) MPI_Isend(from, size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &request[i]);
        else MPI_Irecv(to, size, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
    if (me == 0) MPI_Recv(to, 1, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(from, 1, MPI_CHAR, 0, 3, MPI_COMM_WORLD);
}

static void put_flush(void) {
    if (me) return;
    MPI_Put(from, size, MPI_CHAR, 1, 0, size, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}
static void get_flush(void) {
    if (me) return;
    MPI_Get(to, size, MPI_CHAR, 1, 0, size, MPI_CHAR, window);
    MPI_Win_flush(1, window);
}
static void fetch_add(void) {
    long one = 1, old;
    if (me) return;
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 1, 8, MPI_SUM, window);
    MPI_Win_flush(1, window);
}

/* Floors: a cache line that two threads hand to each other, and copies. */
static atomic_int ball;
static void await(int value) {
    for (int looks = 0; atomic_load_explicit(&ball, memory_order_acquire) != value; looks++)
        if (looks % 4096 == 4095) sched_yield(); /* both may be on one core */
}
static void *other(void *rounds) {
    /* Launchers bind a rank to a core; two are what this is about. */
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    for (int i = 0; i < *(int *)rounds; i++) {
        await(2 * i + 1);
        atomic_store_explicit(&ball, 2 * i + 2, memory_order_release);
    }
    return NULL;
}
static void floors(void) {
    if (me) {
        /* It would take a core while it waits. */
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
        return;
    }
    pthread_t thread;
    int rounds = 20000, batch = 1000;
    double least = 1;
    if (pthread_create(&thread, NULL, other, &rounds) == 0) {
        /* The fastest of some, as the two begin on one core. */
        for (int i = 0, begun = 0; i < rounds; begun = i) {
            double begin = now();
            for (; i < begun + batch; i++) {
                atomic_store_explicit(&ball, 2 * i + 1, memory_order_release);
                await(2 * i + 2);
            }
            double took = (now() - begin) / batch / 2;
            if (took < least) least = took;
        }
        printf("sample ns %.6g floor: cache line\n", least * 1e9);
        pthread_join(thread, NULL);
    }
    double best = 1;
    for (int i = 0; i < 50; i++) {
        double begin = now();
        memcpy(to, from, BIG);
        double took = now() - begin;
        if (took < best) best = took;
    }
    printf("sample GB/s %.6g floor: memcpy 1 MiB\n", BIG / best * 1e-9);
}

static void pair(void) {
    struct { int bytes; const char *name; } sizes[] = { { 8, "8 B" }, { 1024, "1 KiB" }, { 65536, "64 KiB" }, { BIG, "1 MiB" } };
    char name[64];
    for (int i = 0; i < 4; i++) {
        size = sizes[i].bytes;
        snprintf(name, sizeof name, "half round trip %s", sizes[i].name);
        memset(to, 0, size);
        measure(name, "us", 0.5e6, ping_pong);
        check(memchr(to, 0, size) == NULL, name);
    }
    size = 8;
    measure("rate 8 B", "M/s", WINDOW * 1e-6, stream);
    size = BIG;
    measure("bandwidth 1 MiB", "GB/s", 1e-9 * BIG * WINDOW, stream);
    floors();
    MPI_Win_create(to, BIG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock_all(0, window);
    size = 8;
    /* Rank 1 waits in the broadcast that ends a measurement, and makes progress there. */
    measure("put 8 B + flush", "us", 1e6, put_flush);
    measure("get 8 B + flush", "us", 1e6, get_flush);
    measure("fetch-and-op", "us", 1e6, fetch_add);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* ---- among all ---- */

static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void sum(void) {
    double mine = me + 1, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    check(all == ranks * (ranks + 1) / 2.0, "allreduce");
}
static void broadcast(void) { MPI_Bcast(to, size, MPI_CHAR, 0, MPI_COMM_WORLD); }

int main(int argc, char **argv) {
    if (argc > 1) target_s = atof(argv[1]) * 1e-3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    to = malloc(BIG);
    from = malloc(BIG);
    if (!to || !from) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(to, 1, BIG);
    memset(from, me + 1, BIG);
    if (ranks == 2) pair();
    measure("barrier", "us", 1e6, barrier);
    measure("allreduce 8 B", "us", 1e6, sum);
    size = 65536;
    measure("broadcast 64 KiB", "us", 1e6, broadcast);
    MPI_Finalize();
    return 0;
}

/* What MPI programs do in virtual time, by the first argument:
 *   trips BYTES [PEER]   half a round trip between rank 0 and PEER (1), in nanoseconds
 *   all                  collectives of several sizes, and how long they took
 *   asks                 messages that are probed for, and tests in a loop
 *   dead                 everybody waits for the next one's message with tag 5
 *   threads              four threads of each rank exchange messages, and a fifth one sleeps; calendars never jump */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORLD MPI_COMM_WORLD

static int me, n;

static void trips(int bytes, int peer) {
    enum { TIMES = 100 };
    char *b = calloc(1, bytes + 1);
    double begin = 0;
    if (me == 0 || me == peer)
        for (int i = -2; i < TIMES; i++) {
            if (i == 0)
                begin = MPI_Wtime();
            for (int way = 0; way < 2; way++)
                if ((me == 0) == (way == 0))
                    MPI_Send(b, bytes, MPI_BYTE, me ? 0 : peer, 0, WORLD);
                else
                    MPI_Recv(b, bytes, MPI_BYTE, me ? 0 : peer, 0, WORLD, MPI_STATUS_IGNORE);
        }
    if (me == 0)
        printf("%.2f\n", (MPI_Wtime() - begin) * 1e9 / TIMES / 2);
    free(b);
}

static void all(void) {
    for (int bytes = 8; bytes <= 32768; bytes *= 16) {
        char *from = calloc(n, bytes), *to = calloc(n, bytes);
        double at = MPI_Wtime();
        MPI_Alltoall(from, bytes, MPI_CHAR, to, bytes, MPI_CHAR, WORLD);
        MPI_Allreduce(MPI_IN_PLACE, to, bytes / 8, MPI_LONG, MPI_SUM, WORLD);
        MPI_Bcast(from, bytes, MPI_CHAR, 0, WORLD);
        MPI_Barrier(WORLD);
        printf("rank %d, %d bytes: %.3f us\n", me, bytes, (MPI_Wtime() - at) * 1e6);
        free(from);
        free(to);
    }
    printf("rank %d has done at %.3f us\n", me, MPI_Wtime() * 1e6);
}

static void asks(void) {
    char from[4096] = {0}, to[4096];
    for (int i = 0; i < 5; i++) {
        MPI_Request sent, came;
        MPI_Message message;
        MPI_Status status;
        int bytes, flag = 0, tests = 0;
        MPI_Isend(from, 100 * i, MPI_CHAR, (me + 1) % n, i, WORLD, &sent);
        MPI_Mprobe((me + n - 1) % n, i, WORLD, &message, &status);
        MPI_Get_count(&status, MPI_CHAR, &bytes);
        MPI_Mrecv(to, bytes, MPI_CHAR, &message, &status);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
        if (bytes != 100 * i)
            printf("rank %d: %d bytes of %d\n", me, bytes, 100 * i);
        MPI_Irecv(to, 1, MPI_INT, (me + 1) % n, 99, WORLD, &came);
        MPI_Send(&i, 1, MPI_INT, (me + n - 1) % n, 99, WORLD);
        for (; !flag; tests++)
            MPI_Test(&came, &flag, MPI_STATUS_IGNORE);
        MPI_Send(&i, 1, MPI_INT, (me + 1) % n, 100, WORLD);
        for (flag = 0; !flag;)
            MPI_Iprobe(MPI_ANY_SOURCE, 100, WORLD, &flag, &status);
        MPI_Recv(to, 1, MPI_INT, status.MPI_SOURCE, 100, WORLD, MPI_STATUS_IGNORE);
        if (me == 0)
            printf("%d tests\n", tests);
    }
    MPI_Barrier(WORLD);
    printf("rank %d has asked\n", me);
}

static long calendar(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec;
}

static volatile int over;

static void *sleeps(void *p) {
    while (!over)
        usleep(100);
    return p;
}

static void *exchanges(void *p) {
    long before = calendar(), tag = (long)p;
    char b[8] = {0};
    for (int i = 0; i < 50; i++) {
        MPI_Sendrecv_replace(b, 8, MPI_BYTE, !me, tag, !me, tag, WORLD, MPI_STATUS_IGNORE);
        long now = calendar();
        if (now < before || now > before + 1)
            printf("rank %d: the calendar jumps from %ld to %ld\n", me, before, now);
        before = now;
    }
    return 0;
}

static void threads(void) {
    pthread_t all[4], fifth;
    pthread_create(&fifth, 0, sleeps, 0);
    for (long i = 0; i < 4; i++)
        pthread_create(&all[i], 0, exchanges, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], 0);
    over = 1;
    pthread_join(fifth, 0);
    printf("rank %d has joined\n", me);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    int level, x = 0;
    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(WORLD, &me);
    MPI_Comm_size(WORLD, &n);
    if (!strcmp(what, "trips"))
        trips(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 1);
    else if (!strcmp(what, "all"))
        all();
    else if (!strcmp(what, "asks"))
        asks();
    else if (!strcmp(what, "threads"))
        threads();
    else if (!strcmp(what, "dead"))
        MPI_Recv(&x, 1, MPI_INT, (me + 1) % n, 5, WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return x;
}

/* Threads of a rank that call MPI at once. Every line names a rank, a thread and a time, so two runs can be compared.
 *
 * threads exchange K R: K threads of each rank exchange R messages with the same threads of the next rank, send to their own
 *                       rank and sleep in between.
 * threads own:          one thread waits for what another one of its rank sends 3 ms later; none needs the network.
 * threads poll:         one thread tests for what another one of its rank sends 3 ms later.
 * threads computes:     one thread computes without a call while another one waits for a message.
 * threads spins:        one thread waits for the other in a loop without calls, until a message has come.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 16, LINES = 65536 };
static int me, ranks, threads, rounds;
static char lines[MOST][LINES];
static int length[MOST];
static volatile int has_come;

static void say(long thread, const char *what, int i) {
    long ns = (long)(MPI_Wtime() * 1e9 + 0.5);
    length[thread] += snprintf(lines[thread] + length[thread], LINES - length[thread], "%d.%ld %s %d at %ld\n", me, thread, what, i, ns);
}

static void *exchange(void *arg) {
    long k = (long)arg;
    char from[4096] = "", to[4096];
    for (int i = 0; i < rounds; i++) {
        int bytes = 8 + (i * 37 + (int)k * 101) % 2000;
        MPI_Request requests[2];
        MPI_Irecv(to, sizeof to, MPI_BYTE, (me + ranks - 1) % ranks, (int)k, MPI_COMM_WORLD, requests);
        MPI_Isend(from, bytes, MPI_BYTE, (me + 1) % ranks, (int)k, MPI_COMM_WORLD, requests + 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (i % 5 == k % 5) {
            MPI_Send(from, 4, MPI_BYTE, me, 100 + (int)k, MPI_COMM_WORLD);
            MPI_Recv(to, 4, MPI_BYTE, me, 100 + (int)k, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (i % 10 == 3)
            usleep(1 + (useconds_t)k);
        say(k, "round", i);
    }
    return NULL;
}

static void *own(void *arg) {
    long k = (long)arg;
    int value = 7;
    if (k == 0) {
        MPI_Recv(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say(k, "has", value);
    } else {
        usleep(3000);
        MPI_Send(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD);
        say(k, "has sent", value);
    }
    return NULL;
}

static void *poll(void *arg) {
    long k = (long)arg;
    if (k != 0)
        return own(arg);
    int value = 0, done = 0;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, me, 1, MPI_COMM_WORLD, &request);
    while (!done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    say(k, "has", value);
    return NULL;
}

static void *computes(void *arg) {
    long k = (long)arg;
    int value = 5;
    if (k == 0) {
        MPI_Recv(&value, 1, MPI_INT, (me + 1) % ranks, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say(k, "has", value);
    } else {
        for (volatile long i = 0; i < 100000000; i++) {
        }
        MPI_Send(&value, 1, MPI_INT, (me + 1) % ranks, 2, MPI_COMM_WORLD);
        say(k, "has sent", value);
    }
    return NULL;
}

static void *spins(void *arg) {
    long k = (long)arg;
    int value = 5;
    if (k == 0) {
        MPI_Sendrecv_replace(&value, 1, MPI_INT, (me + 1) % ranks, 2, (me + ranks - 1) % ranks, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        say(k, "has", value);
        has_come = 1;
    } else {
        while (!has_come) {
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    void *(*work)(void *) = !strcmp(argv[1], "exchange") ? exchange
                            : !strcmp(argv[1], "own")    ? own
                            : !strcmp(argv[1], "poll")   ? poll
                            : !strcmp(argv[1], "spins")  ? spins
                                                         : computes;
    threads = argc > 2 ? atoi(argv[2]) : 2;
    rounds = argc > 3 ? atoi(argv[3]) : 0;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE)
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    pthread_t all[MOST];
    for (long i = 0; i < threads; i++)
        pthread_create(all + i, NULL, work, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    for (int rank = 0; rank < ranks; rank++) {
        for (int k = 0; k < threads && rank == me; k++)
            fputs(lines[k], stdout);
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}

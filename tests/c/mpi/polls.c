/* Programs that wait by looking again and again, by the first argument; the second is how long, in microseconds.
 *   clock: rank 0 reads MPI_Wtime until it has passed
 *   libc: the same by clock_gettime
 *   test: rank 1 sleeps so long, then sends, and rank 0 tests for that
 *   probe: the same by MPI_Iprobe
 *   sync: rank 1 puts a word then, and rank 0 looks at it between calls of MPI_Win_sync
 * Rank 0 says how often it has looked, and how long that took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int me, flag = 0, got = 0, one = 1, *word;
    long looks = 0;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    const char *what = argv[1];
    int us = atoi(argv[2]);
    MPI_Win_allocate(sizeof *word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    *word = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    if (me == 1) {
        usleep(us);
        if (!strcmp(what, "test") || !strcmp(what, "probe"))
            MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        if (!strcmp(what, "sync"))
            MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    } else if (me == 0 && !strcmp(what, "clock")) {
        for (; MPI_Wtime() < begin + us * 1e-6; looks++)
            ;
    } else if (me == 0 && !strcmp(what, "libc")) {
        for (double until = now() + us * 1e-6; now() < until; looks++)
            ;
    } else if (me == 0 && !strcmp(what, "test")) {
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        for (; !flag; looks++)
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    } else if (me == 0 && !strcmp(what, "probe")) {
        for (; !flag; looks++)
            MPI_Iprobe(1, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        MPI_Recv(&got, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (me == 0) {
        for (; !*(volatile int *)word; looks++)
            MPI_Win_sync(win);
    }
    if (me == 0)
        printf("%ld looks, %.3f us\n", looks, (MPI_Wtime() - begin) * 1e6);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
    return 0;
}

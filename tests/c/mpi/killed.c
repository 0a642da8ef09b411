/* Ranks talk in changing pairs until one of them is killed at a random moment; each of the others has to get an error then.
 * Arguments: a seed, and the rank that is killed. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST = 300000 };
static char out[MOST], in[MOST];

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void dies(int number)
{
    (void)number;
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    uint64_t shared = argc > 1 ? strtoull(argv[1], 0, 0) : 1, own = ~shared;
    int victim = argc > 2 ? atoi(argv[2]) : 0, rank, ranks, error = MPI_SUCCESS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim) {
        struct itimerval when = {{0, 0}, {0, 1 + draw(&own) % 200000}};
        signal(SIGALRM, dies);
        setitimer(ITIMER_REAL, &when, 0);
    }
    double longest = 0;
    while (error == MPI_SUCCESS) {
        int shift = 1 + draw(&shared) % (ranks - 1), kind = draw(&shared) % 4;
        int size = draw(&shared) % (draw(&shared) % 3 ? 500 : MOST);
        int right = (rank + shift) % ranks, left = (rank + ranks - shift) % ranks;
        double begin = MPI_Wtime();
        MPI_Request both[2];
        MPI_Irecv(in, size, MPI_CHAR, left, kind, MPI_COMM_WORLD, &both[0]);
        error = kind ? MPI_Isend(out, size, MPI_CHAR, right, kind, MPI_COMM_WORLD, &both[1])
                     : MPI_Issend(out, size, MPI_CHAR, right, kind, MPI_COMM_WORLD, &both[1]);
        if (error == MPI_SUCCESS)
            error = MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        longest = MPI_Wtime() - begin;
    }
    printf("rank %d got an error in a call of %.3f s\n", rank, longest);
    fflush(stdout);
    _exit(0);
}

/* Ranks that wait for ever, each in the way that the argument names. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    static char large[1 << 20];
    static int there[4];
    const char *how = argc > 1 ? argv[1] : "receive";
    int rank, x = 0;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(there, sizeof there, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0 && !strcmp(how, "receive"))
        MPI_Recv(&x, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1 && !strcmp(how, "receive"))
        MPI_Send(&x, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    if (rank == 0 && !strcmp(how, "any"))
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0 && !strcmp(how, "send"))
        MPI_Send(large, sizeof large, MPI_CHAR, 1, 9, MPI_COMM_WORLD);
    if (!strcmp(how, "get")) {
        MPI_Win_lock_all(0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            MPI_Get(&x, 1, MPI_INT, 1, 0, 1, MPI_INT, window);
            MPI_Win_flush(1, window);
        }
        /* What the one gets needs nothing of the other: it waits for a message. */
        while (rank == 1)
            ;
    }
    for (;;)
        MPI_Recv(&x, 1, MPI_INT, !rank, 70 + rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

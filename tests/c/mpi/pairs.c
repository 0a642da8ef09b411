/* Rank 0 sends messages of so many KiB to rank 1, and nothing else. Rank 1 says how long all but the first one took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, bytes = 1024 * atoi(argv[1]), messages = atoi(argv[2]);
    char *data = malloc(bytes);
    double begin = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < messages; i++) {
        memset(data, rank ? 0 : i + 1, bytes);
        if (rank == 0)
            MPI_Send(data, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(data, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (data[0] != (char)(i + 1) || data[bytes - 1] != (char)(i + 1))
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (i == 0)
            begin = MPI_Wtime();
    }
    if (rank == 1)
        printf("%.9f s\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}

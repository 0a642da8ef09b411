/* Two ranks that both send so many bytes before either receives, again and again: what fits into a mailbox needs no receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, len = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char *out = malloc(len), *in = malloc(len);
    for (int i = 0; i < 100; i++) {
        memset(out, 2 * i + rank, len);
        MPI_Send(out, len, MPI_BYTE, !rank, i, MPI_COMM_WORLD);
        memset(out, 0, len);
        MPI_Recv(in, len, MPI_BYTE, !rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memset(out, 2 * i + !rank, len);
        if (memcmp(in, out, len)) {
            printf("rank %d: message %d is wrong\n", rank, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    printf("rank %d has sent and received\n", rank);
    MPI_Finalize();
    return 0;
}

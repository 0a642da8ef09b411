// Calls for a timeline: a late sender, a late receiver, and a communicator in which ranks are not PEs. Three ranks.
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int me, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *large = calloc(1, 1 << 20);
    if (me == 0) {
        usleep(20000); // a late sender
        MPI_Send(large, 8, MPI_CHAR, 1, 5, MPI_COMM_WORLD);
        MPI_Send(large, 1 << 20, MPI_CHAR, 1, 6, MPI_COMM_WORLD);
    } else if (me == 1) {
        MPI_Recv(large, 100, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(30000); // a late receiver
        MPI_Recv(large, 1 << 20, MPI_CHAR, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Comm turned;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &turned);
    MPI_Request requests[2];
    int out[2] = {me, me}, in[2];
    MPI_Isend(out, 2, MPI_INT, (size - me) % size, 7, turned, &requests[0]);
    MPI_Irecv(in, 2, MPI_INT, (2 * size - 2 - me) % size, 7, turned, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&turned);
    MPI_Allreduce(MPI_IN_PLACE, in, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(large);
    MPI_Finalize();
    return 0;
}

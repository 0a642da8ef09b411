/* Each rank sends its number to the next rank. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int me, ranks, from;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (me + 1) % ranks, last = (me + ranks - 1) % ranks;
    MPI_Sendrecv(&me, 1, MPI_INT, next, 0, &from, 1, MPI_INT, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d of %d has heard from rank %d\n", me, ranks, from);
    MPI_Finalize();
    return from != last;
}

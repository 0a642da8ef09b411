/* Sessions of MPI 4.0 without MPI_Init, partitioned messages, and a session beside a world.
 *   sessions alone: two sessions, one behind the other; each rank says what a round trip took
 *   sessions beside: a session within MPI_Init and MPI_Finalize
 *   sessions parts: rank 0 sends a message in four parts, one every 100 us, and rank 1 asks for each part. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void session(int number)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int me, n, sum = 0, word = 0;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "tests", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Barrier(comm);
    double before = MPI_Wtime();
    for (int way = 0; way < 2; way++)
        if (me < 2) {
            if (me == way)
                MPI_Send(&word, 1, MPI_INT, 1 - me, 0, comm);
            else
                MPI_Recv(&word, 1, MPI_INT, 1 - me, 0, comm, MPI_STATUS_IGNORE);
        }
    printf("session %d: rank %d of %d, sum %d, %.0f ns\n", number, me, n, sum, (MPI_Wtime() - before) * 1e9);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

static void parts(void)
{
    enum { PARTS = 4, EACH = 1000 };
    static char memory[PARTS * EACH];
    int me, flag, looks = 0;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) {
        MPI_Psend_init(memory, PARTS, EACH, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int i = 0; i < PARTS; i++) {
            usleep(100);
            MPI_Pready(i, request);
        }
    } else if (me == 1) {
        MPI_Precv_init(memory, PARTS, EACH, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int i = 0; i < PARTS; i++)
            for (flag = 0; !flag; looks++)
                MPI_Parrived(request, i, &flag);
        printf("%d looks, at %.0f us\n", looks, MPI_Wtime() * 1e6);
    }
    if (me < 2) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
}

int main(int argc, char **argv)
{
    if (strcmp(argv[1], "alone") == 0) {
        session(1);
        session(2);
        return 0;
    }
    MPI_Init(&argc, &argv);
    if (strcmp(argv[1], "beside") == 0)
        session(1);
    else
        parts();
    MPI_Finalize();
    return 0;
}

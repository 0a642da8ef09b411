/* A ring, a reduction and one-sided operations, or, by the argument, one of the ways in which an MPI program can end. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void exchange(void)
{
    enum { N = 50000 };
    static double mine[N], sum[N];
    int got = -1, expected = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 7, &got, 1, MPI_INT, expected, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < N; i++)
        mine[i] = rank + i;
    MPI_Allreduce(mine, sum, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        if (got != expected || sum[i] != ranks * (ranks - 1) / 2 + (double)ranks * i) {
            printf("rank %d: wrong: %d, %g at %d\n", rank, got, sum[i], i);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
}

/* Every rank writes to the next one, reads from the one before, and counts on rank 0. */
static void one_sided(void)
{
    enum { N = 20000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, wrong = 0;
    long one = 1, old = -1;
    static int there[N + 2], mine[N], got[N];
    MPI_Win window;
    MPI_Win_create(there, sizeof there, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < N; i++)
        mine[i] = rank * N + i;
    MPI_Win_fence(0, window);
    MPI_Put(mine, N, MPI_INT, right, 2, N, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Get(got, N, MPI_INT, right, 2, N, MPI_INT, window);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < N; i++)
        wrong |= there[2 + i] != left * N + i || got[i] != rank * N + i;
    memcpy(&one, there, sizeof one);
    if (wrong || old < 0 || old >= ranks || (rank == 0 && one != ranks)) {
        printf("rank %d: one-sided operations are wrong: %d %ld %ld\n", rank, wrong, old, one);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Win_free(&window);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "ends";
    char *pe;
    int local;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    exchange();
    one_sided();
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &local);
    pe = getenv("ANGARA_PE");
    printf("rank %d of %d is PE %s, %d on its node\n", rank, ranks, pe ? pe : "-", local);
    fflush(stdout);
    if (!strcmp(how, "ends")) {
        MPI_Finalize();
        return 0;
    }
    if (rank == 1) {
        if (!strcmp(how, "aborts"))
            MPI_Abort(MPI_COMM_WORLD, 7);
        if (!strcmp(how, "fails"))
            exit(9);
        if (!strcmp(how, "leaves"))
            _exit(0);
        if (!strcmp(how, "dies"))
            raise(SIGKILL);
    }
    for (;;)
        pause();
}

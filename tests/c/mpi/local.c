/* What a rank does by itself takes no time, and what others send meanwhile is none of its business.
 *   local window ROUNDS MICROSECONDS: rank 0 locks and unlocks its own window; rank 1, if there is one, sleeps, then sends.
 *   local burst COUNT: rank 0 sends so many short messages in a row, which rank 1 receives.
 *   local late BYTES: rank 0 sends so many bytes, and says how long that took; rank 1 sleeps before it receives them.
 *   local self COUNT: rank 0 adds so often a MiB to its own window, which takes the library more looks than it is known to need.
 *   local file PATH: all write a file of the working directory together, for which the library calls itself.
 *   local leak: nobody frees a window. local free: rank 1 sleeps before it frees one. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int me, ranks;

static void file(const char *path)
{
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, 4 * me, &me, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    printf("%d: %.0f ns\n", me, MPI_Wtime() * 1e9);
}

static void window(int rounds, int sleeps)
{
    int *word, token = 0;
    MPI_Win win;
    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
    MPI_Barrier(MPI_COMM_WORLD);
    double before = MPI_Wtime();
    for (int i = 0; me == 0 && i < rounds; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        *word = i;
        MPI_Win_unlock(0, win);
    }
    if (me == 0)
        printf("%.3f us\n", (MPI_Wtime() - before) * 1e6);
    if (me == 1) {
        usleep(sleeps);
        MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (ranks > 1) {
        MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Win_free(&win);
}

static void burst(int count)
{
    int got = 0;
    for (int i = 0; i < count; i++) {
        if (me == 0)
            MPI_Send(&i, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (me == 1 && got != i)
            MPI_Abort(MPI_COMM_WORLD, 3);
    }
    if (me == 1)
        printf("%.3f us\n", (MPI_Wtime() - 1.0) * 1e6);
}

static void self(int count)
{
    enum { INTS = 1 << 18 };
    int *memory, *ones = malloc(INTS * sizeof *ones);
    MPI_Win win;
    for (int i = 0; i < INTS; i++)
        ones[i] = 1;
    MPI_Win_allocate(INTS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    memset(memory, 0, INTS * sizeof *memory);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        for (int i = 0; i < count; i++)
            MPI_Accumulate(ones, INTS, MPI_INT, 0, 0, INTS, MPI_INT, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        printf("%d\n", memory[INTS - 1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    free(ones);
}

static void late(int bytes)
{
    char *memory = calloc(1, bytes + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) {
        double before = MPI_Wtime();
        MPI_Send(memory, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        printf("%.3f us\n", (MPI_Wtime() - before) * 1e6);
    } else if (me == 1) {
        usleep(200000);
        MPI_Recv(memory, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(memory);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(argv[1], "leak") == 0 || strcmp(argv[1], "free") == 0) {
        MPI_Win win;
        int *word;
        MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win);
        if (me == 1)
            usleep(100000);
        if (strcmp(argv[1], "free") == 0)
            MPI_Win_free(&win);
    } else if (strcmp(argv[1], "window") == 0)
        window(atoi(argv[2]), atoi(argv[3]));
    else if (strcmp(argv[1], "file") == 0)
        file(argv[2]);
    else if (strcmp(argv[1], "self") == 0)
        self(atoi(argv[2]));
    else if (strcmp(argv[1], "late") == 0)
        late(atoi(argv[2]));
    else
        burst(atoi(argv[2]));
    MPI_Finalize();
    return 0;
}

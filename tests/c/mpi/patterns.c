// Patterns of messages, and what one step of each takes: patterns PATTERN BYTES STEPS. Prints microseconds of a step, and the
// gigabytes per second that the busiest rank gets.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 16 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int me, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4) {
        if (me == 0) fprintf(stderr, "usage: patterns stream|incast|shift|halo|pingpong|alltoall|barrier|allreduce BYTES STEPS\n");
        MPI_Finalize();
        return 2;
    }
    const char *pattern = argv[1];
    int bytes = atoi(argv[2]), steps = atoi(argv[3]), most = size > WINDOW ? size : WINDOW;
    char *out = calloc(most, bytes + 1), *in = calloc(most, bytes + 1);
    MPI_Request *requests = malloc(most * sizeof *requests);
    double got = 0; // bytes of a step that the busiest rank gets
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        if (!strcmp(pattern, "stream")) { // rank 0 to rank 1, so many at a time
            for (int i = 0; i < WINDOW && me < 2; i++) {
                if (me == 0)
                    MPI_Isend(out, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[i]);
                else
                    MPI_Irecv(in + (size_t)i * bytes, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &requests[i]);
            }
            if (me < 2) MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            got = (double)WINDOW * bytes;
        } else if (!strcmp(pattern, "incast")) { // all others to rank 0
            if (me == 0) {
                for (int i = 1; i < size; i++)
                    MPI_Irecv(in + (size_t)i * bytes, bytes, MPI_CHAR, i, 0, MPI_COMM_WORLD, &requests[i - 1]);
                MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
            } else {
                MPI_Send(out, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
            }
            got = (size - 1.0) * bytes;
        } else if (!strcmp(pattern, "shift")) { // each to the next one
            MPI_Sendrecv(out, bytes, MPI_CHAR, (me + 1) % size, 0, in, bytes, MPI_CHAR, (me + size - 1) % size, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            got = bytes;
        } else if (!strcmp(pattern, "halo")) { // each with both neighbours in a ring
            int before = (me + size - 1) % size, after = (me + 1) % size;
            MPI_Irecv(in, bytes, MPI_CHAR, before, 0, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(in + bytes, bytes, MPI_CHAR, after, 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(out, bytes, MPI_CHAR, after, 0, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(out + bytes, bytes, MPI_CHAR, before, 1, MPI_COMM_WORLD, &requests[3]);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            got = 2.0 * bytes;
        } else if (!strcmp(pattern, "pingpong")) { // in pairs, there and back
            int other = me ^ 1;
            if (other < size && me < other) {
                MPI_Send(out, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
                MPI_Recv(in, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (other < size) {
                MPI_Recv(in, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(out, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
            }
            got = bytes;
        } else if (!strcmp(pattern, "alltoall")) {
            MPI_Alltoall(out, bytes, MPI_CHAR, in, bytes, MPI_CHAR, MPI_COMM_WORLD);
            got = (size - 1.0) * bytes;
        } else if (!strcmp(pattern, "barrier")) {
            MPI_Barrier(MPI_COMM_WORLD);
        } else if (!strcmp(pattern, "allreduce")) {
            MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else {
            if (me == 0) fprintf(stderr, "patterns: there is no pattern %s\n", pattern);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    double mine = MPI_Wtime() - start, longest;
    MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (me == 0) printf("%.3f us %.3f GB/s\n", longest / steps * 1e6, got * steps / longest / 1e9);
    free(out), free(in), free(requests);
    MPI_Finalize();
    return 0;
}

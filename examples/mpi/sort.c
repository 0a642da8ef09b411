/* Sorting by samples, with MPI. Each rank sorts its keys and shows some of them, from which all choose the same
 * borders; keys go to the rank between whose borders they lie, and are merged there. At the end the ranks check that
 * keys ascend, within ranks and from rank to rank, and that none was lost or made.
 *
 *     mpicc -O2 sort.c -o sort && angara run -n 4 ./sort [KEYS_PER_RANK]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SAMPLES 32 /* of each rank */

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        fprintf(stderr, "sort: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void sort(uint64_t *keys, size_t count)
{
    qsort(keys, count, sizeof *keys, ascending);
}

/* Random keys, different on each rank. Half of them lie in a 256th of the range: dealing out by value alone would give
 * one rank half of all. */
static void fill(uint64_t *keys, int count, int rank)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);
    for (int i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys[i] = i % 2 ? state : state >> 8;
    }
}

/* Borders between the ranks' parts, the same everywhere: keys from border r on go beyond rank r. */
static void choose_borders(uint64_t *borders, const uint64_t *keys, int count, int ranks)
{
    uint64_t mine[SAMPLES], *all = allocate((size_t)ranks * SAMPLES, sizeof *all);
    for (int i = 0; i < SAMPLES; i++)
        mine[i] = keys[(int64_t)i * count / SAMPLES];
    MPI_Allgather(mine, SAMPLES, MPI_UINT64_T, all, SAMPLES, MPI_UINT64_T, MPI_COMM_WORLD);
    sort(all, (size_t)ranks * SAMPLES);
    for (int r = 0; r + 1 < ranks; r++)
        borders[r] = all[(r + 1) * SAMPLES];
    free(all);
}

/* Sends every key where it belongs. Returns what has come, sorted, and its number. */
static uint64_t *exchange(const uint64_t *keys, int count, const uint64_t *borders, int ranks, int *received)
{
    int *out = allocate(4 * (size_t)ranks, sizeof *out), *out_at = out + ranks, *in = out + 2 * ranks,
        *in_at = out + 3 * ranks;
    for (int i = 0, r = 0; i < count; i++) {
        while (r + 1 < ranks && keys[i] >= borders[r])
            r++;
        out[r]++;
    }
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 1; r < ranks; r++) {
        out_at[r] = out_at[r - 1] + out[r - 1];
        in_at[r] = in_at[r - 1] + in[r - 1];
    }
    *received = in_at[ranks - 1] + in[ranks - 1];
    uint64_t *sorted = allocate(*received, sizeof *sorted);
    MPI_Alltoallv(keys, out, out_at, MPI_UINT64_T, sorted, in, in_at, MPI_UINT64_T, MPI_COMM_WORLD);
    sort(sorted, *received);
    free(out);
    return sorted;
}

/* A key that goes right, from each rank to the next: the greatest so far. Returns 0 if keys ascend here. */
static int check_order(const uint64_t *keys, int count, int rank, int ranks)
{
    uint64_t before = 0;
    int wrong = 0;
    if (rank > 0)
        MPI_Recv(&before, 1, MPI_UINT64_T, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) {
        wrong |= keys[i] < before;
        before = keys[i];
    }
    if (rank + 1 < ranks)
        MPI_Send(&before, 1, MPI_UINT64_T, rank + 1, 0, MPI_COMM_WORLD);
    return wrong;
}

/* The sum of all keys and of their squares, modulo 2^64. */
static void add_up(uint64_t sums[2], const uint64_t *keys, int count)
{
    sums[0] = sums[1] = 0;
    for (int i = 0; i < count; i++) {
        sums[0] += keys[i];
        sums[1] += keys[i] * keys[i];
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, count = argc > 1 ? atoi(argv[1]) : 100000;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (count < SAMPLES) {
        if (rank == 0)
            fprintf(stderr, "usage: sort [KEYS_PER_RANK], at least %d\n", SAMPLES);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    uint64_t *keys = allocate(count, sizeof *keys), *borders = allocate(ranks, sizeof *borders);
    fill(keys, count, rank);
    double start = MPI_Wtime();
    sort(keys, count);
    choose_borders(borders, keys, count, ranks);
    int received;
    uint64_t *sorted = exchange(keys, count, borders, ranks, &received);
    double took = MPI_Wtime() - start;

    uint64_t sums[4], all[4];
    add_up(sums, keys, count);
    add_up(sums + 2, sorted, received);
    MPI_Allreduce(sums, all, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    int64_t mine = received, total, most;
    MPI_Allreduce(&mine, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    int wrong = check_order(sorted, received, rank, ranks), any;
    MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    any |= total != (int64_t)count * ranks || all[0] != all[2] || all[1] != all[3];
    if (rank == 0)
        printf("sort: %lld keys on %d ranks %s, at most %lld on one, %.3f s\n", (long long)total, ranks,
               any ? "are NOT sorted" : "sorted", (long long)most, took);
    free(keys);
    free(borders);
    free(sorted);
    MPI_Finalize();
    return any;
}

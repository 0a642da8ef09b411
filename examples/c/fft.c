/* Fourier transform of a square of complex numbers: each PE has some rows, transforms them, all PEs transpose the
 * square, and transform what were columns. Back again the same way; what comes out must be what went in.
 *
 *     oshcc -O2 fft.c -o fft -lm && angara run -n 8 ./fft [SIDE]
 *
 * SIDE is a power of two and a multiple of the number of PEs (256 unless given).
 */
#include <complex.h>
#include <math.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef double complex cell;

static int me, n, side, rows;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One row in place; `sign` is -1 there and 1 back. */
static void transform(cell *row, int sign)
{
    for (int i = 1, j = 0; i < side; i++) { /* the order of bits reversed */
        int bit = side >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            cell swap = row[i];
            row[i] = row[j];
            row[j] = swap;
        }
    }
    for (int half = 1; half < side; half *= 2) {
        cell step = cexp(sign * I * M_PI / half);
        for (int start = 0; start < side; start += 2 * half) {
            cell turn = 1;
            for (int i = start; i < start + half; i++, turn *= step) {
                cell odd = turn * row[i + half];
                row[i + half] = row[i] - odd;
                row[i] += odd;
            }
        }
    }
}

/* Rows become columns: the block for each PE is packed, exchanged, and turned around where it arrives. */
static void transpose(cell *square, cell *out, cell *in)
{
    for (int pe = 0; pe < n; pe++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < rows; c++)
                out[(pe * rows + r) * rows + c] = square[r * side + pe * rows + c];
    shmem_barrier_all(); /* nobody reads the last blocks any more */
    shmem_alltoallmem(SHMEM_TEAM_WORLD, in, out, (size_t)rows * rows * sizeof *in);
    for (int pe = 0; pe < n; pe++)
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < rows; c++)
                square[c * side + pe * rows + r] = in[(pe * rows + r) * rows + c];
}

static void both_ways(cell *square, cell *out, cell *in, int sign)
{
    for (int way = 0; way < 2; way++) {
        for (int r = 0; r < rows; r++)
            transform(square + r * side, sign);
        transpose(square, out, in);
    }
}

static cell begin_with(int row, int column)
{
    return sin(0.3 * row) + 0.01 * column + I * cos(0.1 * (row - column));
}

int main(int argc, char **argv)
{
    shmem_init();
    me = shmem_my_pe(), n = shmem_n_pes();
    side = argc > 1 ? atoi(argv[1]) : 256;
    rows = side / n;
    if (side < 2 || side > 1 << 15 || (side & (side - 1)) || rows * n != side) {
        if (me == 0)
            fprintf(stderr, "SIDE must be a power of two and a multiple of the %d PEs, not %d\n", n, side);
        shmem_global_exit(2);
    }
    size_t cells = (size_t)rows * side;
    cell *out = shmem_malloc(cells * sizeof *out), *in = shmem_malloc(cells * sizeof *in);
    cell *square = malloc(cells * sizeof *square);
    if (!out || !in || !square) {
        fprintf(stderr, "PE %d: no memory for %zu cells\n", me, cells);
        shmem_global_exit(1);
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < side; c++)
            square[r * side + c] = begin_with(me * rows + r, c);

    shmem_barrier_all();
    double begin = seconds();
    both_ways(square, out, in, -1);
    both_ways(square, out, in, 1);
    shmem_barrier_all();
    double took = seconds() - begin;

    double off = 0; /* farthest from where it began; there and back multiplies by side * side */
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < side; c++)
            off = fmax(off, cabs(square[r * side + c] / ((double)side * side) - begin_with(me * rows + r, c)));
    if (off > 1e-9) {
        fprintf(stderr, "PE %d: off by %g\n", me, off);
        shmem_global_exit(1);
    }
    shmem_barrier_all(); /* all are right */
    if (me == 0)
        printf("fft: %d x %d there and back on %d PEs in %.6f s, as it was\n", side, side, n, took);
    shmem_finalize();
    return 0;
}

/* Heat in a square plate, Jacobi iteration. The rows are dealt out to the PEs; in each step a PE
 * puts its outermost rows into its neighbours' halo rows, and the largest change over all PEs (an
 * all-reduce) says when to stop. At the end every PE repeats the computation of its rows alone and
 * compares.
 *
 *     oshcc -O2 heat2d.c -o heat2d -lm && angara run -n 8 ./heat2d [SIZE [STEPS]]
 */
#include <math.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-4

/* Row r of the plate: 100 degrees along the left edge, 50 along the top, 0 elsewhere. */
static void initial(double *row, int r, int size)
{
    for (int c = 0; c < size; c++)
        row[c] = c == 0 ? 100 : r == 0 ? 50 : 0;
}

/* One step for rows first..last of `old`; row i of the arrays is row i of the caller's part.
 * Returns the largest change. */
static double step(double *new, const double *old, int first, int last, int size)
{
    double change = 0;
    for (int i = first; i <= last; i++) {
        const double *up = old + (size_t)(i - 1) * size, *at = up + size, *down = at + size;
        double *out = new + (size_t)i * size;
        out[0] = at[0];
        out[size - 1] = at[size - 1];
        for (int c = 1; c < size - 1; c++) {
            out[c] = 0.25 * (up[c] + down[c] + at[c - 1] + at[c + 1]);
            change = fmax(change, fabs(out[c] - at[c]));
        }
    }
    return change;
}

/* First row of PE `pe`: the inner rows 1..size-2 as evenly as possible. */
static int first_row(int pe, int n, int size)
{
    return 1 + (int)((long)(size - 2) * pe / n);
}

static double change, change_all; /* symmetric, as the all-reduce demands */

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    int size = argc > 1 ? atoi(argv[1]) : 128, steps = argc > 2 ? atoi(argv[2]) : 100;
    if (size < n + 2 || steps < 1) {
        if (me == 0)
            fprintf(stderr, "usage: heat2d [SIZE [STEPS]], SIZE at least the number of PEs + 2\n");
        shmem_global_exit(2);
    }

    int first = first_row(me, n, size), rows = first_row(me + 1, n, size) - first;
    int most = (size - 2 + n - 1) / n + 2; /* rows of the largest part, halo included */
    size_t bytes = (size_t)size * sizeof(double);
    double *old = shmem_malloc(most * bytes), *new = shmem_malloc(most * bytes);
    if (!old || !new) {
        fprintf(stderr, "PE %d: %zu bytes do not fit into the symmetric heap; use --heap\n", me, 2 * most * bytes);
        shmem_global_exit(1);
    }
    for (int i = 0; i < rows + 2; i++)
        initial(old + (size_t)i * size, first - 1 + i, size);
    memcpy(new, old, (rows + 2) * bytes);
    shmem_barrier_all();

    int above = first_row(me, n, size) - (me ? first_row(me - 1, n, size) : 0); /* rows of PE me - 1 */
    int done;
    for (done = 0; done < steps; done++) {
        if (me > 0)
            shmem_double_put(old + (size_t)(above + 1) * size, old + size, size, me - 1);
        if (me < n - 1)
            shmem_double_put(old, old + (size_t)rows * size, size, me + 1);
        shmem_barrier_all();
        change = step(new, old, 1, rows, size);
        shmem_double_max_reduce(SHMEM_TEAM_WORLD, &change_all, &change, 1);
        if (change_all < EPSILON)
            break;
        double *swap = old;
        old = new;
        new = swap;
        shmem_barrier_all(); /* nobody puts into a row that is still being read */
    }

    /* The same alone: in a step a row depends on its neighbours, so rows further away than the number of steps do not
     * matter. */
    int from = first - 1 > done ? first - 1 - done : 0, to = size - first - rows > done ? first + rows + done : size - 1;
    size_t nearby = to - from + 1;
    double *a = malloc(nearby * bytes), *b = malloc(nearby * bytes);
    for (size_t i = 0; i < nearby; i++)
        initial(a + i * size, from + (int)i, size);
    memcpy(b, a, nearby * bytes);
    for (int i = 0; i < done; i++) {
        step(b, a, 1, to - from - 1, size);
        double *swap = a;
        a = b;
        b = swap;
    }
    int wrong = memcmp(old + size, a + (size_t)(first - from) * size, rows * bytes) != 0;
    if (wrong)
        fprintf(stderr, "PE %d: rows %d to %d differ from the serial result\n", me, first, first + rows - 1);
    if (me == 0)
        printf("heat2d: %d x %d on %d PEs, %d steps, last change %.6f, centre of PE 0's part %.6f\n", size, size, n,
               done, change_all, old[(size_t)(rows / 2 + 1) * size + size / 4]);
    free(a);
    free(b);
    shmem_finalize();
    return wrong;
}

/* C = A x B. Each PE owns some rows of A, B and C; it fetches the other PEs' rows of B one after
 * the other, the next ones already on their way while it multiplies (non-blocking get).
 *
 *     oshcc -O2 matmul.c -o matmul && angara run -n 8 ./matmul [SIZE]
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int first_row(int pe, int n, int size)
{
    return (int)((long)size * pe / n);
}

/* Small whole numbers: products and sums are exact in double. */
static double a_at(int i, int k)
{
    return (i * 3 + k * 5) % 17 - 8;
}
static double b_at(int k, int j)
{
    return (k * 7 + j * 2) % 13 - 6;
}

static long wrong, wrong_all;

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    int size = argc > 1 ? atoi(argv[1]) : 160;
    if (size < 1)
        shmem_global_exit(2);
    int first = first_row(me, n, size), rows = first_row(me + 1, n, size) - first;
    size_t most = (size_t)(size / n + 1) * size;
    double *b = shmem_malloc(most * sizeof *b);
    /* Two panels: one in use, one being filled. They are symmetric too, which lets the adapter
     * write into them directly. */
    double *panel[2] = {shmem_malloc(most * sizeof *b), shmem_malloc(most * sizeof *b)};
    double *a = malloc(most * sizeof *a), *c = calloc(most, sizeof *c);
    if (!b || !panel[0] || !panel[1] || !a || !c) {
        fprintf(stderr, "PE %d: no memory for %d x %d; use --heap\n", me, size, size);
        shmem_global_exit(1);
    }
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < size; k++) {
            a[(size_t)i * size + k] = a_at(first + i, k);
            b[(size_t)i * size + k] = b_at(first + i, k);
        }
    shmem_barrier_all();

    memcpy(panel[0], b, (size_t)rows * size * sizeof *b);
    for (int step = 0; step < n; step++) {
        int from = (me + step) % n, next = (from + 1) % n;
        int k0 = first_row(from, n, size), k1 = first_row(from + 1, n, size);
        const double *use = panel[step % 2];
        if (step + 1 < n) {
            size_t count = (size_t)(first_row(next + 1, n, size) - first_row(next, n, size)) * size;
            shmem_double_get_nbi(panel[(step + 1) % 2], b, count, next);
        }
        for (int i = 0; i < rows; i++)
            for (int k = k0; k < k1; k++)
                for (int j = 0; j < size; j++)
                    c[(size_t)i * size + j] += a[(size_t)i * size + k] * use[(size_t)(k - k0) * size + j];
        shmem_quiet();
    }

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < size; j++) {
            double want = 0;
            for (int k = 0; k < size; k++)
                want += a_at(first + i, k) * b_at(k, j);
            wrong += c[(size_t)i * size + j] != want;
        }
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &wrong_all, &wrong, 1);
    if (me == 0)
        printf("matmul: %d x %d on %d PEs, %ld wrong elements\n", size, size, n, wrong_all);
    shmem_finalize();
    return wrong_all != 0;
}

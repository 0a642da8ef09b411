/* Halo exchange on a ring: every PE passes a border to both neighbours, and all agree on a maximum.
 *
 *   oshcc halo.c -o halo
 *   angara run -n 8 --clock virtual ./halo 20 1000      # steps, doubles of a border
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    int steps = argc > 1 ? atoi(argv[1]) : 20, border = argc > 2 ? atoi(argv[2]) : 1000;
    if (steps < 1 || border < 1) {
        if (me == 0)
            fprintf(stderr, "usage: halo [STEPS [DOUBLES]], both at least 1\n");
        shmem_global_exit(2);
    }
    double *mine = shmem_calloc(border, sizeof(double));
    double *left = shmem_calloc(border, sizeof(double));
    double *right = shmem_calloc(border, sizeof(double));
    double *change = shmem_malloc(sizeof(double)), *most = shmem_malloc(sizeof(double));
    for (int i = 0; i < border; i++)
        mine[i] = me;
    for (int step = 0; step < steps; step++) {
        shmem_double_put(right, mine, border, (me + pes - 1) % pes);
        shmem_double_put(left, mine, border, (me + 1) % pes);
        shmem_barrier_all();
        double largest = 0;
        for (int i = 0; i < border; i++) {
            double next = (left[i] + mine[i] + right[i]) / 3, by = next > mine[i] ? next - mine[i] : mine[i] - next;
            largest = by > largest ? by : largest;
            mine[i] = next;
        }
        *change = largest;
        shmem_double_max_reduce(SHMEM_TEAM_WORLD, most, change, 1);
    }
    if (me == 0)
        printf("halo: %d PEs, %d steps, last change %.6f\n", pes, steps, *most);
    shmem_finalize();
    return 0;
}

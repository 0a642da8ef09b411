/* The first program: every PE says who and where it is, then checks that the others are there.
 *
 *     oshcc hello.c -o hello && angara run -n 8 ./hello
 */
#include <shmem.h>
#include <shmemx.h>
#include <stdio.h>

static long greetings; /* a global variable is symmetric: every PE can reach every other PE's copy */

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();

    int at[SHMEMX_DIMS_MAX], dims = shmemx_pe_coords(me, at);
    char node[64];
    for (int i = 0, used = 0; i < dims; i++)
        used += snprintf(node + used, sizeof node - used, i ? ",%d" : "%d", at[i]);
    printf("Hello from PE %d of %d at node %s, %d hops from PE 0\n", me, n, node, shmemx_pe_hops(0));

    for (int pe = 0; pe < n; pe++)
        shmem_long_atomic_add(&greetings, 1, pe);
    shmem_barrier_all();
    int ok = greetings == n;
    if (!ok)
        fprintf(stderr, "PE %d: %ld greetings instead of %d\n", me, greetings, n);
    shmem_finalize();
    return !ok;
}

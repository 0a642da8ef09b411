/* A profiling tool: its own shmem_long_put counts and calls pshmem_long_put. */
#include <pshmem.h>
#include <mpp/shmem.h>
#include <mpp/shmemx.h>
#include <mpp/pshmem.h>
#include "check.h"

static int calls;
static long box[3];

void shmem_long_put(long *dest, const long *source, size_t nelems, int pe)
{
    calls++;
    pshmem_long_put(dest, source, nelems, pe);
}

int main(void)
{
    start();
    long mine[3] = {me, me + 1, me + 2};
    shmem_long_put(box, mine, 3, (me + 1) % n);
    pshmem_barrier_all();
    shmem_pcontrol(1, "ignored", 2);
    CHECK(calls == 1 && box[2] == (me + n - 1) % n + 2);
    CHECK(pshmem_my_pe() == me && pshmem_long_g(&box[0], (me + 1) % n) == me);
    return finish("interpose");
}

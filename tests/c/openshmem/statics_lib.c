#include "statics_lib.h"
#include <shmem.h>

long library_data[3] = {1, 2, 3};
long library_bss[1000];
static long hidden = 9;

long *library_hidden(void)
{
    /* A call, so that the library depends on the OpenSHMEM library. */
    return shmem_n_pes() > 0 ? &hidden : 0;
}

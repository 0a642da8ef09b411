/* What profiling tools include: shmem.h declares the pshmem_ names and all they need. */
#include <shmem.h>

/* Extensions to OpenSHMEM: the torus under the job.
 *
 * Generated from the tables in shmem-shim/src/api; do not edit.
 */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for the coordinates of any network. */
#define SHMEMX_DIMS_MAX 4

/* Extensions */
int shmemx_pe_coords(int pe, int *coords);
int shmemx_torus_dims(int *dims);
int shmemx_pe_hops(int pe);

/* The same under the names a profiling tool calls from its wrappers */
int pshmemx_pe_coords(int pe, int *coords);
int pshmemx_torus_dims(int *dims);
int pshmemx_pe_hops(int pe);

#ifdef __cplusplus
}
#endif
#endif

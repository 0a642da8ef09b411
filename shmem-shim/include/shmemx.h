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

/* Classes of traffic. */
#define SHMEMX_PUT 0
#define SHMEMX_GET 1
#define SHMEMX_AMO 2
#define SHMEMX_SYNC 3

/* Trees of routers: -1 is none. PEs of the team start the same operations in the same order; a request
 * is ended by one shmemx_wait, which writes the result of a reduction. Elements are integers. */
#define SHMEMX_SUM 0
#define SHMEMX_MAX 1
#define SHMEMX_MIN 2
#define SHMEMX_INT32 0
#define SHMEMX_UINT32 1
#define SHMEMX_INT64 2
#define SHMEMX_UINT64 3

/* Extensions */
int shmemx_pe_coords(int pe, int *coords);
int shmemx_torus_dims(int *dims);
int shmemx_pe_hops(int pe);
double shmemx_wtime(void);
void shmemx_compute(uint64_t nanoseconds);
int shmemx_link_traffic(const int *coords, int dimension, int direction, size_t *packets, size_t *bytes);
int shmemx_pe_traffic(int pe, int traffic_class, size_t *ops, size_t *packets, size_t *bytes);
void shmemx_half_barrier_all(void);
int shmemx_tree_open(shmem_team_t team, int PE_root);
void shmemx_tree_close(shmem_team_t team, int tree);
long shmemx_tree_reduce_nb(int tree, int op, int elem, const void *source, size_t nelems);
long shmemx_tree_broadcast_nb(int tree, void *dest, const void *source, size_t nelems, int pe);
int shmemx_test(long request);
void shmemx_wait(long request, void *dest);

/* The same under the names a profiling tool calls from its wrappers */
int pshmemx_pe_coords(int pe, int *coords);
int pshmemx_torus_dims(int *dims);
int pshmemx_pe_hops(int pe);
double pshmemx_wtime(void);
void pshmemx_compute(uint64_t nanoseconds);
int pshmemx_link_traffic(const int *coords, int dimension, int direction, size_t *packets, size_t *bytes);
int pshmemx_pe_traffic(int pe, int traffic_class, size_t *ops, size_t *packets, size_t *bytes);
void pshmemx_half_barrier_all(void);
int pshmemx_tree_open(shmem_team_t team, int PE_root);
void pshmemx_tree_close(shmem_team_t team, int tree);
long pshmemx_tree_reduce_nb(int tree, int op, int elem, const void *source, size_t nelems);
long pshmemx_tree_broadcast_nb(int tree, void *dest, const void *source, size_t nelems, int pe);
int pshmemx_test(long request);
void pshmemx_wait(long request, void *dest);

#ifdef __cplusplus
}
#endif
#endif

/* Puts, gets and atomics of OpenSHMEM 1.4, for the library of somebody else. */
#include <shmem.h>
#include <stdio.h>

enum { BYTES = 1 << 20, SOME = 1 << 16 };
static long counter, boxes[64];
static char there[BYTES], mine[BYTES], got[SOME];

int main(void)
{
    int wrong = 0, me, pes, right, left;
    long word;
    char *heap;
    shmem_init();
    me = shmem_my_pe(), pes = shmem_n_pes();
    right = (me + 1) % pes, left = (me + pes - 1) % pes;
    for (int i = 0; i < BYTES; i++)
        mine[i] = (char)(3 * i + me);
    heap = shmem_malloc(SOME);
    for (int i = 0; i < SOME; i++)
        heap[i] = (char)me;
    shmem_barrier_all();
    word = me + 100;
    shmem_long_put(&boxes[me], &word, 1, right);
    shmem_putmem(there, mine, BYTES, right);
    shmem_getmem(got, heap, SOME, right);
    shmem_long_atomic_inc(&counter, 0);
    word = shmem_long_atomic_fetch_add(&counter, 2, 0);
    shmem_barrier_all();
    wrong |= boxes[left] != left + 100 || word < 1 || (me == 0 && counter != 3 * pes);
    for (int i = 0; i < BYTES; i++)
        wrong |= there[i] != (char)(3 * i + left);
    for (int i = 0; i < SOME; i++)
        wrong |= got[i] != (char)right;
    printf("PE %d of %d: %s\n", me, pes, wrong ? "wrong" : "right");
    shmem_finalize();
    return wrong;
}

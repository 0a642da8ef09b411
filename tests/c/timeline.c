/* Waits whose cause is known: PE 0 waits for a signal of PE 1, which comes late, and all wait for the last PE in a barrier.
 * With an argument, PE 0 then makes that many puts to itself; "die" has the last PE kill itself instead. */
#include <shmem.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long words[8];
static uint64_t flag;

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    long mine[4] = {me, me, me, me};
    shmem_barrier_all();
    if (me == 1) {
        usleep(100000);
        shmem_long_put_signal(words, mine, 4, &flag, 7, SHMEM_SIGNAL_SET, 0);
    }
    if (me == 0)
        shmem_signal_wait_until(&flag, SHMEM_CMP_EQ, 7);
    if (me == n - 1)
        usleep(200000);
    if (me == n - 1 && argc > 1 && !strcmp(argv[1], "die"))
        raise(SIGKILL);
    shmem_barrier_all();
    for (long i = 0; me == 0 && i < (argc > 1 ? atol(argv[1]) : 0); i++)
        shmem_long_p(&words[4], i, 0);
    shmem_finalize();
    return 0;
}

/* PE 1 ends the job after 0.1 s, while the others sleep, wait and have set alarms. */
#include <shmem.h>
#include <stdio.h>
#include <unistd.h>

static long flag;

int main(void) {
    shmem_init();
    int me = shmem_my_pe();
    if (me == 1) {
        usleep(100000);
        shmem_global_exit(7);
    }
    alarm(20);
    if (me == 0)
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    usleep(50000);
    printf("PE %d woke at 50 ms\n", me);
    fflush(stdout);
    for (int i = 0; i < 30; i++) {
        sleep(1);
        printf("PE %d woke again\n", me);
        fflush(stdout);
    }
    return 0;
}

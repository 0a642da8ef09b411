// One PE sleeps five seconds, the other looks ten times a second whether it has woken; a child tells real time.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long woken;

int main(void) {
    shmem_init();
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (shmem_my_pe() == 1) {
        sleep(5);
        shmem_long_p(&woken, 1, 0);
    } else {
        int looks = 0;
        for (; !shmem_long_test(&woken, SHMEM_CMP_EQ, 1); looks++)
            usleep(100000);
        clock_gettime(CLOCK_MONOTONIC, &end);
        double s = end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9;
        printf("%d looks, %.3f s, %ld\n", looks, s, (long)time(NULL));
        fflush(stdout);
        if (system("date +%s") != 0)
            return 1;
    }
    shmem_finalize();
    return 0;
}

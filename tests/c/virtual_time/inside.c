// A thread reads clocks while the main one waits in the library, 200 times. Prints how often a calendar was not virtual.
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BEGIN 1767225600 // 2026-01-01
#define DAY 86400

static long turn;
static volatile int stop;
static long wrong;

static void *look(void *unused) {
    while (!stop) {
        time_t now = time(NULL);
        wrong += now < BEGIN || now > BEGIN + DAY;
    }
    return unused;
}

int main(void) {
    int provided;
    pthread_t thread;
    shmem_init_thread(SHMEM_THREAD_FUNNELED, &provided);
    int me = shmem_my_pe();
    if (me == 0)
        pthread_create(&thread, NULL, look, NULL);
    for (long i = 1; i <= 200; i++) {
        if (me == 1) {
            usleep(100);
            shmem_long_p(&turn, i, 0);
        } else {
            shmem_long_wait_until(&turn, SHMEM_CMP_GE, i);
        }
    }
    stop = 1;
    if (me == 0) {
        pthread_join(thread, NULL);
        printf("%ld\n", wrong);
    }
    shmem_finalize();
    return 0;
}

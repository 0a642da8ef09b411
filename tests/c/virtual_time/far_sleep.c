// Sleeps beyond the end of virtual time, and by clocks that are none.
//   far_sleep SECONDS: sleeps so long. far_sleep: waits for an answer until the year 2150, and asks strange clocks.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sem_t answered;

static void *answer(void *unused) {
    sleep(2);
    sem_post(&answered);
    return unused;
}

int main(int argc, char **argv) {
    shmem_init();
    if (argc > 1) {
        sleep(atoi(argv[1]));
        printf("slept %s s\n", argv[1]);
        shmem_finalize();
        return 0;
    }
    pthread_t thread;
    struct timespec t = {5680281600, 0}, second = {1, 0}, begin, end;
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, answer, NULL);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int waited = sem_timedwait(&answered, &t);
    clock_gettime(CLOCK_MONOTONIC, &end);
    pthread_join(thread, NULL);
    printf("answered %d after %ld s\n", waited, (long)(end.tv_sec - begin.tv_sec));
    int none = clock_nanosleep(999, 0, &second, NULL), gap = clock_nanosleep(10, 0, &second, NULL);
    int own = clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &second, NULL);
    int coarse = clock_nanosleep(CLOCK_MONOTONIC_COARSE, 0, &second, NULL);
    int fine = clock_nanosleep(CLOCK_BOOTTIME, 0, &second, NULL);
    timer_t timer;
    int create = timer_create(999, NULL, &timer) ? errno : 0;
    printf("999 %d, 10 %d, thread %d, coarse %d, boottime %d, timer %d\n", none == EINVAL, gap == EINVAL, own == EINVAL,
           coarse == ENOTSUP, fine, create == EINVAL);
    shmem_finalize();
    return 0;
}

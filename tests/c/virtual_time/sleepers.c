// Threads that sleep at once: each for as long as it says, and the process as long as the longest. Another one computes.
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile int computed;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *sleeps(void *ms) {
    long begin = now();
    for (int i = 0; i < 3; i++)
        usleep(*(int *)ms * 1000);
    printf("%d ms: %ld ms, computed %d\n", *(int *)ms, (now() - begin) / 1000000, computed);
    return NULL;
}

static void *computes(void *unused) {
    for (volatile long i = 0; i < 30000000; i++)
        ;
    computed = 1;
    return unused;
}

int main(void) {
    shmem_init();
    pthread_t all[4];
    int ms[] = {2000, 500, 1000};
    long begin = now();
    pthread_create(&all[3], NULL, computes, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, sleeps, &ms[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    printf("all: %ld ms\n", (now() - begin) / 1000000);
    shmem_finalize();
    return 0;
}

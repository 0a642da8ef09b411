/* A thread beside the one that communicates: a watchdog that sleeps seconds, looks and sleeps again (argument 0), or one
 * that sleeps for a millisecond each round and is joined (1), or one that ends the job when the others wait in vain (2). */
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long word;
static volatile int done;

static double ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void *watches(void *p) {
    for (int looks = 0; !done && looks < 5; looks++)
        sleep(10);
    return p;
}

static void *sleeps(void *p) {
    usleep(1000);
    return p;
}

static void *ends(void *p) {
    sleep(3);
    printf("PE %d waits in vain after %.0f ms\n", shmem_my_pe(), ms() - *(double *)p);
    fflush(stdout);
    shmem_global_exit(5);
    return p;
}

int main(int argc, char **argv) {
    int mode = argc > 1 ? atoi(argv[1]) : 0, level;
    shmem_init_thread(mode == 2 ? SHMEM_THREAD_SERIALIZED : SHMEM_THREAD_FUNNELED, &level);
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n;
    double begin = ms();
    pthread_t thread;
    if (mode == 2) {
        if (me == 0)
            pthread_create(&thread, 0, ends, &begin);
        shmem_long_wait_until(&word, SHMEM_CMP_EQ, 1);
    }
    if (mode == 0)
        pthread_create(&thread, 0, watches, 0);
    for (long k = 1; k <= 20; k++) {
        shmem_long_p(&word, k, next);
        if (mode == 1)
            pthread_create(&thread, 0, sleeps, 0);
        shmem_long_wait_until(&word, SHMEM_CMP_GE, k);
        if (mode == 1)
            pthread_join(thread, 0);
        if (mode == 0)
            usleep(me ? 500 : 100);
        shmem_barrier_all();
    }
    printf("PE %d: %.2f ms\n", me, ms() - begin);
    fflush(stdout);
    done = 1;
    if (mode == 0)
        pthread_join(thread, 0);
    shmem_finalize();
    return 0;
}

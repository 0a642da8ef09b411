// A wait with a deadline that is answered just after the last look at it, before anybody has seen that nobody runs any more.
// Built as a library (-DLIBRARY) and preloaded, this is the thread that does so and has ended at once: what stands behind the
// clock answers the first look with "not yet", and gives then.
#define _GNU_SOURCE
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#ifdef LIBRARY
#include <dlfcn.h>

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    static int given;
    int (*real)(sem_t *, const struct timespec *) = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    int result = real(semaphore, until);
    if (result != 0 && errno == ETIMEDOUT && !given) {
        given = 1;
        sem_post(semaphore);
        errno = ETIMEDOUT;
    }
    return result;
}
#else
#include <shmem.h>

int main(void) {
    shmem_init();
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    struct timespec from, end, now;
    clock_gettime(CLOCK_REALTIME, &from);
    end = from;
    end.tv_sec += 10;
    int result = sem_timedwait(&semaphore, &end);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%d after %ld s\n", result, (long)(now.tv_sec - from.tv_sec));
    shmem_finalize();
    return 0;
}
#endif

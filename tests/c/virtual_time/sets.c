// Sets of descriptors of other sizes than libc's own, and limits, on one PE.
#define _GNU_SOURCE
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define HIGH 2000
#define WORD (8 * sizeof(long))

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *write_later(void *end) {
    usleep(500000);
    return (void *)(long)write(*(int *)end, "x", 1);
}

int main(void) {
    shmem_init();
    int ends[2];
    if (pipe(ends) != 0)
        return 9;
    // One word, and then nothing that may be read or written.
    long page = sysconf(_SC_PAGESIZE);
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(two + page, page, PROT_NONE);
    unsigned long *set = (unsigned long *)(two + page) - 1;
    *set = 1ul << ends[0];
    struct timeval limit = {0, 1500};
    long begin = now();
    int found = select(ends[0] + 1, (fd_set *)set, NULL, NULL, &limit);
    printf("short: %d, set %lx, %ld us, left %ld\n", found, *set, (now() - begin) / 1000, limit.tv_usec);
    // A descriptor beyond libc's own sets; another thread writes to it.
    struct rlimit files = {HIGH + 100, HIGH + 100};
    setrlimit(RLIMIT_NOFILE, &files);
    if (dup2(ends[0], HIGH) != HIGH)
        return 8;
    unsigned long many[HIGH / WORD + 1];
    memset(many, 0, sizeof many);
    many[HIGH / WORD] = 1ul << HIGH % WORD;
    pthread_t thread;
    pthread_create(&thread, NULL, write_later, &ends[1]);
    limit = (struct timeval){2, 0};
    begin = now();
    found = select(HIGH + 1, (fd_set *)many, NULL, NULL, &limit);
    printf("long: %d, set %d, %ld ms, left %ld.%03ld\n", found, many[HIGH / WORD] == 1ul << HIGH % WORD,
           (now() - begin) / 1000000, (long)limit.tv_sec, (long)limit.tv_usec / 1000);
    pthread_join(thread, NULL);
    struct timespec precise = {2, 500000000};
    begin = now();
    found = pselect(0, NULL, NULL, NULL, &precise, NULL);
    printf("pselect: %d, %ld ms\n", found, (now() - begin) / 1000000);
    shmem_finalize();
    return 0;
}

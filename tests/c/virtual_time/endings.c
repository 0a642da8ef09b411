// Ways to end, by the first argument: the last PE does it after all have met, the others wait for it in a barrier.
#include <assert.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long never;
static int me;

__attribute__((noinline)) static long deep(long n) {
    volatile char room[4096];
    room[0] = (char)n;
    return n ? deep(n - 1) + room[0] : 0;
}

__attribute__((noinline)) static void spin(void) {
    for (volatile long i = 0;; i++)
        ;
}

static void handler(void) {
    // Buffered, and flushed by exit alone.
    printf("handler of PE %d\n", me);
}

__attribute__((noinline)) static int last(const char *how) {
    long local = 0;
    // What the compiler cannot see.
    int *volatile nowhere = (int *)8;
    if (!strcmp(how, "segv"))
        *nowhere = 1;
    if (!strcmp(how, "call"))
        ((void (*)(void))16)();
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "assert"))
        assert(me < 0);
    if (!strcmp(how, "deep"))
        printf("%ld\n", deep(1000000));
    if (!strcmp(how, "exit"))
        exit(7);
    if (!strcmp(how, "_Exit"))
        _Exit(0);
    if (!strcmp(how, "exit-0"))
        exit(0);
    if (!strcmp(how, "global-exit"))
        shmem_global_exit(5);
    if (!strcmp(how, "spin"))
        spin();
    if (!strcmp(how, "mistake"))
        shmem_long_p(&local, 1, 0);
    return !strcmp(how, "return") ? 3 : 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    shmem_init();
    me = shmem_my_pe();
    printf("PE %d begins\n", me);
    fflush(stdout);
    if (!strcmp(how, "handler"))
        atexit(handler);
    shmem_barrier_all();
    if (me == shmem_n_pes() - 1) {
        int status = last(how);
        if (status)
            return status;
    }
    if (!strcmp(how, "deadlock"))
        shmem_long_wait_until(&never, SHMEM_CMP_EQ, 1);
    if (!strcmp(how, "for-ever"))
        for (;;)
            shmem_barrier_all();
    shmem_barrier_all();
    if (!strcmp(how, "global-exit-0"))
        shmem_global_exit(0);
    shmem_finalize();
    printf("PE %d ends\n", me);
    return 0;
}

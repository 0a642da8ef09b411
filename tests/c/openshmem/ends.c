/* Ways to end a program, by the first argument. PE 0 does it, the others see what comes of it. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static long flag, lock;
static int status = 9;

static void handler(void)
{
    /* Buffered, and flushed by exit alone. */
    printf("handler of PE %d\n", me);
}

static void slow_handler(void)
{
    /* Nothing shall cut it short. */
    if (usleep(1500000) == 0)
        printf("handled slowly by PE %d\n", me);
}

static void exits_again(void)
{
    shmem_global_exit(status);
}

static void finalizes(void)
{
    shmem_finalize();
    printf("finalized by a handler\n");
}

static void waits(void)
{
    shmem_barrier_all();
    printf("not reached\n");
}

static void *exits(void *arg)
{
    shmem_global_exit(*(int *)arg);
    return arg;
}

static void in_threads(int count)
{
    static int codes[] = {9, 10};
    pthread_t threads[2];
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, exits, &codes[i]);
    /* This thread waits in the library meanwhile. */
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 77);
}

/* PE 0 leaves the program in the middle of it. */
static int deserts(const char *what)
{
    if (me == 0)
        return 0;
    if (!strcmp(what, "desert-barrier"))
        for (;;)
            shmem_barrier_all();
    if (!strcmp(what, "desert-wait"))
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    if (!strcmp(what, "desert-lock")) {
        shmem_set_lock(&lock);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
    }
    if (!strcmp(what, "desert-finalize"))
        shmem_finalize();
    if (!strcmp(what, "desert-team")) {
        shmem_team_t team;
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n, NULL, 0, &team);
    }
    /* Nobody waits for anybody: legal, one after the other. */
    if (!strcmp(what, "desert-all")) {
        usleep(me * 400000);
        shmem_long_p(&flag, me, (me + 1) % n);
        if (me == 1)
            shmem_long_wait_until(&flag, SHMEM_CMP_EQ, n - 1);
        if (me == n - 1)
            shmem_long_p(&flag, n - 1, 1);
    }
    return 0;
}

/* What the other PEs do while PE 0 ends the program. */
static void others(const char *what)
{
    printf("unflushed of PE %d\n", me);
    if (me == 1)
        for (;;)
            shmem_barrier_all();
    if (me == 2)
        for (volatile long i = 0;; i++)
            ;
    if (me == 3) {
        if (!strcmp(what, "exit-beside-exit"))
            exit(0);
        for (;;)
            sleep(100);
    }
    char line[10];
    /* Holds the lock of a stream. */
    if (fgets(line, sizeof line, stdin))
        shmem_barrier_all();
    for (;;)
        shmem_sync_all();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2)
        status = atoi(argv[2]);
    if (!strcmp(what, "old-style"))
        start_pes(0);
    else
        shmem_init_thread(strstr(what, "thread") ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SINGLE, &(int){0});
    me = shmem_my_pe();
    n = shmem_n_pes();
    shmem_barrier_all();
    if (!strcmp(what, "old-style"))
        return 0;
    if (!strcmp(what, "mismatch")) {
        if (me == 0)
            shmem_finalize();
        else
            for (;;)
                shmem_barrier_all();
        return 0;
    }
    if (!strncmp(what, "desert", 6))
        return deserts(what);
    if (me != 0) {
        if (!strcmp(what, "exit-all"))
            shmem_global_exit(status);
        others(what);
    }
    usleep(100000);
    printf("unflushed of PE 0\n");
    if (!strcmp(what, "exit-waiting-handler"))
        atexit(waits);
    atexit(handler);
    if (!strcmp(what, "exit-slow"))
        atexit(slow_handler);
    if (!strcmp(what, "exit-in-handler")) {
        atexit(exits_again);
        exit(0);
    }
    if (!strcmp(what, "exit-finalizing"))
        atexit(finalizes);
    if (!strcmp(what, "exit-thread"))
        in_threads(1);
    if (!strcmp(what, "exit-threads"))
        in_threads(2);
    shmem_global_exit(status);
}

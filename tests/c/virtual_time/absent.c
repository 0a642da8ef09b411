// PEs that wait for each other outside the library, in the way that the argument names.
#include <fcntl.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long flag = 0;

// Waits for a put, and does not call the library for that.
static void spin_on_symmetric_memory(int me) {
    if (me == 0) {
        while (flag == 0)
            ;
        long answer = flag + 1;
        shmem_long_p((long *)&flag, answer, 1);
    } else {
        usleep(5);
        shmem_long_p((long *)&flag, 41, 0);
        shmem_long_wait_until((long *)&flag, SHMEM_CMP_EQ, 42);
    }
}

// PE 0 waits for a byte of a pipe that the other one writes after it has heard of PE 0.
static void sleep_in_a_pipe(int me, const char *fifo) {
    char byte = 0;
    if (me == 0) {
        shmem_long_p((long *)&flag, 7, 1);
        int fd = open(fifo, O_RDWR);
        if (read(fd, &byte, 1) != 1 || byte != 'x')
            exit(3);
    } else {
        shmem_long_wait_until((long *)&flag, SHMEM_CMP_EQ, 7);
        int fd = open(fifo, O_RDWR);
        if (write(fd, "x", 1) != 1)
            exit(4);
    }
}

// Memory that is not the library's, to and fro.
static void share_memory(int me, const char *name) {
    int fd = shm_open(name, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        exit(5);
    volatile long *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shmem_barrier_all();
    shm_unlink(name);
    for (long i = 0; i < 6; i++) {
        while (*word != 2 * i + me)
            ;
        *word = 2 * i + me + 1;
    }
}

// PE 0 is stopped, as by a debugger, for five times as long as others have patience.
static void stop(int me) {
    usleep(5);
    if (me == 0) {
        pid_t me_here = getpid();
        if (fork() == 0) {
            sleep(1);
            kill(me_here, SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        wait(NULL);
    }
    usleep(5);
}

// PE 0 computes, and what the others do does not need it.
static void compute(int me) {
    for (volatile int endless = me == 0; endless;)
        ;
    usleep(5);
}

// The same when the other one waits for it, and nothing is on its way.
static void compute_alone(int me) {
    if (me == 0)
        usleep(10);
    for (volatile int endless = me == 0; endless;)
        ;
    shmem_long_wait_until((long *)&flag, SHMEM_CMP_EQ, 1);
}

int main(int argc, char **argv) {
    shmem_init();
    int me = shmem_my_pe();
    if (argc < 3)
        return 1;
    if (strcmp(argv[1], "spin") == 0)
        spin_on_symmetric_memory(me);
    else if (strcmp(argv[1], "pipe") == 0)
        sleep_in_a_pipe(me, argv[2]);
    else if (strcmp(argv[1], "memory") == 0)
        share_memory(me, argv[2]);
    else if (strcmp(argv[1], "stop") == 0)
        stop(me);
    else if (strcmp(argv[1], "alone") == 0)
        compute_alone(me);
    else
        compute(me);
    shmem_barrier_all();
    if (me == 0)
        printf("done\n");
    shmem_finalize();
    return 0;
}

// Every PE adds to random words of others, writes to neighbours, and meets all others, then says what time it is and
// what it has: whatever differs between two runs shows here.
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 64, ROUNDS = 40 };
static long table[WORDS], from[2];

// Somebody stops this process for a while.
static void stop(void) {
    pid_t me = getpid(), child = fork();
    if (child == 0) {
        usleep(300000);
        kill(me, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
    waitpid(child, NULL, 0);
}

int main(void) {
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes();
    const char *stopped = getenv("STOPPED_PE");
    unsigned long random = 88172645463325252UL + me;
    long old = 0;
    for (long round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < 8; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            int pe = random % n, at = random / n % WORDS;
            if (i % 2)
                old = old * 31 + shmem_long_atomic_fetch_add(&table[at], me + 1, pe);
            else
                shmem_long_atomic_add(&table[at], me + 1, pe);
        }
        shmem_long_p(&from[0], round, (me + 1) % n);
        shmem_long_wait_until(&from[0], SHMEM_CMP_GE, round);
        if (round % 8 == 0)
            shmem_barrier_all();
        if (round == 20 && stopped && atoi(stopped) == me)
            stop();
    }
    shmem_barrier_all();
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum = sum * 7 + table[i];
    printf("PE %d: %ld.%09ld s, %ld, %ld\n", me, (long)t.tv_sec, t.tv_nsec, sum, old);
    fflush(stdout);
    shmem_finalize();
    return 0;
}

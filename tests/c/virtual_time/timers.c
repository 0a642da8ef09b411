// Timers that send signals, on PE 0; the times at which they come are printed in nanoseconds.
#include <errno.h>
#include <poll.h>
#include <shmem.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int rung;
static volatile int value;
static volatile long rung_at;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void ring(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    rung++;
    rung_at = now();
    value = info->si_code == SI_TIMER ? info->si_value.sival_int : -1;
}

static void handle(int signal) {
    struct sigaction action = {.sa_sigaction = ring, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, NULL);
    rung = 0;
}

static void alarms(long begin) {
    struct timespec left, wanted = {5, 0};
    handle(SIGALRM);
    alarm(2);
    int result = nanosleep(&wanted, &left);
    printf("alarm: %d, rung %d, %d at %ld, left %ld\n", result, errno == EINTR, rung, (rung_at - begin) / 1000000,
           left.tv_sec);
    alarm(10);
    unsigned slept = sleep(4);
    printf("sleep: %u, alarm left %u\n", slept, alarm(0));
    ualarm(1500, 0);
    result = pause();
    printf("pause: %d, %d, rung %d\n", result, errno == EINTR, rung);
    alarm(1);
    struct timeval limit = {9, 0};
    result = select(0, NULL, NULL, NULL, &limit);
    printf("select: %d, %d, rung %d\n", result, errno == EINTR, rung);
    int ends[2];
    if (pipe(ends) != 0)
        _exit(9);
    struct pollfd nothing = {ends[0], POLLIN, 0};
    alarm(1);
    result = poll(&nothing, 1, -1);
    printf("poll: %d, %d, rung %d\n", result, errno == EINTR, rung);
}

static void intervals(void) {
    handle(SIGVTALRM);
    struct itimerval every = {{0, 1000}, {0, 500}}, left;
    long begin = now();
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    while (rung < 4)
        usleep(10000);
    printf("interval: %ld us\n", (rung_at - begin) / 1000);
    getitimer(ITIMER_VIRTUAL, &left);
    printf("left: %d of %ld\n", left.it_value.tv_usec > 0 && left.it_value.tv_usec <= 1000,
           (long)left.it_interval.tv_usec);
    memset(&every, 0, sizeof every);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    // A loop that looks at a clock is interrupted, too.
    handle(SIGPROF);
    every.it_value.tv_usec = 100;
    begin = now();
    setitimer(ITIMER_PROF, &every, NULL);
    while (!rung)
        now();
    printf("loop: %d\n", rung_at - begin >= 100000 && rung_at - begin < 101000);
}

static void posix(void) {
    timer_t timer, other;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
    event.sigev_value.sival_int = 77;
    handle(SIGRTMIN + 3);
    struct itimerspec every = {{0, 1000000}, {0, 2500000}}, left;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_create(CLOCK_REALTIME, NULL, &other);
    long begin = now();
    timer_settime(timer, 0, &every, NULL);
    timer_gettime(timer, &left);
    printf("gettime: %d of %ld\n", left.it_value.tv_nsec <= 2500000 && left.it_value.tv_nsec > 2499000,
           (long)left.it_interval.tv_nsec);
    pause();
    printf("timer: %d, value %d, %d\n", rung, value, rung_at - begin >= 2500000 && rung_at - begin < 2501000);
    // While its signal is blocked nothing comes, and then once, with what was missed.
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, &before);
    usleep(5200);
    siginfo_t info;
    struct timespec limit = {3, 0};
    int taken = sigtimedwait(&set, &info, &limit);
    printf("taken: %d, rung %d, overrun %d\n", taken == SIGRTMIN + 3, rung, timer_getoverrun(timer));
    sigprocmask(SIG_SETMASK, &before, NULL);
    int deleted = timer_delete(timer), also = timer_delete(other), again = timer_delete(timer);
    printf("deleted: %d, %d, again %d\n", deleted, also, again);
    begin = now();
    taken = sigtimedwait(&set, &info, &limit);
    printf("nothing: %d, %d, %ld s\n", taken, errno == EAGAIN, (now() - begin) / 1000000000);
    // At a time of the calendar.
    struct itimerspec at = {{0, 0}, {0, 0}};
    begin = now();
    clock_gettime(CLOCK_REALTIME, &at.it_value);
    at.it_value.tv_sec += 2;
    timer_create(CLOCK_REALTIME, &event, &timer);
    timer_settime(timer, TIMER_ABSTIME, &at, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigsuspend(&none);
    printf("absolute: %d, %ld ms\n", rung, (rung_at - begin) / 1000000);
    timer_delete(timer);
}

int main(void) {
    static long done = 0;
    shmem_init();
    int me = shmem_my_pe();
    shmem_barrier_all();
    long begin = now();
    if (me == 0) {
        alarms(begin);
        intervals();
        posix();
        shmem_long_p(&done, 1, 1);
    } else {
        // One that comes during a wait of the library is seen at its end.
        handle(SIGALRM);
        alarm(1);
        shmem_long_wait_until(&done, SHMEM_CMP_EQ, 1);
    }
    long rung_there = rung, all = 0;
    shmem_barrier_all();
    if (me == 0) {
        all = shmem_long_g(&done, 1);
        printf("there: %ld\n", all);
        printf("end: %ld\n", now() - begin);
    }
    if (me == 1 && rung_there != 1)
        return 3;
    shmem_finalize();
    return 0;
}

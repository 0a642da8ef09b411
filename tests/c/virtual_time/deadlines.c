// Every wait until a time, on one PE: answered by a thread that computes first, and not answered at all.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <shmem.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, held;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, monotonic;
static pthread_rwlock_t rwlock;
static sem_t semaphore;
static mtx_t c11_mutex, c11_held;
static cnd_t c11_condition;
static mqd_t queue;
static int done, sockets[2], epoll, set;
static unsigned word;
static pthread_t thread;
static char byte;
static struct aiocb reading;

// What is to happen and what has happened, for the thread that answers.
static sem_t ready;

static struct timespec in(clockid_t clock, long ns) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_nsec += ns;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

static long now(void) {
    struct timespec t = in(CLOCK_MONOTONIC, 0);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void compute(void) {
    for (volatile long i = 0; i < 30000000; i++)
        ;
}

#define CALENDAR in(CLOCK_REALTIME, ns)
#define STEADY in(CLOCK_MONOTONIC, ns)
#define FAILED(call) ((call) < 0 ? errno : 0)

// Waits for a flag until the deadline, as programs do.
#define CONDITION(lock, unlock, wait, end)                                                                             \
    lock;                                                                                                              \
    t = end;                                                                                                           \
    while (!done && result == 0)                                                                                       \
        result = wait;                                                                                                 \
    unlock;                                                                                                            \
    break

enum { MUTEX, CONDITIONS, C11_CONDITION, RWLOCK, SEMAPHORE, THREAD, C11_MUTEX, QUEUE, WORD, SOCKET, SYSTEM_V, NONE };

static const struct {
    const char *name;
    int kind;
} ways[] = {
    {"pthread_cond_timedwait", CONDITIONS},
    {"pthread_cond_timedwait, monotonic", CONDITIONS},
    {"pthread_cond_clockwait", CONDITIONS},
    {"cnd_timedwait", C11_CONDITION},
    {"pthread_mutex_timedlock", MUTEX},
    {"pthread_mutex_clocklock", MUTEX},
    {"mtx_timedlock", C11_MUTEX},
    {"pthread_rwlock_timedrdlock", RWLOCK},
    {"pthread_rwlock_clockrdlock", RWLOCK},
    {"pthread_rwlock_timedwrlock", RWLOCK},
    {"pthread_rwlock_clockwrlock", RWLOCK},
    {"sem_timedwait", SEMAPHORE},
    {"sem_clockwait", SEMAPHORE},
    {"pthread_timedjoin_np", THREAD},
    {"pthread_clockjoin_np", THREAD},
    {"mq_timedreceive", QUEUE},
    {"mq_timedsend", QUEUE},
    {"futex, absolute", WORD},
    {"futex, calendar", WORD},
    {"futex, relative", WORD},
    {"pselect", SOCKET},
    {"ppoll", SOCKET},
    {"epoll_pwait2", SOCKET},
    {"recvmmsg", SOCKET},
    {"aio_suspend", SOCKET},
    {"semtimedop", SYSTEM_V},
    {"thrd_sleep", NONE},
};
#define WAYS (int)(sizeof ways / sizeof *ways)

// 0, or why not.
static int wait_in(int way, long ns) {
    int result = 0;
    struct timespec t, span = {ns / 1000000000, ns % 1000000000};
    struct pollfd polled = {sockets[0], POLLIN, 0};
    struct epoll_event event;
    struct iovec place = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &place, .msg_iovlen = 1}};
    const struct aiocb *list[] = {&reading};
    struct sembuf take = {0, -1, 0};
    fd_set readable;
    switch (way) {
    case 0: CONDITION(pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex), pthread_cond_timedwait(&condition, &mutex, &t), CALENDAR);
    case 1: CONDITION(pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex), pthread_cond_timedwait(&monotonic, &mutex, &t), STEADY);
    case 2: CONDITION(pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex), pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t), STEADY);
    case 3: CONDITION(mtx_lock(&c11_mutex), mtx_unlock(&c11_mutex), cnd_timedwait(&c11_condition, &c11_mutex, &t), CALENDAR);
    case 4: t = CALENDAR; return pthread_mutex_timedlock(&held, &t);
    case 5: t = STEADY; return pthread_mutex_clocklock(&held, CLOCK_MONOTONIC, &t);
    case 6: t = CALENDAR; result = mtx_timedlock(&c11_held, &t); break;
    case 7: t = CALENDAR; return pthread_rwlock_timedrdlock(&rwlock, &t);
    case 8: t = STEADY; return pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &t);
    case 9: t = CALENDAR; return pthread_rwlock_timedwrlock(&rwlock, &t);
    case 10: t = STEADY; return pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &t);
    case 11: t = CALENDAR; return FAILED(sem_timedwait(&semaphore, &t));
    case 12: t = STEADY; return FAILED(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &t));
    case 13: t = CALENDAR; return pthread_timedjoin_np(thread, NULL, &t);
    case 14: t = STEADY; return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &t);
    case 15: t = CALENDAR; return FAILED(mq_timedreceive(queue, &byte, 1, NULL, &t));
    case 16: t = CALENDAR; return FAILED(mq_timedsend(queue, &byte, 1, 0, &t));
    case 17:
        // As Rust's standard library waits.
        t = STEADY;
        return FAILED(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &t, NULL, ~0u));
    case 18:
        // As libstdc++ waits.
        t = CALENDAR;
        return FAILED(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &t, NULL, ~0u));
    case 19: return FAILED(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &span));
    case 20: FD_ZERO(&readable); FD_SET(sockets[0], &readable); return pselect(sockets[0] + 1, &readable, NULL, NULL, &span, NULL) ? 0 : ETIMEDOUT;
    case 21: return ppoll(&polled, 1, &span, NULL) ? 0 : ETIMEDOUT;
    case 22: return epoll_pwait2(epoll, &event, 1, &span, NULL) ? 0 : ETIMEDOUT;
    case 23: return FAILED(recvmmsg(sockets[0], &message, 1, 0, &span));
    case 24: return FAILED(aio_suspend(list, 1, &span));
    case 25: return FAILED(semtimedop(set, &take, 1, &span));
    default: return thrd_sleep(&span, NULL);
    }
    return way == 3 || way == 6 ? result == thrd_timedout ? ETIMEDOUT : result : result;
}

static void answer(int kind) {
    struct sembuf give = {0, 1, 0};
    switch (kind) {
    case MUTEX: pthread_mutex_unlock(&held); break;
    case CONDITIONS:
        pthread_mutex_lock(&mutex);
        done = 1;
        pthread_mutex_unlock(&mutex);
        pthread_cond_signal(&condition);
        pthread_cond_broadcast(&monotonic);
        break;
    case C11_CONDITION:
        mtx_lock(&c11_mutex);
        done = 1;
        mtx_unlock(&c11_mutex);
        cnd_signal(&c11_condition);
        break;
    case RWLOCK: pthread_rwlock_unlock(&rwlock); break;
    case SEMAPHORE: sem_post(&semaphore); break;
    case C11_MUTEX: mtx_unlock(&c11_held); break;
    case WORD:
        __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &word, FUTEX_WAKE, 1);
        syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
        break;
    case SOCKET: done = (int)send(sockets[1], "x", 1, 0); break;
    case SYSTEM_V: semop(set, &give, 1); break;
    }
}

// Waits while it is asked to hold a lock, computes, and answers. Argument: the way, or -1 for one that does not answer.
static void *answers(void *argument) {
    int way = *(int *)argument, answering = way >= 0;
    if (!answering)
        way = -1 - way;
    int kind = ways[way].kind;
    if (kind == MUTEX)
        pthread_mutex_lock(&held);
    if (kind == C11_MUTEX)
        mtx_lock(&c11_held);
    if (kind == RWLOCK)
        pthread_rwlock_wrlock(&rwlock);
    sem_post(&ready);
    if (!answering) {
        sem_wait(&semaphore);
        if (kind != SEMAPHORE)
            answer(kind);
        return NULL;
    }
    compute();
    if (kind == QUEUE && way == 15)
        mq_send(queue, "x", 1, 0);
    if (kind == QUEUE && way == 16)
        mq_receive(queue, &byte, 1, NULL);
    answer(kind);
    return NULL;
}

static void begin(int way) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    pthread_mutex_init(&held, NULL);
    pthread_rwlock_init(&rwlock, NULL);
    sem_init(&semaphore, 0, 0);
    sem_init(&ready, 0, 0);
    mtx_init(&c11_mutex, mtx_plain);
    mtx_init(&c11_held, mtx_timed);
    cnd_init(&c11_condition);
    done = word = 0;
    socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets);
    epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[0], &event);
    set = semget(IPC_PRIVATE, 1, 0600);
    if (ways[way].kind == QUEUE) {
        struct mq_attr one = {.mq_maxmsg = 1, .mq_msgsize = 1};
        queue = mq_open("/angara-test-deadlines", O_CREAT | O_RDWR, 0600, &one);
        mq_unlink("/angara-test-deadlines");
        if (way == 16)
            mq_send(queue, "x", 1, 0);
    }
    memset(&reading, 0, sizeof reading);
    if (way == 24) {
        reading = (struct aiocb){.aio_fildes = sockets[0], .aio_buf = &byte, .aio_nbytes = 1};
        aio_read(&reading);
    }
}

static void end(int way) {
    if (way == 24 && aio_error(&reading) == EINPROGRESS) {
        answer(SOCKET);
        while (aio_error(&reading) == EINPROGRESS)
            usleep(1);
    }
    if (ways[way].kind == QUEUE)
        mq_close(queue);
    close(epoll), close(sockets[0]), close(sockets[1]);
    semctl(set, 0, IPC_RMID);
}

static void once(int way, int argument, long ns) {
    begin(way);
    pthread_create(&thread, NULL, answers, &argument);
    sem_wait(&ready);
    long from = now();
    int result = wait_in(way, ns);
    long ms = (now() - from) / 1000000;
    printf("%s: %s after %ld ms\n", ways[way].name,
           result == 0                                     ? "answered"
           : result == ETIMEDOUT || result == EAGAIN       ? "timed out"
                                                           : strerror(result),
           ms);
    if (argument < 0)
        sem_post(&semaphore);
    if (ways[way].kind != THREAD || result != 0)
        pthread_join(thread, NULL);
    end(way);
}

int main(void) {
    shmem_init();
    for (int way = 0; way < WAYS; way++) {
        if (ways[way].kind != NONE)
            once(way, way, 10000000000L);
        once(way, -1 - way, 1500000000L);
    }
    shmem_finalize();
    return 0;
}

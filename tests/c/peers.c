/* Peers of an adapter socket that are not who connected any more.
 *
 *   peers own DIR ATTACH UID          a process of UID attaches and waits
 *   peers stale DIR ATTACH UID OTHER  one of UID connects and ends; one of OTHER gets its number
 *   peers changed DIR ATTACH UID OTHER  one of UID attaches and becomes OTHER's
 *
 * Says "ready", attaches (ATTACH is the request), says "answer" with how many bytes came back, waits for a line on standard
 * input, and then says by which signal the process ended: 15 is its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(int ok, const char *what) {
    if (!ok) {
        perror(what);
        _exit(1);
    }
}

static void be(uid_t real, uid_t effective, uid_t saved) {
    must(setresuid(real, effective, saved) == 0, "setresuid");
}

static int connected(const char *dir, int fd) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/adapter.sock", dir);
    return connect(fd, (struct sockaddr *)&at, sizeof at);
}

static int fresh(void) {
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    return fd;
}

/* How many bytes are answered. */
static ssize_t attach(int fd, const char *request) {
    char answer[65536];
    ssize_t n = send(fd, request, strlen(request), MSG_NOSIGNAL);
    return n > 0 ? recv(fd, answer, sizeof answer, 0) : n;
}

static void wait_for_ever(void) {
    for (;;) pause();
}

/* A process of `other` with the number of one of `uid` that connected `fd` and has ended; 0 if somebody was faster. */
static pid_t stale(const char *dir, int fd, uid_t uid, uid_t other) {
    pid_t first = fork();
    if (first == 0) {
        be(uid, uid, uid);
        must(connected(dir, fd) == 0, "connect");
        _exit(0);
    }
    int status;
    must(waitpid(first, &status, 0) == first && status == 0, "the first process");
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&first, .set_tid_size = 1};
    pid_t second = syscall(SYS_clone3, &args, sizeof args);
    if (second == 0) {
        be(other, other, other);
        wait_for_ever();
    }
    must(second > 0 || errno == EEXIST, "clone3");
    return second > 0 ? second : 0;
}

/* A process of `uid` that attaches, and then becomes `other`'s. */
static pid_t attached(const char *dir, const char *request, uid_t uid, uid_t other, ssize_t *answered) {
    int done[2];
    must(pipe(done) == 0, "pipe");
    pid_t pid = fork();
    if (pid == 0) {
        int fd = fresh();
        if (uid != other) be(uid, uid, 0);
        must(connected(dir, fd) == 0, "connect");
        ssize_t n = attach(fd, request);
        if (uid != other) {
            be(0, 0, 0);
            be(other, other, other);
        }
        must(write(done[1], &n, sizeof n) == sizeof n, "write");
        wait_for_ever();
    }
    close(done[1]);
    must(read(done[0], answered, sizeof *answered) == sizeof *answered, "the process");
    return pid;
}

int main(int argc, char **argv) {
    must(argc > 4, "arguments");
    const char *mode = argv[1], *dir = argv[2], *request = argv[3];
    uid_t uid = atoi(argv[4]), other = argc > 5 ? atoi(argv[5]) : atoi(argv[4]);
    pid_t victim = 0;
    ssize_t answered;
    if (strcmp(mode, "stale") == 0) {
        int fd = -1;
        for (int tries = 0; victim == 0 && tries < 50; tries++) victim = stale(dir, fd = fresh(), uid, other);
        puts("ready");
        fflush(stdout);
        answered = attach(fd, request);
    } else {
        victim = attached(dir, request, uid, other, &answered);
    }
    /* Whoever reads this may end the job, and the process with it: it must have got so far. */
    printf("answer %zd\n", answered);
    fflush(stdout);
    char line[16];
    must(fgets(line, sizeof line, stdin) != NULL, "a line");
    /* A signal that kills counts before those that come later. */
    kill(victim, SIGTERM);
    int status;
    must(waitpid(victim, &status, 0) == victim, "waitpid");
    printf("signal %d\n", WTERMSIG(status));
    return 0;
}

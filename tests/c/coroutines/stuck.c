// Ways for the last PE not to come back from libc, or to be rude to its process, by the first argument.
#define _GNU_SOURCE
#include <alloca.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int me;

static __attribute__((noinline)) void pipe_of_nobody(void) {
    int ends[2];
    char byte;
    if (pipe(ends) == 0 && read(ends[0], &byte, 1) < 0) // a read that never ends
        exit(3);
}

static __attribute__((noinline)) void locked_twice(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (pthread_mutex_lock(&lock) == 0) // a lock that never comes
        exit(3);
}

static __attribute__((noinline)) void fifo_between(const char *name) {
    mkfifo(name, 0600);
    int fd = open(name, O_RDONLY); // nobody opens the other end
    if (close(fd))
        exit(3);
}

// What each function has opened can be closed, once.
static void closes_what_it_opens(void) {
    int ends[6];
    char name[] = "XXXXXX";
    if (pipe(ends) || pipe2(ends + 2, O_CLOEXEC) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends + 4))
        exit(3);
    int all[] = {ends[0], ends[1], ends[2], ends[3], ends[4], ends[5], open(".", O_RDONLY), openat(AT_FDCWD, ".", O_RDONLY),
                 creat("created", 0600), mkstemp(name), memfd_create("memory", 0), dup(0), fcntl(0, F_DUPFD, 3),
                 socket(AF_UNIX, SOCK_STREAM, 0), eventfd(0, 0), epoll_create1(0), fileno(fopen(".", "r"))};
    int count = sizeof all / sizeof *all, once = 0, twice = 0;
    for (int i = 0; i < count; i++) {
        once += close(all[i]) == 0;
        twice += close(all[i]) == 0;
    }
    DIR *directory = fdopendir(open(".", O_RDONLY));
    printf("PE %d: all %d, twice %d, directory %d\n", me, once == count, twice, closedir(directory));
    remove("created");
    remove(name);
}

static void closes_all(void) {
    int own = open("/dev/null", O_RDWR), closed = 0, refused = 0;
    for (int fd = 3; fd < 1024; fd++) {
        if (fd != own && fdopen(fd, "r"))
            printf("a stream of another's descriptor %d\n", fd);
        if (close(fd) == 0)
            closed++;
        else if (errno == EBADF)
            refused++;
    }
    printf("PE %d closed %d of its own: %d, others: %d\n", me, own > 2, closed, closed + refused == 1021);
    FILE *file = fopen("/dev/null", "w");
    printf("PE %d: %d %d\n", me, fclose(file), close(open("/dev/null", O_RDONLY)));
}

// Room that ends where PE 0 has its data, and is written to there alone: what lies between stacks is not touched.
static long where;

static __attribute__((noinline)) void jumps(void) {
    volatile char here;
    long theirs = shmem_long_g(&where, 0);
    volatile char *room = alloca((size_t)((long)&here - theirs));
    for (int i = 0; i < 8192; i++)
        room[i] = 0x55;
}

static void leaks(void) {
    while (dup(1) >= 0)
        ;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    volatile long kept[512];
    shmem_init();
    me = shmem_my_pe();
    where = (long)kept;
    for (int i = 0; i < 512; i++)
        kept[i] = me;
    printf("PE %d begins\n", me);
    fflush(stdout);
    shmem_barrier_all();
    if (me == shmem_n_pes() - 1) {
        if (!strcmp(how, "pipe"))
            pipe_of_nobody();
        if (!strcmp(how, "mutex"))
            locked_twice();
        if (!strcmp(how, "fifo"))
            fifo_between(argv[2]);
        if (!strcmp(how, "close"))
            closes_what_it_opens(), closes_all();
        if (!strcmp(how, "jump"))
            jumps();
        if (!strcmp(how, "leak"))
            leaks();
        if (!strcmp(how, "dup")) {
            int fd = dup(1);
            if (fd < 0 || write(fd, "past the library\n", 17) != 17)
                return 3;
        }
        if (!strcmp(how, "much") && argc > 2)
            fcntl(1, F_SETFL, O_NONBLOCK);
        if (!strcmp(how, "much"))
            for (long i = 0; i < 200000; i++)
                printf("%063ld\n", i);
    }
    shmem_barrier_all();
    for (int i = 0; i < 512; i++)
        if (kept[i] != me)
            printf("PE %d: its stack has changed\n", me);
    shmem_finalize();
    return 0;
}

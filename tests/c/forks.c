/* Children of a PE must not touch its symmetric global variables: fork, system, popen and a child
 * of a child, with peers writing into the globals before, during and after. */
#define _GNU_SOURCE
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 5000

long data[WORDS] = {1}; /* .data */
long zero[WORDS];       /* .bss */
long mail[2];

static int me, n, bad;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "PE %d: %s\n", me, what);
        bad = 1;
    }
}

static int intact(void)
{
    for (int i = 0; i < WORDS; i++)
        if (data[i] != i * 3L + me || zero[i] != -i - me)
            return 0;
    return 1;
}

/* Runs in a child: sees the values of the fork, then ruins its own copies. */
static int ruin(void)
{
    if (!intact())
        return 2;
    memset(data, 0xee, sizeof data);
    memset(zero, 0xee, sizeof zero);
    return data[1] == (long)0xeeeeeeeeeeeeeeeeul ? 0 : 3;
}

static int status_of(pid_t child)
{
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

int main(void)
{
    shmem_init();
    me = shmem_my_pe(), n = shmem_n_pes();
    int right = (me + 1) % n;
    for (int i = 0; i < WORDS; i++) {
        data[i] = i * 3L + me;
        zero[i] = -i - me;
    }
    shmem_barrier_all();

    pid_t child = fork();
    if (child == 0)
        _exit(ruin());
    check(status_of(child) == 0, "the child did not see the parent's globals");
    check(intact(), "a child changed the parent's globals");

    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0)
            _exit(ruin());
        int status = status_of(grandchild);
        _exit(status ? status : ruin());
    }
    check(status_of(child) == 0, "a grandchild did not see the globals");
    check(intact(), "a grandchild changed the parent's globals");

    check(WEXITSTATUS(system("exit 3")) == 3, "system() lost the status");
    char text[16] = "";
    FILE *pipe = popen("echo pipe", "r");
    check(pipe && fgets(text, sizeof text, pipe) && !strcmp(text, "pipe\n"), "popen() lost the output");
    check(pipe && pclose(pipe) == 0, "pclose() failed");
    check(intact(), "system or popen changed the globals");

    /* A child lives on while a peer writes to the parent: the parent sees it, the child does not. */
    int go[2], answer[2];
    if (pipe2(go, 0) || pipe2(answer, 0))
        return 9;
    child = fork();
    if (child == 0) {
        char c;
        close(go[1]);
        _exit(read(go[0], &c, 1) == 1 && mail[0] == 0 ? 0 : 4);
    }
    close(go[0]);
    shmem_barrier_all();
    shmem_long_p(&mail[0], 4711 + me, right);
    shmem_barrier_all();
    check(mail[0] == 4711 + (me + n - 1) % n, "a put did not arrive after fork");
    check(write(go[1], "x", 1) == 1, "pipe");
    check(status_of(child) == 0, "a child saw what a peer wrote to its parent");

    long got = shmem_long_g(&data[7], right);
    check(got == 7 * 3L + right, "a get after fork is wrong");
    shmem_barrier_all();
    check(intact(), "globals changed at the end");
    shmem_barrier_all();
    if (me == 0 && !bad)
        printf("forks done\n");
    shmem_finalize();
    return bad;
}

/* Starting again after the last finalize, so many times, with everything a life can leave behind: blocks, teams,
 * contexts, signals, threads levels that differ from life to life. The last argument names what to do instead. */
#include "check.h"
#include <dirent.h>
#include <shmemx.h>
#include <unistd.h>

static long kept[4] = {1, 2, 3, 4}, arrived, pings, word, sum, mine;
static int flag;

static long entries(const char *directory)
{
    long count = 0;
    DIR *dir = opendir(directory);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Kilobytes of /proc/self/status. */
static long status(const char *name)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name)))
            value = atol(line + strlen(name) + 1);
    if (file)
        fclose(file);
    return value;
}

static int initialized(void)
{
    int on = -1;
    shmem_query_initialized(&on);
    return on;
}

/* An inner finalize is a barrier and takes nothing away. */
static void nested(void)
{
    long *block = shmem_calloc(4, sizeof *block);
    shmem_init();
    int level = -1;
    CHECK(shmem_init_thread(SHMEM_THREAD_SINGLE, &level) == 0 && level >= 0);
    shmem_long_p(&block[1], me + 1, (me + 1) % n);
    shmem_finalize();
    CHECK(block[1] == (me + n - 1) % n + 1);
    shmem_long_atomic_inc(&block[2], (me + n - 1) % n);
    shmem_finalize();
    CHECK(block[2] == 1 && initialized());
    shmem_free(block);
}

/* All trees there are, counted and left open. */
static int open_trees(void)
{
    int count = 0;
    while (shmemx_tree_open(SHMEM_TEAM_WORLD, 0) >= 0)
        count++;
    return count;
}

static void life(int number)
{
    int level = -1, wanted = number % 3 == 1 ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SINGLE;
    CHECK(shmem_init_thread(wanted, &level) == 0 && level == wanted);
    me = shmem_my_pe();
    n = shmem_n_pes();
    int next = (me + 1) % n;

    /* The heap is as at first: the same addresses, and zero. */
    static long *first;
    long *block = shmem_malloc(3 * 4096);
    CHECK(number == 0 || block == first);
    first = block;
    for (int i = 0; i < 3 * 512; i++)
        CHECK(block[i] == 0);
    memset(block, 0xff, 3 * 4096);
    /* Globals keep their values, also those that peers have written. */
    CHECK(kept[0] == 1 + number && kept[3] == 4 && arrived == number);
    shmem_barrier_all();
    kept[0]++;
    shmem_long_atomic_inc(&arrived, next);

    /* Signals, messages, barriers of other groups, and what finalize alone ends. */
    shmem_team_t half = SHMEM_TEAM_INVALID;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &half) == 0);
    if (half != SHMEM_TEAM_INVALID) {
        mine = me;
        shmem_long_sum_reduce(half, &sum, &mine, 1);
        CHECK(sum == (long)((n + 1) / 2) * ((n + 1) / 2 - 1));
        shmem_ctx_t ctx;
        CHECK(shmem_team_create_ctx(half, 0, &ctx) == 0);
    }
    for (int i = 0; i < 3; i++) {
        mine = me + i;
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &mine, 1);
        CHECK(sum == (long)n * (n - 1) / 2 + (long)n * i);
        shmem_long_broadcast(SHMEM_TEAM_WORLD, &word, &mine, 1, i % n);
        CHECK(word == i % n + i);
        size_t below = me % 2 + 1;
        shmem_collectmem(SHMEM_TEAM_WORLD, block, &mine, below);
        shmem_sync_all();
    }
    pings = 0;
    shmem_barrier_all();
    shmem_long_p(&pings, number + 1, next);
    shmem_long_wait_until(&pings, SHMEM_CMP_EQ, number + 1);
    if (number % 10 == 0)
        nested();
    if (number % 97 == 0) {
        static int trees = -1;
        int now = open_trees();
        CHECK(trees < 0 || now == trees);
        trees = now;
    }
    static size_t before;
    size_t ops = 0, packets, bytes;
    CHECK(shmemx_pe_traffic(next, SHMEMX_PUT, &ops, &packets, &bytes) == 0 && ops > before);
    before = ops;
    if (number % 2)
        shmem_barrier_all();
    shmem_finalize();
    CHECK(!initialized());
}

/* PE 0 leaves between two lives, before or while the others begin the second one. Those above PE 1, which may be slower and ends
 * the job, wait for so many seconds until it has. */
static int leaves(int early, int seconds)
{
    shmem_init();
    me = shmem_my_pe();
    shmem_finalize();
    if (me == 0) {
        if (!early)
            usleep(300000);
        return 0;
    }
    if (early)
        usleep(300000);
    if (me == 1) {
        shmem_init();
    } else {
        int level;
        int failed = shmem_init_thread(SHMEM_THREAD_SINGLE, &level);
        printf("init_thread returns %d\n", failed != 0);
        fflush(stdout);
        sleep(seconds);
        return failed;
    }
    printf("PE %d goes on\n", me);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    int lives = argc > 1 ? atoi(argv[1]) : 20;
    if (!strncmp(what, "leaves", 6))
        return leaves(!strcmp(what, "leaves-early"), argc > 3 ? atoi(argv[3]) : 60);
    CHECK(initialized() == 0);
    long memory = 0, resident = 0, fds = 0, threads = 0;
    for (int i = 0; i < lives; i++) {
        life(i);
        /* After some lives everything there is has been used once. */
        if (i == lives / 2) {
            memory = status("VmSize:");
            resident = status("RssAnon:");
            fds = entries("/proc/self/fd");
            threads = status("Threads:");
        }
        if (me == 0 && i == 0)
            flag = 1;
    }
    CHECK(flag == (me == 0));
    CHECK(status("VmSize:") == memory && status("RssAnon:") <= resident + 64);
    CHECK(entries("/proc/self/fd") == fds && status("Threads:") == threads);
    shmem_init();
    return finish("lives");
}

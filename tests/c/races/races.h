/* Races by name: what programs of them share. With FIXED they have none. */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

#ifdef FIXED
#define FIX(...) __VA_ARGS__
#define BUG(...)
#else
#define FIX(...)
#define BUG(...) __VA_ARGS__
#endif

static int me, n, next;

struct race {
    const char *name;
    void (*run)(void);
};

static int run_named(int argc, char **argv, const struct race *all, size_t count)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    next = (me + 1) % n;
    for (size_t i = 0; i < count; i++)
        if (argc == 2 && !strcmp(argv[1], all[i].name)) {
            all[i].run();
            shmem_finalize();
            return 0;
        }
    fprintf(stderr, "give the name of a race\n");
    return 2;
}

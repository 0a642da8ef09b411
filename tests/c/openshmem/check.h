/* What the conformance programs share: a check that names its line, and the type lists. */
#ifndef CHECK_H
#define CHECK_H

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n, bad;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition) && bad++ < 10)                                                                                \
            fprintf(stderr, "PE %d of %d: %s:%d: %s\n", me, n, __FILE__, __LINE__, #condition);                        \
    } while (0)

__attribute__((unused)) static void start(void)
{
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
}

__attribute__((unused)) static int finish(const char *name)
{
    static int all;
    static int mine;
    mine = bad;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &all, &mine, 1);
    if (me == 0)
        printf("%s %s\n", name, all ? "FAILED" : "passed");
    shmem_finalize();
    return all != 0;
}

/* X(name, C type) */
#define AMO_TYPES(X)                                                                                                   \
    X(int, int)                                                                                                        \
    X(long, long)                                                                                                      \
    X(longlong, long long)                                                                                             \
    X(uint, unsigned int)                                                                                              \
    X(ulong, unsigned long)                                                                                            \
    X(ulonglong, unsigned long long)                                                                                   \
    X(int32, int32_t)                                                                                                  \
    X(int64, int64_t)                                                                                                  \
    X(uint32, uint32_t)                                                                                                \
    X(uint64, uint64_t)                                                                                                \
    X(size, size_t)                                                                                                    \
    X(ptrdiff, ptrdiff_t)
#define SMALL_TYPES(X)                                                                                                 \
    X(char, char)                                                                                                      \
    X(schar, signed char)                                                                                              \
    X(short, short)                                                                                                    \
    X(uchar, unsigned char)                                                                                            \
    X(ushort, unsigned short)                                                                                          \
    X(int8, int8_t)                                                                                                    \
    X(int16, int16_t)                                                                                                  \
    X(uint8, uint8_t)                                                                                                  \
    X(uint16, uint16_t)
#define FLOAT_TYPES(X)                                                                                                 \
    X(float, float)                                                                                                    \
    X(double, double)                                                                                                  \
    X(longdouble, long double)
#define RMA_TYPES(X) AMO_TYPES(X) SMALL_TYPES(X) FLOAT_TYPES(X)

#endif

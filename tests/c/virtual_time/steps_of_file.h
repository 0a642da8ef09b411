// What programs of random calls have in common: memory, and what the clock said.
#include <inttypes.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 1 << 17, WORDS = 1 << 13, LOOKS = 4096 };

// Symmetric: words that others write and their PE waits for, a word of the PE's own, bytes without a meaning.
static uint64_t words[WORDS], own, one[WORDS];
static char data[BYTES], source[BYTES], into[BYTES];
// Not symmetric.
static int looks;
static uint64_t *fill;
static char *mine;
static uint64_t looked[LOOKS];

// Memory of malloc, because global variables are symmetric.
static inline void prepare(void) {
    fill = malloc(WORDS * sizeof *fill);
    mine = malloc(BYTES);
    if (fill == NULL || mine == NULL)
        shmem_global_exit(1);
    memset(mine, 0, BYTES);
}

static inline const void *filled(uint64_t value) {
    for (int i = 0; i < WORDS; i++)
        fill[i] = value;
    return fill;
}

static inline const void *ones(void) {
    for (int i = 0; i < WORDS; i++)
        one[i] = 1;
    return one;
}

static inline void look(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (looks == LOOKS)
        shmem_global_exit(1);
    looked[looks++] = (uint64_t)now.tv_sec * 1000000000u + now.tv_nsec;
}

// One line, so that PEs do not write into each other's.
static inline void tell(int me) {
    static char line[LOOKS * 21 + 16];
    char *end = line + sprintf(line, "%d", me);
    for (int i = 0; i < looks; i++)
        end += sprintf(end, " %" PRIu64, looked[i]);
    *end++ = '\n';
    fwrite(line, 1, end - line, stdout);
    fflush(stdout);
}

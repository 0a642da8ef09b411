/* Traffic of every kind whose every byte is checked, for tests that break the network meanwhile:
 *   checked SEED MILLISECONDS
 * Round after round each PE puts a block of random bytes to some PE, sends another with a signal, adds to a counter and
 * takes part in a reduction; then it looks at what it was sent, and reads what somebody else was sent.
 * Wrong data ends the job with code 42. */
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES 6000

struct block {
    uint32_t from, round, bytes, zero;
    uint64_t sum;
    unsigned char data[BYTES];
};

static struct block inbox[2], mail;
static uint64_t told, counter;
static int go, go_all;
static long part, sum;
static int me, n;
static uint64_t seed;

/* splitmix64 */
static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Same for all PEs. */
static uint64_t draw(uint64_t round, uint64_t purpose)
{
    return mix(seed ^ mix(round * 16 + purpose));
}

static uint64_t checksum(const struct block *b)
{
    uint64_t sum = mix(b->from ^ (uint64_t)b->round << 32);
    for (uint32_t i = 0; i < b->bytes; i++)
        sum = (sum ^ b->data[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static void fill(struct block *b, int from, uint32_t round, uint64_t purpose)
{
    uint64_t r = draw(round, purpose) ^ mix(from);
    *b = (struct block){.from = from, .round = round, .bytes = mix(r) % 4 ? mix(r) % 600 : r % (BYTES + 1)};
    for (uint32_t i = 0; i < b->bytes; i += 8) {
        r = mix(r);
        memcpy(b->data + i, &r, b->bytes - i < 8 ? b->bytes - i : 8);
    }
    b->sum = checksum(b);
}

static void wrong(const char *what, uint32_t round, uint64_t got, uint64_t wanted)
{
    printf("WRONG DATA on PE %d in round %u: %s is %llu, not %llu\n", me, round, what, (unsigned long long)got,
           (unsigned long long)wanted);
    fflush(stdout);
    shmem_global_exit(42);
}

static void check(const char *what, const struct block *b, int from, uint32_t round, uint64_t purpose)
{
    static struct block expected;
    fill(&expected, from, round, purpose);
    if (b->from != expected.from || b->round != round || b->bytes != expected.bytes)
        wrong(what, round, b->from + ((uint64_t)b->round << 32), from + ((uint64_t)round << 32));
    if (b->sum != checksum(b) || b->sum != expected.sum)
        wrong(what, round, checksum(b), expected.sum);
    if (memcmp(b->data, expected.data, b->bytes))
        wrong(what, round, 1, 0);
}

static size_t size(const struct block *b)
{
    return offsetof(struct block, data) + b->bytes;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static struct block out, in;
    if (argc != 3)
        return fprintf(stderr, "usage: checked SEED MILLISECONDS\n"), 2;
    seed = strtoull(argv[1], NULL, 0);
    double end = now() + atof(argv[2]) / 1000;
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    uint64_t added = 0;
    uint32_t round = 0;
    for (;;) {
        round++;
        int shift = draw(round, 0) % n, shift2 = draw(round, 1) % n;
        int to = (me + shift) % n, from = (me + n - shift) % n;
        fill(&out, me, round, 2);
        shmem_putmem(&inbox[round % 2], &out, size(&out), to);
        fill(&out, me, round, 3);
        shmem_putmem_signal(&mail, &out, size(&out), &told, round, SHMEM_SIGNAL_SET, (me + shift2) % n);
        shmem_uint64_atomic_add(&counter, me + round, to);
        added += from + round;
        shmem_uint64_wait_until(&told, SHMEM_CMP_EQ, round);
        check("a block with a signal", &mail, (me + n - shift2) % n, round, 3);
        shmem_barrier_all();
        check("a block", &inbox[round % 2], from, round, 2);
        if (counter != added)
            wrong("the counter", round, counter, added);
        int other = (me + 1 + draw(round, 4) % n) % n;
        shmem_getmem(&in, &inbox[round % 2], sizeof in, other);
        check("a block that was read", &in, (other + n - shift) % n, round, 2);
        if (shmem_uint64_atomic_fetch(&told, other) > round)
            wrong("a signal", round, shmem_uint64_atomic_fetch(&told, other), round);
        part = me + round;
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &part, 1);
        if (sum != (long)n * round + (long)n * (n - 1) / 2)
            wrong("the sum", round, sum, (long)n * round + (long)n * (n - 1) / 2);
        go = now() < end;
        shmem_int_broadcast(SHMEM_TEAM_WORLD, &go_all, &go, 1, 0);
        if (!go_all)
            break;
        shmem_barrier_all();
    }
    if (me == 0)
        printf("checked: %u rounds on %d PEs, all right\n", round, n);
    shmem_finalize();
    return 0;
}

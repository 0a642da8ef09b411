/* Traffic for the guided scenes of `angara demo --web`, one scene per run, until it is ended.
 *
 *   scenes NAME      on 15 PEs, PE x + 5 y at node x,y of a torus of 5x3
 *
 * It uses the driver's interface, because no put of OpenSHMEM takes the adaptive channel.
 */
#include <angara.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 16384
#define PACKET 256

static angara_t *a;
static int me;
static char *heap; /* symmetric: two blocks, the second one is written by others */

static void check(int code, const char *what)
{
    if (code < 0) {
        fprintf(stderr, "PE %d: %s: %s; %s\n", me, what, angara_strerror(code), angara_last_error());
        exit(1);
    }
}

static void rest(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* A block to one PE, again and again. */
static void stream(int to, long milliseconds)
{
    for (;;) {
        check(angara_put(a, to, heap + BLOCK, heap, BLOCK), "put");
        check(angara_quiet(a), "quiet");
        rest(milliseconds);
    }
}

/* Many small packets at once, as fast as they go. */
static void crowd(int to)
{
    for (;;) {
        for (int i = 0; i < BLOCK; i += PACKET)
            check(angara_put_nbi(a, to, heap + BLOCK + i, heap + i, PACKET), "put");
        check(angara_quiet(a), "quiet");
        rest(1);
    }
}

/* A stream that may leave its route: the descriptor says so (docs/reference/registers.md). */
static void adaptive(int to)
{
    uint32_t region;
    uint64_t own, other;
    angara_pe_t target;
    check(angara_pe_info(a, to, &target), "PE table");
    check(angara_place(a, heap, &region, &own), "place");
    check(angara_place(a, heap + BLOCK, &region, &other), "place");
    uint64_t present = (uint64_t)1 << 63, at = (uint64_t)region << 48;
    for (;;) {
        for (int i = 0; i < BLOCK; i += PACKET) {
            uint64_t words[8] = {0};
            words[0] = (uint64_t)1 << 32 /* put */ | (uint64_t)1 << 44 /* vc1 */ | (uint64_t)4 << 48 /* adaptive */;
            words[1] = PACKET;
            words[2] = (own + i) | at | present;
            words[3] = (other + i) | at | present;
            check(angara_post(a, to, words, NULL), "post");
        }
        check(angara_quiet(a), "quiet");
        rest(1);
    }
}

static void barriers(void)
{
    for (;;) {
        check(angara_barrier(a, 0), "barrier");
        rest(me == 0 ? 400 : 100);
    }
}

/* A sum of all up the tree and down again, then a broadcast. PE 7 in the middle is the root. */
static void trees(int n)
{
    int pes[64];
    for (int pe = 0; pe < n && pe < 64; pe++)
        pes[pe] = pe;
    int64_t *id = (int64_t *)heap;
    if (me == 7) {
        int tree = angara_tree_open(a, 7, pes, n);
        check(tree, "tree");
        *id = tree + 1;
        for (int pe = 0; pe < n; pe++)
            check(angara_put(a, pe, id, id, sizeof *id), "put");
    }
    check(angara_wait_u64(a, (uint64_t *)id, ANGARA_NE, 0), "wait");
    int tree = (int)*id - 1;
    for (;;) {
        int64_t sums[32];
        for (int i = 0; i < 32; i++)
            sums[i] = me;
        check(angara_tree_all_reduce(a, tree, ANGARA_SUM, ANGARA_I64, sums, 32), "reduction");
        if (sums[0] != (int64_t)n * (n - 1) / 2)
            fprintf(stderr, "PE %d: a wrong sum\n", me), exit(1);
        check(angara_tree_broadcast(a, tree, 7, heap + BLOCK, heap + 64, 4096), "broadcast");
        rest(50);
    }
}

int main(int argc, char **argv)
{
    const char *scene = argc > 1 ? argv[1] : "";
    if (!(a = angara_open())) {
        fprintf(stderr, "angara_open: %s\n", angara_last_error());
        return 1;
    }
    me = angara_my_pe(a);
    heap = angara_heap(a);
    if (angara_n_pes(a) != 15) {
        fprintf(stderr, "the scenes have 15 PEs, on a torus of 5x3\n");
        return 1;
    }
    if (!strcmp(scene, "direction-order") && me == 0)
        stream(6, 4);
    if (!strcmp(scene, "direction-order") && me == 8)
        stream(12, 4);
    if (!strcmp(scene, "bubble-rule") && me < 5)
        crowd((me + 2) % 5);
    if (!strcmp(scene, "adaptive-routing") && me == 4)
        crowd(1);
    if (!strcmp(scene, "adaptive-routing") && me == 0)
        adaptive(7);
    if (!strcmp(scene, "dead-link") && me == 0)
        stream(2, 4);
    if (!strcmp(scene, "barrier"))
        barriers();
    if (!strcmp(scene, "trees"))
        trees(15);
    for (;;)
        pause();
}

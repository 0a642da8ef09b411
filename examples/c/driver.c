/* Write your own driver: no put, no library protocol, only flits in the injection ring.
 *
 * In a checkout, after `cargo build --release`:
 *   B=target/release
 *   cc examples/c/driver.c -I $B/include -L $B -langara -Wl,-rpath,$PWD/$B -o driver
 *   $B/angara run -n 2 ./driver
 *
 * Installed:
 *   P=/usr/local
 *   cc $P/share/angara/examples/c/driver.c -I $P/include -L $P/lib -langara -Wl,-rpath,$P/lib -o driver
 *   $P/bin/angara run -n 2 ./driver
 *
 * Every PE builds one WRITE packet by hand, posts it to its right neighbour, and polls its own
 * memory for the packet from the left: the network acknowledges nothing.
 */
#include <angara.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, angara_strerror(code), angara_last_error());
        exit(1);
    }
}

int main(void) {
    angara_t *a = angara_open();
    if (!a) {
        fprintf(stderr, "angara_open: %s\n", angara_last_error());
        return 1;
    }
    int me = angara_my_pe(a), n = angara_n_pes(a), right = (me + 1) % n, left = (me + n - 1) % n;
    char *inbox = angara_heap(a); /* symmetric: the same offset on every PE */
    uint64_t node, value, offset;
    uint32_t region;
    angara_pe_t to;
    check(angara_csr_read(a, 0x30, &node), "read of the NODE register");
    check(angara_pe_info(a, right, &to), "PE table");
    check(angara_place(a, inbox, &region, &offset), "place");

    struct { uint64_t from, greeting[3]; } data = {me + 1, {0}};
    snprintf((char *)data.greeting, sizeof data.greeting, "hello, PE %d", right);

    angara_flit_t packet[4] = {{0}};
    uint32_t coords;
    memcpy(&coords, to.coords, 4);
    packet[0].lo = 1                       /* type WRITE */
                 | 2 << 4                  /* two data flits */
                 | 1 << 9                  /* virtual channel vc1, deterministic route */
                 | (uint64_t)coords << 32; /* target node */
    packet[0].hi = to.endpoint | region << 10 | offset << 16;
    memcpy(&packet[1], &data, sizeof data); /* 32 bytes */
    packet[3].hi = 15 << 4;                 /* tail: the last valid byte of the last data flit */

    angara_op_t write, flush;
    check(angara_inject(a, right, packet, 4, &write), "inject");
    check(angara_wait_state(a, &write, ANGARA_INJECTED), "injection");

    while ((value = __atomic_load_n((uint64_t *)inbox, __ATOMIC_ACQUIRE)) == 0)
        check(angara_wait_u64(a, (uint64_t *)inbox, ANGARA_NE, 0), "wait"); /* polls, then sleeps */
    check(angara_flush(a, right, &flush), "flush"); /* a read behind the write */
    check(angara_op_wait(a, &flush, NULL), "flush");
    int ok = value == (uint64_t)left + 1 && angara_state(a, &write) == ANGARA_COMPLETE;
    printf("PE %d at node %llu got \"%s\" from PE %d: %s\n", me, (unsigned long long)node, inbox + 8, left,
           ok ? "ok" : "WRONG");
    check(angara_barrier(a, 0), "barrier");
    angara_close(a);
    return !ok;
}

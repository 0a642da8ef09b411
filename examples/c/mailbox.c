/* Messages between PEs: every PE sends 100 000 numbers to its right neighbour and takes those from its left.
 *
 * In a checkout, after `cargo build --release`:
 *   B=target/release
 *   cc examples/c/mailbox.c -I $B/include -L $B -langara -Wl,-rpath,$PWD/$B -o mailbox
 *   $B/angara run -n 2 ./mailbox
 */
#include <angara.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 100000 };

static int check(int code, const char *what) {
    if (code < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, angara_strerror(code), angara_last_error());
        exit(1);
    }
    return code;
}

int main(void) {
    angara_t *a = angara_open();
    /* The heap is symmetric and zeroed, so its start is the same place on every PE. */
    angara_mailbox_t *m = a ? angara_mailbox_open(a, angara_heap(a)) : NULL;
    if (!m) {
        fprintf(stderr, "no mailbox: %s\n", angara_last_error());
        return 1;
    }
    int me = angara_my_pe(a), n = angara_n_pes(a), left = (me + n - 1) % n, wrong = 0;
    uint32_t sent = 0, got = 0;
    size_t room = check(angara_mailbox_max(m), "longest message"), len;
    char *buffer = malloc(room);
    angara_peer_t right, from;
    check(angara_mailbox_peer(m, (me + 1) % n, &right), "the right neighbour");

    while (sent < COUNT || got < COUNT) {
        int stuck = 1;
        if (sent < COUNT) {
            int code = angara_mailbox_send(m, right, &sent, sizeof sent);
            if (code == ANGARA_OK) {
                sent++;
                stuck = 0;
            } else if (code != ANGARA_EFULL) { /* full: the neighbour must take some first */
                check(code, "send");
            }
        }
        while (check(angara_mailbox_receive(m, &from, buffer, room, &len), "receive")) {
            wrong += len != sizeof got || *(uint32_t *)buffer != got || (int)from.seat != left;
            got++;
            stuck = 0;
        }
        if (stuck) /* sleeps, so that whoever must send has a core */
            check(angara_mailbox_wait(m, 1000), "wait");
    }
    printf("PE %d took %d numbers from PE %d in order: %s\n", me, (int)got, left, wrong ? "WRONG" : "ok");
    check(angara_barrier(a, 0), "barrier");
    free(buffer);
    angara_mailbox_close(m);
    angara_close(a);
    return wrong != 0;
}

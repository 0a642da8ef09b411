/* Every function of angara.h once, on a job of one PE. Compiles as C and as C++. */
#include <angara.h>
#include <stdio.h>
#include <string.h>

#define EXPECT(what)                                                                                                   \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, angara_last_error());                               \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(void) {
    EXPECT(sizeof(angara_flit_t) == 16 && sizeof(angara_op_t) == 16 && sizeof(angara_pe_t) == 12);
    angara_t *a = angara_open_solo(1 << 16);
    EXPECT(a != NULL && angara_my_pe(a) == 0 && angara_n_pes(a) == 1 && angara_heap_len(a) >= 1 << 16);
    uint64_t *heap = (uint64_t *)angara_heap(a), back = 0, value = 41, offset;
    uint32_t region, ring, dma;
    angara_pe_t info;
    angara_op_t op = {0, 0, -1, 0};
    angara_flit_t packet[18];
    int zero = 0;

    EXPECT(angara_pe_info(a, 0, &info) == 0 && info.node == 0 && info.attached == 1);
    EXPECT(angara_pe_info(a, 1, &info) == ANGARA_EINVAL && strstr(angara_last_error(), "PE 1"));
    EXPECT(angara_put(a, 0, heap, &value, 8) == 0 && heap[0] == 41);
    EXPECT(angara_put_nbi(a, 0, heap + 1, heap, 8) == 0 && angara_quiet(a) == 0 && heap[1] == 41);
    EXPECT(angara_get(a, 0, &back, heap, 8) == 0 && back == 41);
    EXPECT(angara_get_nbi(a, 0, &back, heap, 8) == 0 && angara_quiet_pe(a, 0) == 0 && angara_fence(a) == 0);
    EXPECT(angara_amo(a, 0, heap, ANGARA_ADD, 8, 1, 0, &back) == 0 && back == 41 && heap[0] == 42);
    EXPECT(angara_amo(a, 0, heap, ANGARA_CSWAP, 8, 7, 42, NULL) == 0 && heap[0] == 7);
    EXPECT(angara_amo(a, 0, heap, 99, 8, 7, 42, NULL) == ANGARA_EINVAL);
    EXPECT(angara_put(a, 0, &value, heap, 8) == ANGARA_EINVAL && strstr(angara_last_error(), "not symmetric"));
    EXPECT(angara_put(a, -1, heap, &value, 8) == ANGARA_EINVAL);
    EXPECT(angara_put(NULL, 0, heap, &value, 8) == ANGARA_EINVAL);
    EXPECT(angara_barrier(a, 0) == 0 && angara_barrier(a, 1) == 0);
    EXPECT(angara_wait_u64(a, heap, ANGARA_GE, 7) == 0 && angara_wait_u64(a, heap, 9, 7) == ANGARA_EINVAL);
    EXPECT(angara_peer(a, heap, 0) == (void *)heap && angara_peer(a, heap, 3) == NULL && angara_peer(a, &value, 0) == NULL);
    EXPECT(angara_place(a, heap, &region, &offset) == 0 && region == 0 && offset == 1 << 20);
    EXPECT(angara_packet_write(a, 0, heap, &value, 8, packet) == 3);
    EXPECT(angara_packet_write(a, 0, heap, &value, 0, packet) == ANGARA_EINVAL);
    /* Without a launcher there is no adapter to talk to. */
    EXPECT(angara_inject(a, 0, packet, 3, &op) == ANGARA_ENOTLAUNCHED && angara_inject(a, 0, packet, 1, &op) == ANGARA_EINVAL);
    EXPECT(angara_csr_read(a, 0x30, &back) == ANGARA_ENOTLAUNCHED && angara_csr_write(a, 0x48, 1) == ANGARA_ENOTLAUNCHED);
    EXPECT(angara_heads(a, &ring, &dma) == ANGARA_ENOTLAUNCHED && angara_flush(a, 0, &op) == ANGARA_ENOTLAUNCHED);
    uint64_t words[8] = {~0ull};
    EXPECT(angara_post(a, 0, words, &op) == ANGARA_EINVAL);
    EXPECT(angara_op_wait(a, &op, &back) == ANGARA_EINVAL && angara_wait_state(a, &op, 9) == ANGARA_EINVAL);
    op.pe = 77;
    EXPECT(angara_state(a, &op) == ANGARA_EINVAL);
    EXPECT(angara_tree_open(a, 0, &zero, 1) == ANGARA_ENOTLAUNCHED && angara_tree_close(a, 16) == ANGARA_EINVAL);
    EXPECT(angara_tree_all_reduce(a, 0, 9, 0, heap, 1) == ANGARA_EINVAL);
    EXPECT(angara_tree_broadcast(a, -1, 0, heap, heap, 8) == ANGARA_EINVAL);
    /* A mailbox of one PE, at the second page of a heap that has room for it. */
    angara_t *b = angara_open_solo(angara_mailbox_bytes(1) + 4096);
    char *page = (char *)angara_heap(b) + 4096, text[16384];
    size_t len = 0;
    angara_peer_t me, from = {9, 9}, past = {0, 7};
    EXPECT(sizeof(angara_peer_t) == 8 && angara_mailbox_bytes(-1) == 0);
    EXPECT(angara_mailbox_open(a, heap) == NULL && strstr(angara_last_error(), "mailbox"));
    EXPECT(angara_mailbox_open(b, page + 8) == NULL && angara_mailbox_open(NULL, page) == NULL);
    angara_mailbox_t *m = angara_mailbox_open(b, page);
    EXPECT(m != NULL && angara_mailbox_max(m) == 16384 && angara_mailbox_peer(m, 0, &me) == 0 && me.seat == 0);
    EXPECT(angara_mailbox_peer(m, 1, &me) == ANGARA_EINVAL && angara_mailbox_max(NULL) == ANGARA_EINVAL);
    EXPECT(angara_mailbox_receive(m, &from, text, sizeof text, &len) == 0 && angara_mailbox_wait(m, 1) == 0);
    EXPECT(angara_mailbox_send(m, me, "hello", 6) == 0 && angara_mailbox_send(m, me, NULL, 0) == 0);
    EXPECT(angara_mailbox_wait(m, 1000) == 1);
    EXPECT(angara_mailbox_receive(m, &from, text, 100, &len) == ANGARA_EINVAL);
    EXPECT(angara_mailbox_receive(m, &from, text, sizeof text, &len) == 1 && len == 6 && !strcmp(text, "hello"));
    EXPECT(from.seat == 0 && from.generation == me.generation);
    EXPECT(angara_mailbox_receive(m, NULL, text, sizeof text, &len) == 1 && len == 0);
    EXPECT(angara_mailbox_send(m, past, "hello", 6) == ANGARA_EGONE);
    EXPECT(angara_mailbox_send(m, me, text, 16385) == ANGARA_EINVAL && angara_mailbox_send(m, me, NULL, 1) == ANGARA_EINVAL);
    while ((zero = angara_mailbox_send(m, me, text, 8)) == 0)
        ;
    EXPECT(zero == ANGARA_EFULL);
    angara_close(b); /* the mailbox keeps what it needs */
    EXPECT(angara_mailbox_receive(m, NULL, text, sizeof text, &len) == 1 && len == 8);
    angara_mailbox_close(m);
    angara_mailbox_close(NULL);

    angara_abort(a, 1, "ignored without a job");
    angara_close(a);
    angara_close(NULL);
    EXPECT(strlen(angara_strerror(ANGARA_EFORKED)) > 0 && strlen(angara_strerror(1234)) > 0);
    return 0;
}

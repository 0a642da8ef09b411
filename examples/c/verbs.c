/* RDMA: a process writes a megabyte into another one's memory, which checks every word.
 *
 *   cc -O2 examples/c/verbs.c -o verbs -libverbs
 *   angara verbs -- ./verbs
 *
 * It also runs on hardware; its argument is the index of a GID (3 for most RoCE adapters).
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1 << 18, SEED = 2654435761u, IMM = 7 };
struct end { union ibv_gid gid; uint64_t at; uint32_t key, qp; uint16_t lid; }; /* what a peer must know */

#define NEED(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

int main(int argc, char **argv) {
    int ends[2], index = argc > 1 ? atoi(argv[1]) : 0;
    NEED(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    pid_t child = fork(); /* before the adapter is opened: each process opens its own */
    int writes = child != 0, other = ends[writes];

    struct ibv_device **list = ibv_get_device_list(NULL);
    NEED(list && list[0]);
    struct ibv_context *adapter = ibv_open_device(list[0]);
    NEED(adapter);
    struct ibv_pd *pd = ibv_alloc_pd(adapter);
    struct ibv_cq *cq = ibv_create_cq(adapter, 16, NULL, NULL, 0);
    uint32_t *words = calloc(WORDS, sizeof *words);
    for (uint32_t i = 0; writes && i < WORDS; i++) words[i] = i * SEED;
    struct ibv_mr *mr = ibv_reg_mr(pd, words, WORDS * sizeof *words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    NEED(mr && qp);

    struct ibv_port_attr port;
    struct end me = {.at = (uintptr_t)words, .key = mr->rkey, .qp = qp->qp_num}, peer;
    NEED(ibv_query_port(adapter, 1, &port) == 0 && ibv_query_gid(adapter, 1, index, &me.gid) == 0);
    me.lid = port.lid;
    NEED(write(other, &me, sizeof me) == sizeof me && read(other, &peer, sizeof peer) == sizeof peer);

    struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    NEED(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer.qp, .min_rnr_timer = 12,
        .max_dest_rd_atomic = 1, .ah_attr = {.is_global = 1, .dlid = peer.lid, .port_num = 1,
                                             .grh = {.dgid = peer.gid, .sgid_index = index, .hop_limit = 1}}};
    NEED(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    NEED(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC) == 0);

    struct ibv_sge all = {.addr = (uintptr_t)words, .length = WORDS * sizeof *words, .lkey = mr->lkey};
    struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &all, .num_sge = 1, .imm_data = IMM,
                               .wr.rdma = {.remote_addr = peer.at, .rkey = peer.key}}, *bad_send;
    struct ibv_recv_wr receive = {0}, *bad_receive; /* no memory: only the immediate value comes here */
    NEED((writes ? ibv_post_send(qp, &send, &bad_send) : ibv_post_recv(qp, &receive, &bad_receive)) == 0);
    struct ibv_wc done;
    while (ibv_poll_cq(cq, 1, &done) == 0) {}
    if (done.status != IBV_WC_SUCCESS) return fprintf(stderr, "failed: %s\n", ibv_wc_status_str(done.status)), 1;
    if (writes) { /* stays until the peer has looked: its adapter ends with its process */
        int status = 1;
        NEED(wait(&status) == child);
        return status != 0;
    }
    int wrong = done.imm_data != IMM;
    for (uint32_t i = 0; i < WORDS; i++) wrong += words[i] != i * SEED;
    printf("%u bytes came, %d words wrong\n", done.byte_len, wrong);
    return wrong != 0;
}

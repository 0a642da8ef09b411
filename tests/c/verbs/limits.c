/* What there is too much of, and memory that is not there: each is an error that the program survives. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { PAIRS = 70000, REGIONS = 140000, PAGE = 4096 };
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_qp *pair(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	return ibv_create_qp(pd, &init);
}

static void connect_pair(struct ibv_qp *from, struct ibv_qp *to, uint16_t lid)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	CHECK(!ibv_modify_qp(from, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = lid, .port_num = 1 } };
	CHECK(!ibv_modify_qp(from, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
		| IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 1, .rnr_retry = 1, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(from, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
		| IBV_QP_MAX_QP_RD_ATOMIC));
}

/* What a request between two fresh pairs ends with. */
static enum ibv_wc_status status_of(enum ibv_wr_opcode opcode, struct ibv_mr *own, void *at, struct ibv_mr *theirs, void *there, uint16_t lid)
{
	struct ibv_qp *a = pair(), *b = pair();
	CHECK(a && b);
	connect_pair(a, b, lid);
	connect_pair(b, a, lid);
	struct ibv_sge sge = { (uintptr_t)at, 8, own->lkey };
	struct ibv_send_wr wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 }, *bad;
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.remote_addr = (uintptr_t)there, wr.wr.atomic.rkey = theirs->rkey, wr.wr.atomic.compare_add = 1;
	else
		wr.wr.rdma.remote_addr = (uintptr_t)there, wr.wr.rdma.rkey = theirs->rkey;
	CHECK(!ibv_post_send(a, &wr, &bad));
	struct ibv_wc wc = { 0 };
	int got;
	while ((got = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	CHECK(got == 1);
	/* The pair's field is the state that was set or asked for last, whatever has happened since. */
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr made;
	CHECK(!ibv_query_qp(a, &now, IBV_QP_AV | IBV_QP_DEST_QPN, &made) && a->state == IBV_QPS_RTS);
	CHECK(!ibv_query_qp(a, &now, IBV_QP_STATE, &made) && a->state == now.qp_state);
	CHECK((a->state == IBV_QPS_RTS) == (wc.status == IBV_WC_SUCCESS));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	return wc.status;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(context, 1, &port));
	CHECK(!ibv_create_cq(context, 1000000000, NULL, NULL, 0) && errno == EINVAL);
	CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
	CHECK((cq = ibv_create_cq(context, 400000, NULL, NULL, 0)));

	static struct ibv_qp *pairs[PAIRS];
	int n = 0;
	while (n < PAIRS && (pairs[n] = pair()))
		n++;
	CHECK(n == 65536 && errno == ENOMEM);
	while (n)
		CHECK(!ibv_destroy_qp(pairs[--n]));

	char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	static struct ibv_mr *regions[REGIONS];
	while (n < REGIONS && (regions[n] = ibv_reg_mr(pd, memory, PAGE, all)))
		n++;
	CHECK(n == 131072 && errno == ENOMEM);
	while (n)
		CHECK(!ibv_dereg_mr(regions[--n]));

	/* Memory that is not there, never was, or goes after it was registered. */
	CHECK(!ibv_reg_mr(pd, (void *)(uintptr_t)PAGE, PAGE, all) && errno == EFAULT);
	CHECK(!ibv_reg_mr(pd, memory, (size_t)-PAGE, all) && (errno == EINVAL || errno == EFAULT));
	struct ibv_mr *own = ibv_reg_mr(pd, memory, PAGE, all), *gone = ibv_reg_mr(pd, memory + 2 * PAGE, PAGE, all);
	CHECK(own && gone && own->rkey != gone->rkey);
	static const enum ibv_wr_opcode one_sided[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	for (int i = 0; i < 3; i++)
		CHECK(status_of(one_sided[i], own, memory, gone, memory + 2 * PAGE, port.lid) == IBV_WC_SUCCESS);
	CHECK(!munmap(memory + 2 * PAGE, PAGE));
	/* Adapters keep pages that were exchanged, as hardware does. */
	const char *how = getenv("ANGARA_VERBS_MEMORY");
	int stays = how && (!strcmp(how, "agent") || !strcmp(how, "direct"));
	for (int i = 0; i < 3; i++) {
		enum ibv_wc_status there = status_of(one_sided[i], own, memory, gone, memory + 2 * PAGE, port.lid);
		CHECK(there == (stays ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS));
		enum ibv_wc_status here = status_of(one_sided[i], gone, memory + 2 * PAGE, own, memory, port.lid);
		CHECK(here == (stays ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
	}
	/* A region that is gone, and a key that never was. */
	struct ibv_mr copy = *own;
	CHECK(!ibv_dereg_mr(own));
	CHECK((own = ibv_reg_mr(pd, memory, PAGE, all)));
	CHECK(status_of(IBV_WR_RDMA_WRITE, own, memory, &copy, memory, port.lid) == IBV_WC_REM_ACCESS_ERR);
	copy.rkey = own->rkey ^ 0x40000000;
	CHECK(status_of(IBV_WR_RDMA_WRITE, own, memory, &copy, memory, port.lid) == IBV_WC_REM_ACCESS_ERR);
	CHECK(ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!ibv_dereg_mr(own) && !ibv_dereg_mr(gone) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	ibv_free_device_list(list);
	puts("limits ok");
	return 0;
}

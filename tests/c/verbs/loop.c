/* Two queue pairs of one process, connected to each other; every line says what is looked at. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static char bytes[4096];
static struct ibv_mr *mr;

static void versions(void)
{
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.1"));
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_rate_to_mult", "IBVERBS_1.0"));
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_reg_mr_ex", "IBVERBS_1.15"));
	CHECK(dlvsym(RTLD_DEFAULT, "ibv_create_comp_cntr", "IBVERBS_1.18"));
	static const char *const private[] = { "IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59",
		"IBVERBS_PRIVATE_64", "IBVERBS_PRIVATE_65" };
	for (int i = 0; i < 5; i++) {
		int (*refused)(void) = (int (*)(void))dlvsym(RTLD_DEFAULT, "ibv_cmd_alloc_pd", private[i]);
		CHECK(refused && refused() == EOPNOTSUPP);
		CHECK(dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", private[i]));
	}
	CHECK(dlvsym(RTLD_DEFAULT, "verbs_register_driver_64", "IBVERBS_PRIVATE_64"));
}

static void device(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	CHECK(list && count >= 1 && !list[count]);
	CHECK(ibv_get_device_guid(list[0]) && ibv_get_device_index(list[0]) == 0);
	context = ibv_open_device(list[0]);
	CHECK(context);
	ibv_free_device_list(list);
	struct ibv_device_attr_ex attr;
	CHECK(!ibv_query_device_ex(context, NULL, &attr) && attr.phys_port_cnt_ex == 1 && attr.orig_attr.max_sge == 32);
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_ACTIVE && port.active_mtu == IBV_MTU_4096);
	CHECK(ibv_query_port(context, 2, &port) == EINVAL);
	struct ibv_gid_entry gids[8];
	CHECK(ibv_query_gid_table(context, gids, 8, 0) == port.gid_tbl_len && ibv_query_gid_table(context, gids, 0, 0) == -EINVAL);
	CHECK(ibv_query_gid_ex(context, 1, 0, gids, 1) == EOPNOTSUPP);
	uint16_t key;
	CHECK(!ibv_query_pkey(context, 1, 0, &key) && ibv_get_pkey_index(context, 1, key) == 0);
	struct ibv_values_ex now = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	CHECK(!ibv_query_rt_values_ex(context, &now));
}

static void refusals(void)
{
	errno = 0;
	CHECK(!ibv_alloc_mw(pd, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
	errno = 0;
	struct ibv_alloc_dm_attr dm = { .length = 8 };
	CHECK(!ibv_alloc_dm(context, &dm) && errno == EOPNOTSUPP);
	errno = 0;
	CHECK(!ibv_import_pd(context, 1) && errno == EOPNOTSUPP);
	CHECK(!ibv_create_cq(context, 1, NULL, NULL, 1) && errno == EINVAL);
	CHECK(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
	struct ibv_cq *large = ibv_create_cq(context, 400000, NULL, NULL, 0);
	CHECK(large && large->cqe >= 400000 && !ibv_resize_cq(large, 10) && !ibv_destroy_cq(large));
	struct ibv_parent_domain_init_attr parent_attr = { .pd = pd };
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &parent_attr);
	CHECK(parent && ibv_dealloc_pd(pd) == EBUSY && !ibv_dealloc_pd(parent));
	CHECK(ibv_rereg_mr(mr, 8, pd, bytes, 1, 0) == IBV_REREG_MR_ERR_INPUT);
	uint32_t rkey = mr->rkey;
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	CHECK(mr->rkey == rkey);
}

static void to_rts(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_port_attr port;
	ibv_query_port(context, 1, &port);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = 1, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			     IBV_QP_MAX_QP_RD_ATOMIC));
	CHECK(qp->state == IBV_QPS_RTS);
}

static void wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
	for (long i = 0; i < 10000000; i++) {
		int n = ibv_poll_cq(cq, 1, wc);
		CHECK(n >= 0);
		if (n == 1) return;
	}
	CHECK(!"a completion comes");
}

int main(void)
{
	versions();
	device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	mr = ibv_reg_mr(pd, bytes, sizeof bytes, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->lkey == mr->rkey);
	refusals();

	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	CHECK(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	struct ibv_cq *cq = ibv_create_cq(context, 16, bytes, channel, 0), *other;
	CHECK(cq && ibv_destroy_comp_channel(channel) == EBUSY);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
	struct ibv_cq_ex *sends = ibv_create_cq_ex(context, &cq_attr);
	CHECK(sends);
	struct ibv_qp_init_attr_ex attr = { .send_cq = ibv_cq_ex_to_cq(sends), .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };
	struct ibv_qp *a = ibv_create_qp_ex(context, &attr), *b = ibv_create_qp(pd, (struct ibv_qp_init_attr *)&attr);
	CHECK(a && b && ibv_qp_to_qp_ex(a) && !ibv_qp_to_qp_ex(b));
	CHECK(ibv_query_ece(a, &(struct ibv_ece){ 0 }) == EOPNOTSUPP);

	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(a);
	ibv_wr_start(x);
	x->wr_id = 9, x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)bytes);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)bytes, 8);
	CHECK(ibv_wr_complete(x) == EINVAL);
	to_rts(a, b->qp_num);
	to_rts(b, a->qp_num);

	/* A receive with an event. */
	strcpy(bytes, "hello");
	struct ibv_sge to = { (uintptr_t)bytes + 1024, 64, mr->lkey }, from = { (uintptr_t)bytes, 6, mr->lkey };
	struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr send = { .wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 77,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE }, *bad_send;
	void *user;
	struct ibv_wc wc;
	CHECK(!ibv_post_recv(b, &recv, &bad_recv) && !ibv_req_notify_cq(cq, 0));
	CHECK(ibv_get_cq_event(channel, &other, &user) == -1 && errno == EAGAIN);
	CHECK(!ibv_post_send(a, &send, &bad_send));
	wait_for(ibv_cq_ex_to_cq(sends), &wc);
	CHECK(wc.wr_id == 2 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND);
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	CHECK(poll(&fd, 1, 1000) == 1);
	CHECK(!ibv_get_cq_event(channel, &other, &user) && other == cq && user == bytes);
	wait_for(cq, &wc);
	CHECK(wc.wr_id == 1 && wc.byte_len == 6 && wc.imm_data == 77 && (wc.wc_flags & IBV_WC_WITH_IMM) && wc.qp_num == b->qp_num);
	CHECK(!strcmp(bytes + 1024, "hello"));
	ibv_ack_cq_events(cq, 1);
	CHECK(cq->comp_events_completed == 1);

	/* The same step by step, and an atomic. */
	uint64_t *word = (uint64_t *)(bytes + 2048);
	*word = 5;
	ibv_wr_start(x);
	x->wr_id = 10, x->wr_flags = 0;
	ibv_wr_rdma_write(x, mr->rkey, (uintptr_t)bytes + 3072);
	ibv_wr_set_inline_data(x, "again", 6);
	x->wr_id = 11, x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_fetch_add(x, mr->rkey, (uintptr_t)word, 3);
	ibv_wr_set_sge(x, mr->lkey, (uintptr_t)(word + 1), 8);
	CHECK(!ibv_wr_complete(x));
	struct ibv_poll_cq_attr none = { 0 };
	int got = ENOENT;
	for (long i = 0; i < 10000000 && got == ENOENT; i++) got = ibv_start_poll(sends, &none);
	CHECK(!got && sends->wr_id == 11 && sends->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(sends) == IBV_WC_FETCH_ADD);
	CHECK(ibv_wc_read_completion_ts(sends) > 0 && ibv_wc_read_qp_num(sends) == a->qp_num && ibv_next_poll(sends) == ENOENT);
	ibv_end_poll(sends);
	CHECK(word[0] == 8 && word[1] == 5 && !strcmp(bytes + 3072, "again"));

	/* A wrong key: a completion, events, both pairs in the state of errors. */
	struct ibv_async_event event;
	CHECK(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK) && ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
	send = (struct ibv_send_wr){ .wr_id = 3, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	send.wr.rdma.remote_addr = (uintptr_t)bytes, send.wr.rdma.rkey = mr->rkey ^ 0xff00;
	CHECK(!ibv_post_send(a, &send, &bad_send));
	wait_for(ibv_cq_ex_to_cq(sends), &wc);
	CHECK(wc.wr_id == 3 && wc.status == IBV_WC_REM_ACCESS_ERR);
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(a, &now, IBV_QP_STATE, &init) && now.qp_state == IBV_QPS_ERR && init.send_cq == attr.send_cq);
	int accesses = 0;
	while (!ibv_get_async_event(context, &event)) {
		accesses += event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == b;
		ibv_ack_async_event(&event);
		CHECK(event.element.qp->events_completed > 0);
	}
	CHECK(accesses == 1);

	struct ibv_ah_attr ah_attr = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(pd, &ah_attr);
	CHECK(ah && !ibv_destroy_ah(ah));
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	CHECK(srq && !ibv_post_srq_recv(srq, &recv, &bad_recv) && !ibv_query_srq(srq, &srq_attr.attr) && !ibv_destroy_srq(srq));
	CHECK(ibv_destroy_cq(cq) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(sends)));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	puts("done");
	return 0;
}

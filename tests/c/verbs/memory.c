/* Registered memory that the program goes on using: by other threads, system calls, forks, and calls that change its pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)

enum { PAGE = 4096, PAGES = 64, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;
static struct ibv_mr *from;
static char source[PAGE] __attribute__((aligned(PAGE)));

static struct ibv_qp *pair(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	return ibv_create_qp(pd, &init);
}

static void connect_pair(struct ibv_qp *one, struct ibv_qp *to, uint16_t lid)
{
	struct ibv_qp_attr at = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
	CHECK(!ibv_modify_qp(one, &at, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	at = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = to->qp_num,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = lid, .port_num = 1 } };
	CHECK(!ibv_modify_qp(one, &at, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
		| IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	at = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(one, &at, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN
		| IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Writes eight bytes to `to` by an RDMA write of the other pair. */
static void put(struct ibv_mr *mr, void *to, uint64_t value)
{
	memcpy(source, &value, 8);
	struct ibv_sge sge = { (uintptr_t)source, 8, from->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 }, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)to, wr.wr.rdma.rkey = mr->rkey;
	CHECK(!ibv_post_send(a, &wr, &bad));
	struct ibv_wc wc;
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
}

static uint64_t word(const void *at)
{
	return atomic_load((_Atomic uint64_t *)at);
}

static char *fresh(size_t len)
{
	char *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

static _Atomic int stop;
static char *shared;
static uint64_t counted;

static void *counts(void *unused)
{
	(void)unused;
	for (; !stop; counted++)
		++*(volatile uint64_t *)(shared + 9 * PAGE);
	return NULL;
}

static void *reads(void *unused)
{
	(void)unused;
	FILE *zero = fopen("/dev/zero", "r");
	CHECK(zero);
	while (!stop) {
		memset(shared + 20 * PAGE, 1, 2 * PAGE);
		CHECK(read(fileno(zero), shared + 20 * PAGE, 2 * PAGE) == 2 * PAGE);
		for (int i = 0; i < 2 * PAGE; i++)
			CHECK(!shared[20 * PAGE + i]);
	}
	return NULL;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	CHECK(list && list[0] && (context = ibv_open_device(list[0])) && (pd = ibv_alloc_pd(context)));
	CHECK((cq = ibv_create_cq(context, 16, NULL, NULL, 0)) && (a = pair()) && (b = pair()));
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(context, 1, &port));
	connect_pair(a, b, port.lid);
	connect_pair(b, a, port.lid);
	CHECK((from = ibv_reg_mr(pd, source, sizeof source, ALL)));

	/* Two buffers of malloc, which share a page with each other and with data of the allocator, and a fork in the middle. */
	char *one = malloc(1000), *two = malloc(1000), *other = malloc(1000);
	strcpy(other, "beside");
	struct ibv_mr *first = ibv_reg_mr(pd, one, 1000, ALL), *second = ibv_reg_mr(pd, two, 1000, ALL);
	CHECK(first && second);
	uint64_t *in_one = (uint64_t *)(((uintptr_t)one + 7) / 8 * 8), *in_two = (uint64_t *)(((uintptr_t)two + 7) / 8 * 8);
	put(first, in_one, 11);
	put(second, in_two, 12);
	CHECK(*in_one == 11 && *in_two == 12 && !strcmp(other, "beside"));
	for (int i = 0; i < 10; i++) {
		fflush(NULL);
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			int right = *in_one == 11 + (uint64_t)i && !strcmp(other, "beside");
			*in_one = 99, strcpy(other, "child");
			free(malloc(5000));
			_exit(right ? 7 : 8);
		}
		put(first, in_one, 12 + i);
		int status;
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
		CHECK(*in_one == 12 + (uint64_t)i && !strcmp(other, "beside"));
	}
	CHECK(!ibv_dereg_mr(first));
	put(second, in_two, 13);
	CHECK(!ibv_dereg_mr(second) && *in_one == 21 && *in_two == 13 && !strcmp(other, "beside"));
	free(one), free(two), free(other);

	/* Nested and overlapping. */
	char *at = fresh(PAGES * PAGE);
	struct ibv_mr *outer = ibv_reg_mr(pd, at, 8 * PAGE, ALL), *inner = ibv_reg_mr(pd, at + 2 * PAGE + 5, PAGE, ALL);
	struct ibv_mr *next = ibv_reg_mr(pd, at + 7 * PAGE, 4 * PAGE, ALL);
	CHECK(outer && inner && next);
	put(outer, at + 8, 1), put(inner, at + 2 * PAGE + 8, 2), put(next, at + 10 * PAGE, 3), put(outer, at + 7 * PAGE, 4);
	CHECK(!ibv_dereg_mr(outer));
	put(inner, at + 2 * PAGE + 16, 5), put(next, at + 7 * PAGE + 8, 6);
	CHECK(word(at + 8) == 1 && word(at + 2 * PAGE + 8) == 2 && word(at + 10 * PAGE) == 3 && word(at + 7 * PAGE) == 4);
	CHECK(word(at + 2 * PAGE + 16) == 5 && word(at + 7 * PAGE + 8) == 6);

	/* Thrown away: zero, and still registered. */
	CHECK(!madvise(at + 2 * PAGE, 2 * PAGE, MADV_DONTNEED));
	CHECK(word(at + 2 * PAGE + 8) == 0);
	put(inner, at + 2 * PAGE + 24, 7);
	CHECK(word(at + 2 * PAGE + 24) == 7 && word(at + 2 * PAGE + 16) == 0);
	CHECK(!ibv_dereg_mr(inner) && !ibv_dereg_mr(next));
	CHECK(word(at + 2 * PAGE + 24) == 7 && word(at + 10 * PAGE) == 3);

	/* Moved, protected and unmapped while it is registered: what is deregistered afterwards is as the program left it. */
	for (int i = 0; i < 12; i++)
		*(uint64_t *)(at + (20 + i) * PAGE) = 100 + i;
	struct ibv_mr *moved = ibv_reg_mr(pd, at + 20 * PAGE, 4 * PAGE, ALL);
	struct ibv_mr *locked = ibv_reg_mr(pd, at + 24 * PAGE, 4 * PAGE, ALL);
	struct ibv_mr *gone = ibv_reg_mr(pd, at + 28 * PAGE, 4 * PAGE, ALL);
	CHECK(moved && locked && gone);
	char *to = mremap(at + 20 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(4 * PAGE));
	CHECK(to != MAP_FAILED && !mprotect(at + 24 * PAGE, 4 * PAGE, PROT_READ) && !munmap(at + 29 * PAGE, PAGE));
	CHECK(!ibv_dereg_mr(moved) && !ibv_dereg_mr(locked) && !ibv_dereg_mr(gone));
	for (int i = 0; i < 4; i++)
		CHECK(word(to + i * PAGE) == 100 + (uint64_t)i && word(at + (24 + i) * PAGE) == 104 + (uint64_t)i);
	CHECK(word(at + 28 * PAGE) == 108 && word(at + 30 * PAGE) == 110);
	/* What comes to the same place is new. */
	CHECK(mmap(at + 20 * PAGE, 12 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
	CHECK((moved = ibv_reg_mr(pd, at + 20 * PAGE, 12 * PAGE, ALL)));
	for (int i = 0; i < 12; i++)
		CHECK(word(at + (20 + i) * PAGE) == 0);
	put(moved, at + 21 * PAGE, 8);
	CHECK(word(at + 21 * PAGE) == 8 && word(to + PAGE) == 101 && !ibv_dereg_mr(moved) && word(at + 21 * PAGE) == 8);

	/* A large range with little in it. */
	size_t wide = (size_t)16 << 30;
	char *sparse = fresh(wide);
	*(uint64_t *)(sparse + (wide / 2)) = 5;
	struct ibv_mr *wide_one = ibv_reg_mr(pd, sparse, wide, ALL);
	CHECK(wide_one && word(sparse + wide / 2) == 5);
	put(wide_one, sparse + wide - 8, 6);
	CHECK(word(sparse + wide - 8) == 6 && !ibv_dereg_mr(wide_one) && word(sparse + wide - 8) == 6 && word(sparse + wide / 2) == 5);

	/* Others write meanwhile. */
	shared = fresh(PAGES * PAGE);
	pthread_t threads[2];
	CHECK(!pthread_create(&threads[0], NULL, counts, NULL) && !pthread_create(&threads[1], NULL, reads, NULL));
	for (int i = 0; i < 200; i++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, shared, PAGES * PAGE, ALL);
		CHECK(mr);
		put(mr, shared + 30 * PAGE, i);
		CHECK(word(shared + 30 * PAGE) == (uint64_t)i);
		CHECK(!ibv_dereg_mr(mr) && word(shared + 30 * PAGE) == (uint64_t)i);
	}
	stop = 1;
	CHECK(!pthread_join(threads[0], NULL) && !pthread_join(threads[1], NULL));
	CHECK(word(shared + 9 * PAGE) == counted && counted > 0);

	CHECK(!ibv_dereg_mr(from) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	ibv_free_device_list(list);
	puts("memory ok");
	return 0;
}

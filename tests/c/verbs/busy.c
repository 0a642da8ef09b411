/* An adapter serves others while one thread registers much memory: peers give up an adapter that does not answer. */

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #what, errno); exit(1); } } while (0)
#define MUCH (256ul << 20)

static struct ibv_pd *pd;
static char *memory;
static struct ibv_mr *region;
static _Atomic int begun, ended;

static void *registers(void *unused)
{
	begun = 1;
	region = ibv_reg_mr(pd, memory, MUCH, IBV_ACCESS_LOCAL_WRITE);
	ended = 1;
	return unused;
}

/* True if the page is shared memory, as those are that were exchanged. */
static int is_exchanged(const void *page)
{
	char line[512], rights[5];
	unsigned long start, end;
	FILE *maps = fopen("/proc/self/maps", "r");
	int found = 0;

	CHECK(maps);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && start <= (unsigned long)page && (unsigned long)page < end)
			found = rights[3] == 's';
	}
	fclose(maps);
	return found;
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	CHECK(devices && devices[0]);
	struct ibv_context *context = ibv_open_device(devices[0]);
	CHECK(context && (pd = ibv_alloc_pd(context)));
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	CHECK(cq);
	memory = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 1, MUCH);

	pthread_t thread;
	CHECK(!pthread_create(&thread, NULL, registers, NULL));
	int polls = 0;
	while (!ended) {
		struct ibv_wc wc;
		CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
		polls += begun && !ended;
		/* Otherwise the thread might not get the adapter for long. */
		usleep(1000);
	}
	CHECK(!pthread_join(thread, NULL) && region);
	if (is_exchanged(memory)) {
		/* Copying so much takes hundreds of milliseconds. */
		CHECK(polls >= 8);
	}
	CHECK(!ibv_dereg_mr(region) && memory[MUCH - 1] == 1);
	printf("busy ok: %d polls\n", polls);
	return 0;
}

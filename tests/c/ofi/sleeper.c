/* Two PEs of a job that sleep in poll on descriptors of libfabric (FI_WAIT_FD) until something is there to be read. The
 * argument is the number of rounds. Each end finds the other by its name. */
#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE (3u << 20)
/* Whoever sleeps longer has missed something. */
#define TOO_LONG 60000

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_cntr *received;
static fi_addr_t peer;
static int rank, sleeps;
static uint32_t random_state;

static void check(int good, const char *what, long result)
{
    if (!good) {
        printf("%d: %s: %ld\n", rank, what, result);
        fflush(stdout);
        _exit(1);
    }
}

static void must(long result, const char *what)
{
    check(result == 0, what, result);
}

static unsigned any(unsigned below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

static int descriptor(struct fid *fid)
{
    int fd = -1;
    enum fi_wait_obj kind = FI_WAIT_NONE;

    must(fi_control(fid, FI_GETWAITOBJ, &kind), "FI_GETWAITOBJ");
    check(kind == FI_WAIT_FD, "kind of wait object", kind);
    must(fi_control(fid, FI_GETWAIT, &fd), "FI_GETWAIT");
    check(fd >= 0, "descriptor", fd);
    return fd;
}

static int is_readable(int fd, int timeout)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int result;

    do
        result = poll(&one, 1, timeout);
    while (result < 0);
    return result;
}

/* Sleeps if that is safe, sometimes later than it was asked whether it is. */
static void sleep_on(struct fid *fid, int fd)
{
    long result = fi_trywait(fabric, &fid, 1);

    if (result == -FI_EAGAIN)
        return;
    must(result, "fi_trywait");
    if (any(4) == 0)
        usleep(any(200));
    if (!is_readable(fd, 0)) {
        sleeps++;
        check(is_readable(fd, TOO_LONG), "a wake-up was lost", fid->fclass);
    }
}

/* Sleeps until something has ended; whoever reads first need not ask whether it may sleep. */
static void ends(uint64_t kind)
{
    struct fi_cq_msg_entry done;
    int fd = descriptor(&cq->fid);

    for (;;) {
        if (any(2))
            sleep_on(&cq->fid, fd);
        long result = fi_cq_read(cq, &done, 1);
        if (result == 1)
            break;
        check(result == -FI_EAGAIN, "fi_cq_read", result);
        sleep_on(&cq->fid, fd);
    }
    check(done.flags & kind, "completion of another kind", (long)done.flags);
}

static void post(long (*begin)(void *, size_t), void *at, size_t len)
{
    long result;

    while ((result = begin(at, len)) == -FI_EAGAIN)
        fi_cq_read(cq, NULL, 0);
    must(result, "post");
}

static long begin_send(void *at, size_t len)
{
    return fi_send(ep, at, len, NULL, peer, NULL);
}

static long begin_receive(void *at, size_t len)
{
    return fi_recv(ep, at, len, NULL, FI_ADDR_UNSPEC, NULL);
}

static void *writes(void *eq)
{
    struct fi_eq_entry entry = {.data = 5};

    for (int i = 0; i < 1000; i++) {
        check(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0) == sizeof entry, "fi_eq_write", i);
        if (i % 50 == 0)
            usleep(200);
    }
    return NULL;
}

static void event_queue(void)
{
    struct fi_eq_attr attr = {.size = 64, .flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fi_eq_entry entry = {.data = 5};
    struct fid_eq *eq;
    struct fid *fid;
    uint32_t event;
    pthread_t thread;
    int got = 0;

    must(fi_eq_open(fabric, &attr, &eq, NULL), "fi_eq_open");
    fid = &eq->fid;
    int fd = descriptor(fid);
    for (int i = 0; i < 3; i++) {
        must(fi_trywait(fabric, &fid, 1), "fi_trywait of an empty event queue");
        check(!is_readable(fd, 0), "an empty event queue is readable", i);
        check(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof entry, 0) == sizeof entry, "fi_eq_write", i);
        check(is_readable(fd, 0), "an event queue is not readable", i);
        check(fi_trywait(fabric, &fid, 1) == -FI_EAGAIN, "fi_trywait of an event queue", i);
        check(fi_eq_read(eq, &event, &entry, sizeof entry, 0) == sizeof entry, "fi_eq_read", i);
    }
    must(pthread_create(&thread, NULL, writes, eq), "thread");
    while (got < 1000) {
        sleep_on(fid, fd);
        while (fi_eq_read(eq, &event, &entry, sizeof entry, 0) == sizeof entry)
            got++;
    }
    must(pthread_join(thread, NULL), "thread");
    must(fi_close(fid), "fi_close of an event queue");
}

static void *signals(void *arg)
{
    usleep(20000);
    must(fi_cq_signal(arg), "fi_cq_signal");
    return NULL;
}

/* Who sleeps is woken by another thread, once. */
static void signal_wakes(void)
{
    struct fid *fid = &cq->fid;
    struct fi_cq_msg_entry done;
    pthread_t thread;
    int fd = descriptor(fid);

    must(fi_trywait(fabric, &fid, 1), "fi_trywait of an empty queue");
    check(!is_readable(fd, 0), "an empty queue is readable", 0);
    must(pthread_create(&thread, NULL, signals, cq), "thread");
    check(is_readable(fd, TOO_LONG), "fi_cq_signal wakes nobody", 0);
    must(pthread_join(thread, NULL), "thread");
    check(fi_cq_read(cq, &done, 1) == -FI_EAGAIN, "fi_cq_read", 0);
    check(fi_trywait(fabric, &fid, 1) == -FI_EAGAIN, "fi_trywait after a signal", 0);
    must(fi_trywait(fabric, &fid, 1), "fi_trywait after that");
}

/* What cannot be slept on says so. */
static void without_descriptor(void)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    struct fid_cq *other;
    struct fid *fid;
    int fd;

    must(fi_cq_open(domain, &attr, &other, NULL), "fi_cq_open");
    fid = &other->fid;
    check(fi_control(fid, FI_GETWAIT, &fd) < 0, "FI_GETWAIT of FI_WAIT_NONE", 0);
    check(fi_trywait(fabric, &fid, 1) == -FI_EINVAL, "fi_trywait of FI_WAIT_NONE", 0);
    must(fi_close(fid), "fi_close");
    attr.wait_obj = FI_WAIT_MUTEX_COND;
    check(fi_cq_open(domain, &attr, &other, NULL) == -FI_ENOSYS, "FI_WAIT_MUTEX_COND", 0);
}

static void open_all(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_av *av;
    char own[16], other[16];

    snprintf(own, sizeof own, "%d", 7000 + rank);
    snprintf(other, sizeof other, "%d", 7001 - rank);
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("angara");
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    must(fi_getinfo(FI_VERSION(1, 17), NULL, own, FI_SOURCE, hints, &info), "fi_getinfo");
    check(info->domain_attr->data_progress == FI_PROGRESS_MANUAL, "progress", info->domain_attr->data_progress);
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    must(fi_cntr_open(domain, &cntr_attr, &received, NULL), "fi_cntr_open");
    must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    must(fi_ep_bind(ep, &received->fid, FI_RECV), "fi_ep_bind");
    must(fi_enable(ep), "fi_enable");
    check(fi_av_insertsvc(av, "localhost", other, &peer, 0, NULL) == 1, "fi_av_insertsvc", 0);
}

/* Messages to and fro. Now and then the other one is asleep for long, or the message is fetched while it is. */
static void exchange(int rounds)
{
    unsigned char *in = malloc(LARGE), *out = malloc(LARGE);

    for (int i = 0; i < rounds; i++) {
        size_t len = i % 97 == 5 ? LARGE : 8;
        memset(out, i + rank, len);
        memset(in, 0, len);
        post(begin_receive, in, LARGE);
        if (rank == 1)
            ends(FI_RECV);
        if (i % 100 == 0)
            usleep(30000);
        post(begin_send, out, len);
        ends(FI_SEND | (rank == 0 ? FI_RECV : 0));
        if (rank == 0)
            ends(FI_SEND | FI_RECV);
        check(in[0] == (unsigned char)(i + 1 - rank) && in[len - 1] == in[0], "wrong bytes", i);
    }
    free(in);
    free(out);
}

/* The same, asleep on a counter. */
static void count(int rounds)
{
    struct fid *fid = &received->fid;
    int fd = descriptor(fid);
    uint64_t before = fi_cntr_read(received), bytes = 0, in = 0;

    for (int i = 1; i <= rounds; i++) {
        post(begin_receive, &in, sizeof in);
        if (rank == 0)
            post(begin_send, &bytes, sizeof bytes);
        while (fi_cntr_read(received) != before + (uint64_t)i)
            sleep_on(fid, fd);
        if (rank == 1)
            post(begin_send, &bytes, sizeof bytes);
        ends(FI_SEND | FI_RECV);
        ends(FI_SEND | FI_RECV);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;

    rank = atoi(getenv("ANGARA_PE"));
    random_state = 77 + rank;
    open_all();
    without_descriptor();
    event_queue();
    signal_wakes();
    exchange(rounds);
    count(rounds / 4);
    printf("%d: all well%s\n", rank, sleeps ? ", and slept" : "");
    return 0;
}

/* A member of a domain that does over libfabric what it is told on standard input, one command a line, and says how that
 * went, behind the command's number. With MEMBER_TEXT set its addresses are texts:
 *   peer ADDRESS   whom to talk to from now on     expect LEN   receives from the peer alone
 *   name NODE SERVICE   the same, by name: - is none; svc NODE SERVICE as well, in one call
 *   call SERVICE   gives its endpoint one more name
 *   send LEN       sends                           look N       looks N times at its queue
 *   write LEN      writes into the peer's memory   wait         looks until something has ended
 *                  as mode fd it sleeps in poll meanwhile
 *   read LEN       reads from the peer's memory
 *   forbid         may not read the memory of other processes any more, and others reach its own by messages alone
 *   close ep, close mr   closes its endpoint or what peers may write and read, forbids the memory at once, and has others
 *   reuse ep, reuse mr   the same, but it fills the memory with something else
 *   busy           closes what is in use, and says how often that was refused */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#define MOST (64u << 20)
#define KEY 7

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static fi_addr_t peer;
static unsigned char *in, *out, *region; /* what is received, sent, and registered */
static struct fi_info *info;
static size_t expected;
static int number, sleeps;

#define say(...) (printf("%d: ", number), printf(__VA_ARGS__))

static void must(int result, const char *what)
{
    if (result) {
        printf("%s: %s\n", what, fi_strerror(-result));
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fill(unsigned char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (unsigned char)(i * 7 + i / 251);
}

static unsigned char *memory(void)
{
    void *at = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    must(at == MAP_FAILED ? -errno : 0, "mmap");
    return at;
}

static void open_endpoint(void)
{
    in = memory();
    out = memory();
    must(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    must(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    must(fi_enable(ep), "fi_enable");
}

static int is_forbidden;

static void open_region(void)
{
    region = memory();
    fill(region, MOST);
    /* Peers do not use regions of several pieces by themselves. */
    struct iovec all[2] = {{region, MOST / 2}, {region + MOST / 2, MOST - MOST / 2}};
    if (is_forbidden)
        must(fi_mr_regv(domain, all, 2, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr, NULL), "fi_mr_regv");
    else
        must(fi_mr_reg(domain, region, MOST, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr, NULL), "fi_mr_reg");
}

/* With a service it is a server, found at that node. */
static void start(const char *mode, const char *service, const char *node)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    sleeps = !strcmp(mode, "fd");
    cq_attr.wait_obj = sleeps ? FI_WAIT_FD : FI_WAIT_UNSPEC;
    hints->caps = FI_MSG | FI_RMA | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("angara");
    hints->addr_format = getenv("MEMBER_TEXT") ? FI_ADDR_STR : FI_FORMAT_UNSPEC;
    hints->domain_attr->data_progress = !strcmp(mode, "auto") ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    must(fi_getinfo(FI_VERSION(1, 17), node, service, service ? FI_SOURCE : 0, hints, &info), "fi_getinfo");
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    must(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    must(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    open_endpoint();
    open_region();
}

static void address(void)
{
    unsigned char name[64];
    size_t len = sizeof name;

    must(fi_getname(&ep->fid, name, &len), "fi_getname");
    printf("address ");
    for (size_t i = 0; i < len; i++)
        printf("%02x", name[i]);
    printf("\n");
}

static void meet(const char *text)
{
    unsigned char name[64] = {0};
    unsigned byte;

    for (size_t i = 0; i < sizeof name && sscanf(text + 2 * i, "%2x", &byte) == 1; i++)
        name[i] = byte;
    say("inserted %d\n", fi_av_insert(av, name, 1, &peer, 0, NULL));
}

static void meet_by_name(const char *node, const char *service)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    char text[100];
    size_t len = sizeof text;
    int result;

    node = strcmp(node, "-") ? node : NULL;
    service = strcmp(service, "-") ? service : NULL;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("angara");
    hints->addr_format = getenv("MEMBER_TEXT") ? FI_ADDR_STR : FI_FORMAT_UNSPEC;
    result = fi_getinfo(FI_VERSION(1, 17), node, service, 0, hints, &info);
    if (result) {
        say("fi_getinfo %d\n", -result);
        return;
    }
    result = fi_av_insert(av, info->dest_addr, 1, &peer, 0, NULL);
    say("inserted %d, %s\n", result, fi_av_straddr(av, info->dest_addr, text, &len));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static void call(const char *service)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("angara");
    must(fi_getinfo(FI_VERSION(1, 17), NULL, service, FI_SOURCE, hints, &info), "fi_getinfo");
    say("called %d\n", -fi_setname(&ep->fid, info->src_addr, info->src_addrlen));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* Begins an operation, as soon as there is room for it. */
static void begin(char kind, size_t len)
{
    double end = now() + 60;
    ssize_t result;

    expected = kind == 'e' || kind == 'r' ? len : 0;
    fill(out, len);
    do {
        result = kind == 's'   ? fi_send(ep, out, len, NULL, peer, NULL)
                 : kind == 'w' ? fi_write(ep, out, len, NULL, peer, 0, KEY, NULL)
                 : kind == 'r' ? fi_read(ep, in, len, NULL, peer, 0, KEY, NULL)
                               : fi_recv(ep, in, len, NULL, peer, NULL);
        if (result == -FI_EAGAIN)
            fi_cq_read(cq, NULL, 0);
    } while (result == -FI_EAGAIN && now() < end);
    say("begun %zd\n", -result);
}

static int look(void)
{
    struct fi_cq_msg_entry done;
    struct fi_cq_err_entry failed = {0};
    ssize_t result = fi_cq_read(cq, &done, 1);

    if (result == -FI_EAGAIN)
        return 0;
    if (result == -FI_EAVAIL && fi_cq_readerr(cq, &failed, 0) == 1) {
        say("ended with %d\n", failed.err);
    } else if (result == 1) {
        for (size_t i = 0; i < expected; i++)
            if (in[i] != (unsigned char)(i * 7 + i / 251)) {
                say("byte %zu is wrong\n", i);
                return 1;
            }
        say("ended well\n");
    } else {
        say("the queue says %zd\n", result);
    }
    return 1;
}

static void sleep_on_queue(void)
{
    struct pollfd one = {.events = POLLIN};
    struct fid *fid = &cq->fid;

    must(fi_control(fid, FI_GETWAIT, &one.fd), "FI_GETWAIT");
    if (!fi_trywait(fabric, &fid, 1))
        must(poll(&one, 1, 60000) < 0 ? -errno : 0, "poll");
}

static void wait_for_one(void)
{
    double end = now() + 60;

    while (!look()) {
        if (now() > end) {
            say("nothing ended\n");
            return;
        }
        if (sleeps)
            sleep_on_queue();
    }
}

static void forbid(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = 4, .filter = steps};

    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -errno : 0, "no new privileges");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? -errno : 0, "a filter of calls");
    must(fi_close(&mr->fid), "fi_close");
    is_forbidden = 1;
    open_region();
    say("forbidden\n");
}

/* Nobody touches what was named to it any more, or it is nobody's business what is there. */
static void give_up(unsigned char *at, int reused)
{
    if (reused)
        memset(at, 0xee, MOST);
    else
        must(mprotect(at, MOST, PROT_NONE) ? -errno : 0, "mprotect");
}

static void close_one(const char *which, int reused)
{
    int is_ep = !strcmp(which, "ep");

    must(fi_close(is_ep ? &ep->fid : &mr->fid), "fi_close");
    give_up(region, reused);
    if (is_ep) {
        give_up(in, reused);
        give_up(out, reused);
        must(fi_close(&mr->fid), "fi_close");
        open_endpoint();
    }
    open_region();
    say("closed, ");
    address();
}

/* fi_domain(3) and others: whatever is opened in, or bound to, an object is closed before it. */
static void busy(void)
{
    struct fid_domain *other;
    struct fid_mr *counted;
    struct fid_cntr *cntr;
    struct fid_poll *set;
    struct fid_cq *queue;
    struct fid_av *vector;
    struct fid_eq *eq;
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_poll_attr poll_attr = {0};
    int refused = 0, asked = 0;

#define IN_USE(what) (asked++, refused += fi_close(&(what)->fid) == -FI_EBUSY)
#define DONE(what) must(fi_close(&(what)->fid), "fi_close of " #what)
    must(fi_eq_open(fabric, &eq_attr, &eq, NULL), "fi_eq_open");
    must(fi_domain(fabric, info, &other, NULL), "fi_domain");
    must(fi_domain_bind(other, &eq->fid, 0), "fi_domain_bind");
    IN_USE(eq);
    IN_USE(fabric);
    must(fi_av_open(other, &av_attr, &vector, NULL), "fi_av_open");
    IN_USE(other);
    must(fi_av_bind(vector, &eq->fid, 0), "fi_av_bind");
    DONE(vector);
    must(fi_cq_open(other, &cq_attr, &queue, NULL), "fi_cq_open");
    IN_USE(other);
    DONE(queue);
    must(fi_poll_open(other, &poll_attr, &set), "fi_poll_open");
    IN_USE(other);
    DONE(set);
    must(fi_cntr_open(other, &cntr_attr, &cntr, NULL), "fi_cntr_open");
    IN_USE(other);
    must(fi_mr_reg(other, in, 1, FI_REMOTE_WRITE, 0, KEY, 0, &counted, NULL), "fi_mr_reg");
    must(fi_mr_bind(counted, &cntr->fid, FI_REMOTE_WRITE), "fi_mr_bind");
    IN_USE(cntr);
    DONE(counted);
    DONE(cntr);
    must(fi_mr_reg(other, in, 1, FI_REMOTE_WRITE, 0, KEY, 0, &counted, NULL), "fi_mr_reg");
    IN_USE(other);
    DONE(counted);
    DONE(other);
    DONE(eq);
    IN_USE(fabric);
    IN_USE(domain);
    IN_USE(av);
    IN_USE(cq);
    say("%d of %d refused\n", refused, asked);
}

int main(int argc, char **argv)
{
    char line[300], what[16], rest[200], more[50];

    setvbuf(stdout, NULL, _IOLBF, 0);
    start(argc > 1 ? argv[1] : "manual", argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    address();
    while (fgets(line, sizeof line, stdin)) {
        rest[0] = more[0] = 0;
        number++;
        if (sscanf(line, "%15s %199s %49s", what, rest, more) < 1)
            continue;
        if (!strcmp(what, "peer"))
            meet(rest);
        else if (!strcmp(what, "name"))
            meet_by_name(rest, more);
        else if (!strcmp(what, "svc"))
            say("inserted %d\n", fi_av_insertsvc(av, rest, more, &peer, 0, NULL));
        else if (!strcmp(what, "call"))
            call(rest);
        else if (!strcmp(what, "wait"))
            wait_for_one();
        else if (!strcmp(what, "forbid"))
            forbid();
        else if (!strcmp(what, "busy"))
            busy();
        else if (!strcmp(what, "close") || !strcmp(what, "reuse"))
            close_one(rest, what[2] == 'u');
        else if (!strcmp(what, "look")) {
            for (int left = atoi(rest); left > 0 && !look();)
                left--;
            say("looked\n");
        } else
            begin(what[0], strtoul(rest, NULL, 0));
    }
    must(fi_close(&mr->fid), "fi_close of the region");
    must(fi_close(&ep->fid), "fi_close of the endpoint");
    must(fi_close(&cq->fid), "fi_close of the queue");
    must(fi_close(&av->fid), "fi_close of the vector");
    must(fi_close(&domain->fid), "fi_close of the domain");
    must(fi_close(&fabric->fid), "fi_close of the fabric");
    return 0;
}

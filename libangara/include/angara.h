/* angara.h - driver of the emulated Angara adapter, for C.
 *
 * Two levels. The job level is SHMEM-like: put, get, atomics, fence, quiet, barrier between the
 * PEs of a job. The driver level is the adapter itself: registers, raw packets in the injection
 * ring, descriptors, how far an operation has come. Link with -langara; start with `angara run`.
 *
 * Ownership. angara_open() returns an object that angara_close() frees; one per process is usual.
 * Nothing else is allocated for the caller: angara_op_t is a plain value, and every pointer the
 * library returns (heap, peers, error texts) belongs to the library and is valid until
 * angara_close(), error texts until the next failing call of the same thread. Buffers passed in
 * belong to the caller; which calls keep using them after return is said at each.
 *
 * Errors. Functions returning int give 0 (or a count that is not negative) when all is well and
 * an ANGARA_E... code below 0 otherwise; angara_last_error() has the full text, with the value
 * and the remedy.
 *
 * Threads. Everything may be called from several threads, except that one thread at a time may
 * be in angara_barrier() or in the operations of one tree. A forked child gets ANGARA_EFORKED.
 *
 * "Symmetric" pointers are addresses in the caller's own symmetric heap: they name the same
 * offset on every PE.
 */
#ifndef ANGARA_H
#define ANGARA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct angara angara_t;

enum {
    ANGARA_OK = 0,
    ANGARA_EINVAL = -1,       /* an argument cannot be */
    ANGARA_ENOTLAUNCHED = -2, /* not started by `angara run` */
    ANGARA_EDAEMON = -3,      /* fabricd is gone, refused, differs in version, or is a stranger's */
    ANGARA_ESYSTEM = -4,      /* the kernel refused something */
    ANGARA_EUNREACHABLE = -5, /* every route to the target is dead, or the PE is gone */
    ANGARA_ECHANNEL = -6,     /* the channel is in its sticky error state */
    ANGARA_EENDED = -7,       /* the job is being ended */
    ANGARA_ETIMEOUT = -8,     /* no progress for ANGARA_TIMEOUT seconds */
    ANGARA_EFORKED = -9,      /* called in a forked child */
    ANGARA_EPANIC = -10,      /* a bug in the library */
    ANGARA_EALONE = -11,      /* another PE exited instead of starting again */
    ANGARA_EFULL = -12,       /* a mailbox has no room for a message now; no failure */
    ANGARA_EGONE = -13        /* the receiver of a message has left; no failure */
};

/* What an error code means. Never NULL. */
const char *angara_strerror(int code);
/* Text of the latest failure in this thread; "" if there was none. */
const char *angara_last_error(void);

/* ---- job level ------------------------------------------------------------------------ */

/* Attaches to the job this process was started in; NULL on failure. */
angara_t *angara_open(void);
/* A job of one PE without launcher or network (no ring, no registers); NULL on failure. */
angara_t *angara_open_solo(size_t heap_bytes);
/* Says goodbye, unmaps and frees. NULL is allowed. Pointers into the heap become invalid. */
void angara_close(angara_t *a);

int angara_my_pe(const angara_t *a);
int angara_n_pes(const angara_t *a);

typedef struct {
    uint32_t node;     /* node id */
    uint8_t coords[4]; /* its position, X first */
    uint16_t endpoint; /* the PE's endpoint at that node */
    uint16_t attached; /* 1 once it has attached */
} angara_pe_t;

/* Where `pe` lives. */
int angara_pe_info(const angara_t *a, int pe, angara_pe_t *out);

/* My symmetric heap: zeroed, the same size on every PE. The program divides it. */
void *angara_heap(const angara_t *a);
size_t angara_heap_len(const angara_t *a);
/* Where plain loads and stores reach symmetric `p` of `pe`; NULL if they do not. */
void *angara_peer(const angara_t *a, const void *p, int pe);

/* Copies `len` bytes to symmetric `dst` of `pe`; on return `src` may be reused. */
int angara_put(angara_t *a, int pe, void *dst, const void *src, size_t len);
/* The same, but a `src` in the symmetric heap must not change before the next quiet. */
int angara_put_nbi(angara_t *a, int pe, void *dst, const void *src, size_t len);
/* Copies `len` bytes from symmetric `src` of `pe`. */
int angara_get(angara_t *a, int pe, void *dst, const void *src, size_t len);
/* The same, but the data is there only after the next quiet; `dst` must live until then. */
int angara_get_nbi(angara_t *a, int pe, void *dst, const void *src, size_t len);

/* Atomics. ADD and XOR without result are the chip's own; the rest is the service-processor
 * extension. */
enum {
    ANGARA_ADD = 0,
    ANGARA_XOR = 1,
    ANGARA_AND = 2,
    ANGARA_OR = 3,
    ANGARA_SWAP = 4,
    ANGARA_CSWAP = 5, /* operand, if the old value equals comparand */
    ANGARA_FETCH = 6
};
/* One atomic on the word of `width` (4 or 8) bytes at symmetric `at` of `pe`. With `old` the old
 * value is waited for and stored there, with NULL the call returns at once. */
int angara_amo(angara_t *a, int pe, void *at, int op, int width, uint64_t operand, uint64_t comparand, uint64_t *old);

/* Puts and atomics before are delivered to each PE before those after. */
int angara_fence(angara_t *a);
/* Everything before has taken effect; gets have delivered. */
int angara_quiet(angara_t *a);
/* The same with respect to one target. */
int angara_quiet_pe(angara_t *a, int pe);
/* Barrier of all PEs. half: all have entered and all data sent before has been received
 * (guarantees 1 and 3 of paper 001); else also all operations of all PEs are complete (5). A
 * barrier by another family than `multiphase` needs angara_quiet() before it on the ring path;
 * the library does that itself. */
int angara_barrier(angara_t *a, int half);

enum { ANGARA_EQ = 0, ANGARA_NE = 1, ANGARA_GE = 2 };
/* Waits until the 8-byte word at `p` in this PE's memory compares (unsigned) like that with
 * `value`, without keeping a core from others. */
int angara_wait_u64(angara_t *a, const uint64_t *p, int compare, uint64_t value);

/* Asks for the whole job to be ended with `status`; the caller still has to exit. */
void angara_abort(angara_t *a, int status, const char *reason);

/* ---- driver level --------------------------------------------------------------------- */

/* Registers of this PE's node by byte offset (docs/reference/registers.md). A write is a command in the
 * channel's mailbox and returns when the adapter has acknowledged it. */
int angara_csr_read(angara_t *a, uint32_t csr, uint64_t *value);
int angara_csr_write(angara_t *a, uint32_t csr, uint64_t value);

/* One 128-bit flit, as it lies in the ring: bits 0 to 63, then 64 to 127. */
typedef struct {
    uint64_t lo, hi;
} angara_flit_t;

/* Region (0 heap, 1 static data) and byte offset by which the adapter names symmetric `p`. */
int angara_place(const angara_t *a, const void *p, uint32_t *region, uint64_t *offset);

/* One posted operation: a plain value. Its fields are the library's. */
typedef struct {
    uint32_t pe, seq;
    int32_t slot;
    uint32_t flushes;
} angara_op_t;

/* Puts a packet of 2 to 18 flits (header, data, tail) into the injection ring. The adapter fills
 * in source, route and checksum. `op` may be NULL. The flits are copied. */
int angara_inject(angara_t *a, int pe, const angara_flit_t *packet, size_t flits, angara_op_t *op);
/* Builds a WRITE of 1 to 256 bytes to symmetric `dst` of `pe` into `packet` (room for 18 flits);
 * returns the number of flits. */
int angara_packet_write(const angara_t *a, int pe, const void *dst, const void *data, size_t len, angara_flit_t *packet);
/* Posts a 64-byte descriptor (words as in docs/reference/registers.md); sequence, target and, where there is
 * an answer, the completion place are filled in. `op` may be NULL unless there is an answer. */
int angara_post(angara_t *a, int pe, const uint64_t words[8], angara_op_t *op);
/* A read behind everything sent to `pe` on vc1: when it completes, so has all that. */
int angara_flush(angara_t *a, int pe, angara_op_t *op);

/* The seven states of an operation (paper 001). Observable are CALLED, COPIED, INJECTED and
 * COMPLETE: nothing is acknowledged, so RECEIVED and WRITTEN become known together with COMPLETE,
 * by a later flush of the target or by the operation's own answer. */
enum {
    ANGARA_NOT_CALLED = 0,
    ANGARA_CALLED = 1,
    ANGARA_COPIED = 2,
    ANGARA_INJECTED = 3,
    ANGARA_RECEIVED = 4,
    ANGARA_WRITTEN = 5,
    ANGARA_COMPLETE = 6
};
/* State of `op`, as far as can be known. */
int angara_state(angara_t *a, const angara_op_t *op);
/* Waits until `op` has come at least that far. */
int angara_wait_state(angara_t *a, const angara_op_t *op, int state);
/* Waits for an operation that is answered (read, fetching atomic, flush) and releases its
 * completion word: call exactly once for each. `value` (or NULL) receives the old value of an
 * atomic or what a flush has read. */
int angara_op_wait(angara_t *a, const angara_op_t *op, uint64_t *value);

/* Ring flits and descriptors the adapter has taken so far. */
int angara_heads(angara_t *a, uint32_t *ring_flits, uint32_t *descriptors);

/* ---- collective level ----------------------------------------------------------------- */

enum { ANGARA_SUM = 0, ANGARA_MAX = 1, ANGARA_MIN = 2 };
enum { ANGARA_I32 = 0, ANGARA_U32 = 1, ANGARA_I64 = 2, ANGARA_U64 = 3 };

/* Builds a tree over the nodes of `n` PEs, rooted at that of `root`; returns its id (0 to 15).
 * One PE calls it and tells the others the id. */
int angara_tree_open(angara_t *a, int root, const int *pes, size_t n);
/* Every participant calls it when all are done with the tree. */
int angara_tree_close(angara_t *a, int tree);
/* Combines `count` elements of all participants elementwise, in place. */
int angara_tree_all_reduce(angara_t *a, int tree, int op, int elem, void *buffer, size_t count);
/* Copies `len` bytes at `src` of PE `from` to symmetric `dst` of every participant. */
int angara_tree_broadcast(angara_t *a, int tree, int from, void *dst, const void *src, size_t len);

/* ---- mailboxes ------------------------------------------------------------------------ */

/* Messages between the PEs of a job, written by puts into rings in the receiver's heap. One of up to 240 bytes is one
 * packet. Those of a sender keep their order. One thread at a time may use a mailbox. */
typedef struct angara_mailbox angara_mailbox_t;

/* Who sends or receives: PE `seat` in one of the lives that the seat has. */
typedef struct {
    uint32_t seat, generation;
} angara_peer_t;

/* Bytes of the symmetric heap that a mailbox takes in a job of so many PEs. Memory is used only where messages were. */
size_t angara_mailbox_bytes(int pes);
/* The mailbox at symmetric `at`, the same place on every PE, which starts a page and has held zeros since the job began;
 * NULL on failure. Others may have sent before. Close it before angara_close(). */
angara_mailbox_t *angara_mailbox_open(angara_t *a, void *at);
/* Frees it; its memory stays. NULL is allowed. */
void angara_mailbox_close(angara_mailbox_t *m);

/* Bytes of the longest message. */
int angara_mailbox_max(angara_mailbox_t *m);
/* Who sits at `pe` now, or would next. */
int angara_mailbox_peer(angara_mailbox_t *m, int pe, angara_peer_t *out);
/* Sends `len` bytes as one message; on return `data` may be reused. ANGARA_EFULL: nothing was sent, the receiver has to
 * take messages first; receive, wait, try again. ANGARA_EGONE: nothing was sent, as that life of the seat is over. */
int angara_mailbox_send(angara_mailbox_t *m, angara_peer_t to, const void *data, size_t len);
/* Takes one message into `buffer`, which has `size` bytes, at least angara_mailbox_max(): 1 if there was one, with its
 * length in `len` and its sender in `from` (or NULL); else 0. */
int angara_mailbox_receive(angara_mailbox_t *m, angara_peer_t *from, void *buffer, size_t size, size_t *len);
/* Sleeps until something may have come, a message or room for one that was refused: 1; or until the time is over: 0. */
int angara_mailbox_wait(angara_mailbox_t *m, uint32_t milliseconds);

#ifdef __cplusplus
}
#endif
#endif

/* Runs a command without something of the kernel: `sandbox seal COMMAND…` without F_SEAL_FUTURE_WRITE, as Linux before 5.1;
   `sandbox memfd COMMAND…` without memfd_create, as some containers. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADD_SEALS 1033
#define FUTURE_WRITE 0x10
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(how, value, skip) BPF_JUMP(BPF_JMP | how | BPF_K, value, 0, skip)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)

int main(int argc, char **argv) {
    struct sock_filter seal[] = {
        LOAD(nr),      UNLESS(BPF_JEQ, SYS_fcntl, 5),     LOAD(args[1]), UNLESS(BPF_JEQ, ADD_SEALS, 3),
        LOAD(args[2]), UNLESS(BPF_JSET, FUTURE_WRITE, 1), ANSWER(SECCOMP_RET_ERRNO | EINVAL),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_filter memfd[] = {
        LOAD(nr),
        UNLESS(BPF_JEQ, SYS_memfd_create, 1),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    if (argc < 3) return 2;
    int old = strcmp(argv[1], "seal") == 0;
    struct sock_fprog filter = {old ? sizeof seal / sizeof *seal : sizeof memfd / sizeof *memfd, old ? seal : memfd};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("sandbox");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}

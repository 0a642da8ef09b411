/* Runs a command under a filter of system calls: `forbid [-p] COMMAND...`.
 *
 * What is refused is what the default profile of container engines refuses to a process without privileges, as far as a
 * program might ask for it. With -p it may not copy between processes either, which older profiles refuse, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, what))
#define IF(number, then) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, then)
#define REFUSED (SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char **argv)
{
	int strict = argc > 1 && !strcmp(argv[1], "-p");
	struct sock_filter rules[] = {
		LOAD(nr),
		IF(__NR_userfaultfd, REFUSED),
		IF(__NR_io_uring_setup, REFUSED),
		IF(__NR_io_uring_enter, REFUSED),
		IF(__NR_io_uring_register, REFUSED),
		IF(__NR_perf_event_open, REFUSED),
		IF(__NR_bpf, REFUSED),
		IF(__NR_mount, REFUSED),
		IF(__NR_umount2, REFUSED),
		IF(__NR_pivot_root, REFUSED),
		IF(__NR_unshare, REFUSED),
		IF(__NR_setns, REFUSED),
		IF(__NR_keyctl, REFUSED),
		IF(__NR_add_key, REFUSED),
		IF(__NR_request_key, REFUSED),
		IF(__NR_clone3, SECCOMP_RET_ERRNO | ENOSYS),
		IF(strict ? __NR_process_vm_readv : -1, REFUSED),
		IF(strict ? __NR_process_vm_writev : -1, REFUSED),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof rules / sizeof *rules, rules };

	argv += 1 + strict;
	if (!*argv)
		return 2;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("no filter");
		return 77;
	}
	execvp(*argv, argv);
	perror(*argv);
	return 127;
}

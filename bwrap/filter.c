/* SPDX-License-Identifier: MIT */
/*
 * What namespaces and missing capabilities do not shut: the host's keyrings (possession of a key is
 * inherited), the kernel's log where the machine lets everybody read it, sockets to the machine
 * below this one (they know no network namespace), input put into a terminal, and interfaces that
 * are young, large, and need no capability: BPF, io_uring, userfaultfd, perf. Docker's own filter
 * has these too. All else is left to the kernel's own checks.
 */
#include "bwrap/filter.h"

#include "common/cleanup.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE AUDIT_ARCH_RISCV64
#else
#error "which AUDIT_ARCH is this?"
#endif

#define X32_BIT	   0x40000000u /* in numbers of x86-64's other kind of program */
#define TIOC_STI   0x5412
#define TIOC_LINUX 0x541c /* it pastes */
#define INSN_MAX   128

/* The calls by the numbers of one kind of program. */
struct calls {
	unsigned arch;
	unsigned never[9];  /* 0 at the end */
	unsigned socket_nr; /* not with AF_VSOCK */
	unsigned ioctl_nr;
	unsigned missing; /* as if the kernel did not have it; 0: none */
};

static const struct calls kinds[] = {
	{.arch = NATIVE,
		.never = {SYS_add_key, SYS_request_key, SYS_keyctl, SYS_syslog, SYS_bpf,
			SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup},
		.socket_nr = SYS_socket,
		.ioctl_nr = SYS_ioctl},
#if defined(__x86_64__)
	/* 32 bits. socketcall hides its arguments; libraries use it only where there is no call of
	 * its own for a socket. */
	{.arch = AUDIT_ARCH_I386,
		.never = {286, 287, 288, 103, 357, 336, 374, 425},
		.socket_nr = 359,
		.ioctl_nr = 54,
		.missing = 102},
#endif
};

struct program {
	struct sock_filter f[INSN_MAX];
	size_t n;
};

static void load(struct program *p, size_t offset)
{
	p->f[p->n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

/* What follows is for that value; others go on `skip` instructions later. */
static void when(struct program *p, unsigned value, unsigned skip)
{
	p->f[p->n++] = (struct sock_filter)BPF_JUMP(
		BPF_JMP | BPF_JEQ | BPF_K, value, 0, (unsigned char)skip);
}

static void give(struct program *p, unsigned what)
{
	p->f[p->n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what);
}

static void refuse(struct program *p, unsigned value, int code)
{
	when(p, value, 1);
	give(p, SECCOMP_RET_ERRNO | (unsigned)code);
}

/* The lower half of an argument stands first on all that we know. */
static size_t arg(unsigned n)
{
	return offsetof(struct seccomp_data, args) + 8u * (size_t)n;
}

static void add_kind(struct program *p, const struct calls *c)
{
	size_t start;

	load(p, offsetof(struct seccomp_data, arch));
	start = p->n;
	when(p, c->arch, 0);
	load(p, offsetof(struct seccomp_data, nr));
	if (c->arch == AUDIT_ARCH_X86_64) {
		p->f[p->n++] =
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
		give(p, SECCOMP_RET_ERRNO | ENOSYS);
	}
	for (const unsigned *nr = c->never; *nr; nr++)
		refuse(p, *nr, EPERM);
	if (c->missing)
		refuse(p, c->missing, ENOSYS);
	when(p, c->socket_nr, 4);
	load(p, arg(0));
	refuse(p, AF_VSOCK, EPERM);
	give(p, SECCOMP_RET_ALLOW);
	when(p, c->ioctl_nr, 6);
	load(p, arg(1));
	refuse(p, TIOC_STI, EPERM);
	refuse(p, TIOC_LINUX, EPERM);
	give(p, SECCOMP_RET_ALLOW);
	give(p, SECCOMP_RET_ALLOW);
	p->f[start].jf = (unsigned char)(p->n - start - 1);
}

int filter_open(struct err *err)
{
	cleanup_close int fd = memfd_create("filter", MFD_CLOEXEC);
	struct program p = {.n = 0};
	ssize_t len;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		add_kind(&p, &kinds[i]);
	give(&p, SECCOMP_RET_ERRNO | ENOSYS); /* a kind of program that is not known */
	len = (ssize_t)(p.n * sizeof(*p.f));
	if (fd < 0 || write(fd, p.f, (size_t)len) != len || lseek(fd, 0, SEEK_SET) != 0)
		return err_set(err, errno, "the filter of system calls: %s", strerror(errno));
	return steal_fd(&fd);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The system call that a task is in, and the numbers of those that the probes tell apart, from
 * the tables of the kernel's source: arch/x86/entry/syscalls/syscall_64.tbl, scripts/syscall.tbl.
 * A call that a processor's kernel does not have gets a number that no call has.
 */
#ifndef SYSCALLS_H
#define SYSCALLS_H

#define NO_SUCH_CALL(n) (-100 - (n))

/* The same everywhere. */
#define NR_EPOLL_PWAIT2 441
#define NR_FUTEX_WAITV	449
#define NR_FUTEX_WAIT	455

#if defined(__TARGET_ARCH_x86)

#define NR_READ	       0
#define NR_WRITE       1
#define NR_POLL	       7
#define NR_READV       19
#define NR_WRITEV      20
#define NR_SELECT      23
#define NR_SCHED_YIELD 24
#define NR_SENDTO      44
#define NR_RECVFROM    45
#define NR_SENDMSG     46
#define NR_RECVMSG     47
#define NR_FUTEX       202
#define NR_EPOLL_WAIT  232
#define NR_PSELECT6    270
#define NR_PPOLL       271
#define NR_EPOLL_PWAIT 281

#define CALL_OF(regs) ((long)(regs)->orig_ax)

#elif defined(__TARGET_ARCH_arm64)

#define NR_EPOLL_PWAIT 22
#define NR_READ	       63
#define NR_WRITE       64
#define NR_READV       65
#define NR_WRITEV      66
#define NR_PSELECT6    72
#define NR_PPOLL       73
#define NR_FUTEX       98
#define NR_SCHED_YIELD 124
#define NR_SENDTO      206
#define NR_RECVFROM    207
#define NR_SENDMSG     211
#define NR_RECVMSG     212
#define NR_POLL	       NO_SUCH_CALL(0)
#define NR_SELECT      NO_SUCH_CALL(1)
#define NR_EPOLL_WAIT  NO_SUCH_CALL(2)

#define CALL_OF(regs) ((long)(regs)->syscallno)

#else
#error "the numbers of this processor's system calls are not known"
#endif

/* The system call that a task of user space is in; -1: none. */
static __always_inline long system_call_of(struct task_struct *p)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);

	return CALL_OF(regs);
}

#endif

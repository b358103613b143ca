/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks this CPU as being in one callback of the policy. Loaded once per callback, with that
 * callback as its target and with the maps of locks.bpf.c. The kernel calls the hot callbacks with
 * interrupts off, so the CPU is enough to identify the running one.
 */
#include "places.h"

char _license[] SEC("license") = "GPL";

const volatile u32 function = 0;

SEC("fentry")
int BPF_PROG(enter_callback)
{
	enter_function(CALLBACK, function);
	return 0;
}

SEC("fexit")
int BPF_PROG(leave_callback)
{
	leave_function(CALLBACK, function);
	return 0;
}

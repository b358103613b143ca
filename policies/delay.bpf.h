/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a task may wait for its CPU, and when a turn must end so that none waits for longer.
 */
#ifndef FLSCHED_DELAY_BPF_H
#define FLSCHED_DELAY_BPF_H

#include "common.bpf.h"

/* A policy with longer turns says so before it includes this. */
#ifndef DEFAULT_MAX_DELAY_US
#define DEFAULT_MAX_DELAY_US 100000
#endif

KNOB(max_delay_us, DEFAULT_MAX_DELAY_US, 1000, 10000000,
     "longest wait of a runnable task among up to 16 on its CPU, in microseconds");

#define CROWD 16 /* tasks on a CPU for which max_delay_us is kept */

static inline u64 longest_wait_ticks(void)
{
	return US_TO_NS(max_delay_us) / tick_ns;
}

/*
 * Return true if a turn of @used_ns, on a CPU where @waiting tasks wait, the first for @waited_ns,
 * must end, so that no other task waits for too long.
 *
 * If turns end at every tick from now on, the last of N waiting tasks runs N ticks from now, and it
 * has waited no longer than the first. So while the wait of the first and N ticks together are less
 * than the bound, no wait can exceed it, and there is no reason to switch: tasks that soon block by
 * themselves, as most do, are never interrupted.
 *
 * Where half of that time has passed, tasks compute. Then none has more than its part of the bound:
 * else, with turns of different lengths, the longest could be the same task's each time.
 */
static inline bool exceeds_bound(u64 waiting, u64 waited_ns, u64 used_ns)
{
	u64 bound = US_TO_NS(max_delay_us), left_ns;

	if (waiting >= CROWD)
		bound = bound * (waiting + 1) / CROWD;
	if (bound > LONGEST_NS)
		bound = LONGEST_NS;
	left_ns = bound > waiting * tick_ns ? bound - waiting * tick_ns : 0;
	return waited_ns >= left_ns ||
	       (2 * waited_ns >= left_ns && (used_ns + tick_ns) * waiting >= left_ns);
}

#endif /* FLSCHED_DELAY_BPF_H */

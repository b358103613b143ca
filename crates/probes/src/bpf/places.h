/* SPDX-License-Identifier: GPL-2.0-only */
/* Where a CPU is: in which function of a scheduling class, in which callback, in which kfunc. */
#ifndef PLACES_H
#define PLACES_H

/* vmlinux.h and libbpf disagree about the iterators; libbpf has them right. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Functions watched, numbered from 1 by user space; 0 is none. */
#define MAX_FUNCTIONS 128

enum kind { CLASS_FUNCTION, CALLBACK, KFUNC, NR_KINDS };

struct place {
	u64 now[NR_KINDS];		/* the innermost function of each kind */
	u64 outer[MAX_FUNCTIONS];	/* what `now` was when a function was entered */
	u64 outer_kfunc[MAX_FUNCTIONS]; /* the kfunc that was interrupted by a callback */
	u64 rq_lock_caller; /* the last caller of the kernel's wrapper around run queue locks */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct place);
} places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, u64);
} calls SEC(".maps");

static __always_inline struct place *this_place(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&places, &zero);
}

static __always_inline void enter_function(u32 kind, u32 function)
{
	struct place *place = this_place();
	u64 *count = bpf_map_lookup_elem(&calls, &function);

	if (!place || !count || kind >= NR_KINDS || function >= MAX_FUNCTIONS)
		return;
	++*count;
	/* A callback that has a task moved makes the kernel call the class again: still the
	 * callback. */
	if (kind == CLASS_FUNCTION && place->now[CALLBACK])
		return;
	place->outer[function] = place->now[kind];
	place->now[kind] = function;
	/* A callback in an interrupt may call the very kfunc in which a timer was interrupted. */
	if (kind == CALLBACK) {
		place->outer_kfunc[function] = place->now[KFUNC];
		place->now[KFUNC] = 0;
	}
}

static __always_inline void leave_function(u32 kind, u32 function)
{
	struct place *place = this_place();

	if (!place || kind >= NR_KINDS || function >= MAX_FUNCTIONS || place->now[kind] != function)
		return;
	place->now[kind] = place->outer[function];
	if (kind == CALLBACK)
		place->now[KFUNC] = place->outer_kfunc[function];
}

#endif

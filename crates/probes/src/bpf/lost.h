/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts the events for which a map had no room. The report names their number. */
#ifndef LOST_H
#define LOST_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} lost SEC(".maps");

static __always_inline void lose(void)
{
	u32 zero = 0;
	u64 *count = bpf_map_lookup_elem(&lost, &zero);

	if (count)
		++*count;
}

#endif

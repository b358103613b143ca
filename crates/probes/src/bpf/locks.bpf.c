/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which locks does scheduling take? Every acquisition of a spin or rw lock is seen at the entry of
 * the kernel's lock functions, and counted if this CPU is in a watched function then, or if one of
 * the scheduler's own functions asks for it. Counts are per CPU and per lock, which shows whether a
 * lock is one CPU's own or shared.
 */
#include "places.h"
#include "lost.h"

char _license[] SEC("license") = "GPL";

#define MAX_LOCKS	32768
#define MAX_CORE_RANGES 16
#define MAX_CPUS	4096

struct text_range {
	u64 start, end;
};

/* Text of the kernel's wrapper around run queue locks, and of the core's functions that lock. */
const volatile struct text_range rq_lock_wrapper;
const volatile struct text_range core[MAX_CORE_RANGES];

struct acquisition {
	u64 class_function;
	u64 callback;
	u64 kfunc;
	u64 lock;
	u64 taker; /* return address of the lock function */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, MAX_LOCKS);
	__type(key, struct acquisition);
	__type(value, u64);
} acquisitions SEC(".maps");

/* Where each CPU's copy of a per-CPU variable lies, from the variable's own address. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, u64);
} per_cpu_offsets SEC(".maps");

extern const void __per_cpu_offset __ksym;

/* Where the function returns to that has just been entered: on top of the stack, or in the link
 * register. */
static __always_inline u64 caller_of(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 address = 0;

	bpf_probe_read_kernel(&address, sizeof(address), (void *)PT_REGS_SP(ctx));
	return address;
#else
	return PT_REGS_RET(ctx);
#endif
}

static __always_inline bool contains(const volatile struct text_range *range, u64 address)
{
	return address >= range->start && address < range->end;
}

static __always_inline bool is_core(u64 address)
{
	u32 i;

	for (i = 0; i < MAX_CORE_RANGES; i++)
		if (contains(&core[i], address))
			return true;
	return false;
}

/* The cookie of these two is the function's number and its kind. */
SEC("kprobe.multi")
int enter(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);

	enter_function(cookie >> 32, (u32)cookie);
	return 0;
}

SEC("kretprobe.multi")
int leave(struct pt_regs *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);

	leave_function(cookie >> 32, (u32)cookie);
	return 0;
}

SEC("kprobe.multi")
int enter_rq_lock_wrapper(struct pt_regs *ctx)
{
	struct place *place = this_place();

	if (place)
		place->rq_lock_caller = caller_of(ctx);
	return 0;
}

SEC("kprobe.multi")
int take(struct pt_regs *ctx)
{
	struct place *place = this_place();
	struct acquisition key = {};
	u64 one = 1, *count;
	bool inside, wrapped;

	if (!place)
		return 0;
	key.class_function = place->now[CLASS_FUNCTION];
	key.callback = place->now[CALLBACK];
	key.kfunc = place->now[KFUNC];
	inside = key.class_function || key.callback || key.kfunc;
	key.taker = caller_of(ctx);
	wrapped = contains(&rq_lock_wrapper, key.taker);
	if (!inside && !wrapped && !is_core(key.taker))
		return 0;
	if (wrapped)
		key.taker = place->rq_lock_caller;
	key.lock = PT_REGS_PARM1(ctx);

	count = bpf_map_lookup_elem(&acquisitions, &key);
	if (count)
		++*count;
	else if (bpf_map_update_elem(&acquisitions, &key, &one, BPF_NOEXIST)) {
		/* Another CPU was faster, or there is no room. */
		count = bpf_map_lookup_elem(&acquisitions, &key);
		if (count)
			++*count;
		else
			lose();
	}
	return 0;
}

SEC("syscall")
int read_per_cpu_offsets(void *ctx)
{
	const u64 *offsets = (const u64 *)&__per_cpu_offset;
	u32 cpu;

	bpf_for (cpu, 0, MAX_CPUS) {
		u64 *slot = bpf_map_lookup_elem(&per_cpu_offsets, &cpu);

		if (!slot || bpf_probe_read_kernel(slot, sizeof(*slot), &offsets[cpu]))
			break;
	}
	return 0;
}

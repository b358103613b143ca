/* SPDX-License-Identifier: GPL-2.0-only */
/* What BPF C has and plain C has not: sections, loops, relocations, atomics. */
#ifndef SIM_LANGUAGE_H
#define SIM_LANGUAGE_H

#define SEC(name)	__attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline	__attribute__((noinline))
#define __weak		__attribute__((weak))
#define __hidden	__attribute__((visibility("hidden")))
#define __maybe_unused	__attribute__((unused))
#define __kptr
#define __arg_trusted
#define __arg_nonnull
#define private(name) static

#define likely(x)	 __builtin_expect(!!(x), 1)
#define unlikely(x)	 __builtin_expect(!!(x), 0)
#define barrier()	 __asm__ volatile("" ::: "memory")
#define barrier_var(var) __asm__ volatile("" : "+r"(var))
#define __sink(expr)	 __asm__ volatile("" : "+g"(expr))

#define READ_ONCE(x)	   (*(volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, val) (*(volatile typeof(x) *)&(x) = (val))

#define min(a, b)			((a) < (b) ? (a) : (b))
#define max(a, b)			((a) > (b) ? (a) : (b))
#define clamp(v, lo, hi)		min(max(v, lo), hi)
#define ARRAY_SIZE(array)		(sizeof(array) / sizeof((array)[0]))
#define div_round_up(a, b)		(((a) + (b) - 1) / (b))
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

static inline bool time_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static inline bool time_after(u64 a, u64 b)
{
	return time_before(b, a);
}

static inline bool vtime_before(u64 a, u64 b)
{
	return time_before(a, b);
}

/* The limits are the verifier's business: here loops end by themselves. */
#define can_loop true

/* After a full loop the variable is one less than the limit, as in the kernel. */
#define bpf_for(i, start, end) \
	for (int __next = (start), __end = (end); __next < __end && ((i) = __next++, true);)
#define bpf_repeat(n) for (int __left = (n); __left > 0; __left--)

/* There is one version of the types, so that nothing needs relocating. */
#define bpf_core_field_exists(field...)	      ((void)sizeof(field), true)
#define bpf_core_type_exists(type)	      ((void)sizeof(type), true)
#define bpf_core_type_size(type)	      sizeof(type)
#define bpf_core_type_id_kernel(type)	      0
#define bpf_rdonly_cast(pointer, type_id)     ((const void *)(pointer))
#define bpf_core_enum_value_exists(type, val) ((void)(type)(val), true)
#define bpf_core_enum_value(type, val)	      ((type)(val))
#define bpf_ksym_exists(function)	      ((function) != NULL)
#define BPF_CORE_READ(from, member)	      ((from)->member)
#define __COMPAT_ENUM_OR_ZERO(type, val)      ((type)(val))

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BPF maps. A definition stays as it is in the policy: its members are pointers, from whose types a
 * macro reads what was meant. The first use opens the map: the pointer `type` then points to it.
 */
#ifndef SIM_MAPS_H
#define SIM_MAPS_H

#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

/* Only these kinds are modelled. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
};

/* An open map; only arrays have their values in one piece. */
struct sim_map {
	u8 *values;
	u64 stride;	/* from a value to the next, in bytes */
	u64 cpu_stride; /* from a CPU's values to the next CPU's */
	u32 type;
	u32 max_entries;
	u32 key_size;
	u32 value_size;
	u32 id;
};

KFUNC(struct sim_map *, sim_map_open, void *definition, u32 type, u32 max_entries, u32 key_size,
      u32 value_size);
KFUNC(void *, sim_hash_lookup, struct sim_map *map, const void *key);
KFUNC(s32, sim_hash_update, struct sim_map *map, const void *key, const void *value, u64 flags);
KFUNC(s32, sim_hash_delete, struct sim_map *map, const void *key);
KFUNC(void *, sim_task_storage_get, struct sim_map *map, struct task_struct *p, const void *value,
      u64 flags);
KFUNC(s32, sim_task_storage_delete, struct sim_map *map, struct task_struct *p);

#define sim_number(map, member) ((u32)(sizeof(*(map)->member) / sizeof(int)))

/* Task storage has no number of entries. */
#define sim_map_of(map, entries)                                                                  \
	({                                                                                        \
		if (!(map)->type)                                                                 \
			(map)->type =                                                             \
				(void *)sim_map_open((map), sim_number(map, type), (entries),     \
						     sizeof(*(map)->key), sizeof(*(map)->value)); \
		(struct sim_map *)(map)->type;                                                    \
	})
#define sim_map(map) sim_map_of(map, sim_number(map, max_entries))

static inline void *sim_map_lookup(struct sim_map *map, const void *key)
{
	switch (map->type) {
	case BPF_MAP_TYPE_ARRAY:
		if (*(const u32 *)key >= map->max_entries)
			return NULL;
		return map->values + *(const u32 *)key * map->stride;
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		if (*(const u32 *)key >= map->max_entries)
			return NULL;
		return map->values + *(const u32 *)key * map->stride +
		       bpf_get_smp_processor_id() * map->cpu_stride;
	default:
		return sim_hash_lookup(map, key);
	}
}

static inline void *sim_map_lookup_percpu(struct sim_map *map, const void *key, u32 cpu)
{
	if (*(const u32 *)key >= map->max_entries || cpu >= scx_bpf_nr_cpu_ids())
		return NULL;
	return map->values + *(const u32 *)key * map->stride + cpu * map->cpu_stride;
}

static inline s32 sim_map_update(struct sim_map *map, const void *key, const void *value, u64 flags)
{
	void *old;

	if (map->type != BPF_MAP_TYPE_ARRAY && map->type != BPF_MAP_TYPE_PERCPU_ARRAY)
		return sim_hash_update(map, key, value, flags);
	old = sim_map_lookup(map, key);
	if (!old)
		return -E2BIG;
	if (flags & BPF_NOEXIST)
		return -EEXIST;
	__builtin_memcpy(old, value, map->value_size);
	return 0;
}

static inline s32 sim_map_delete(struct sim_map *map, const void *key)
{
	if (map->type == BPF_MAP_TYPE_ARRAY || map->type == BPF_MAP_TYPE_PERCPU_ARRAY)
		return -EINVAL;
	return sim_hash_delete(map, key);
}

#define bpf_map_lookup_elem(map, key)		    sim_map_lookup(sim_map(map), key)
#define bpf_map_lookup_percpu_elem(map, key, cpu)   sim_map_lookup_percpu(sim_map(map), key, cpu)
#define bpf_map_update_elem(map, key, value, flags) sim_map_update(sim_map(map), key, value, flags)
#define bpf_map_delete_elem(map, key)		    sim_map_delete(sim_map(map), key)
#define bpf_task_storage_get(map, p, value, flags) \
	sim_task_storage_get(sim_map_of(map, 0), p, value, flags)
#define bpf_task_storage_delete(map, p) sim_task_storage_delete(sim_map_of(map, 0), p)

/* Timers. */
struct bpf_timer {
	u64 opaque[2];
};

KFUNC(s64, sim_timer_init, struct bpf_timer *timer, struct sim_map *map, u64 clock);
KFUNC(s64, bpf_timer_start, struct bpf_timer *timer, u64 nsecs, u64 flags);
KFUNC(s64, bpf_timer_cancel, struct bpf_timer *timer);
KFUNC(s64, sim_timer_set_callback, struct bpf_timer *timer, void *callback);

#define bpf_timer_init(timer, map, clock)	sim_timer_init(timer, sim_map(map), clock)
#define bpf_timer_set_callback(timer, callback) sim_timer_set_callback(timer, (void *)(callback))

#endif

//! The weight of a nice value: `sched_prio_to_weight`.

/// The weight at nice 0: `NICE_0_LOAD`, without its scaling.
pub const NICE_0: u64 = 1024;

/// The weight of a task that is not a real-time one; each nice level is worth about 10 % of CPU time.
pub fn load_weight(static_prio: i32) -> u64 {
    const WEIGHTS: [u64; 40] = [
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906,
        3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45,
        36, 29, 23, 18, 15,
    ];
    WEIGHTS[(static_prio - 100).clamp(0, 39) as usize]
}

//! One loader for every policy: open, configure, load, attach; statistics, exit report, detach.
use crate::config::release;
use crate::doctor::boot;
use crate::guard::{self, Guard};
use crate::object::{STATS_MAP, ops_member, set_ops_member, variables};
use crate::supervise::UNGUARDED;
use crate::verifier::Costliest;
use crate::{
    Error, ExitReport, Frequencies, Purpose, access, constants, exit, log, object, partial, processes,
    sched_ext, topology,
};
use flsched_machine::Places;
use flsched_spec::{Policy, PolicySpec, UsageError};
use libbpf_rs::btf::Btf;
use libbpf_rs::{Link, MapCore, MapFlags, MapMut, MapType, Object, OpenObject, Program, ProgramType};
use nix::sys::time::TimeValLike;
use scx_utils::compat;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Which tasks a policy schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of the machine's normal tasks.
    Machine,
    /// Only tasks of class SCHED_EXT.
    Partial,
}

/// A scheduler attached to this machine; dropping it restores the default one.
pub struct Running {
    policy: &'static Policy,
    /// Unless somebody else guards it. It ends before the link that it detaches.
    guard: Option<Guard>,
    // Dropped before the object that they point into.
    links: Vec<Link>,
    object: Object,
    /// Where the policy's data say why the kernel ended it.
    report: Option<Range<usize>>,
    warnings: Vec<String>,
}

/// Length of the debug dump that the kernel writes at an ejection, in bytes.
const DUMP_LEN: u32 = 32 * 1024;
/// How long the kernel may take to give the machine back to the default scheduler.
const DETACH_LIMIT: Duration = Duration::from_secs(20);

/// The environment variable in which `flsched vm` names the machine's clock.
const VM_VARIABLE: &str = "FLSCHED_CLOCK";

/// Flags that every policy asks for. The first kernels with sched_ext do not know them, and refuse flags that they do not
/// know. They enqueue tasks that must not migrate without being asked; every waker takes the lock of the other CPU itself.
const OPTIONAL_FLAGS: [(&str, u64); 2] =
    [("SCX_OPS_ENQ_MIGRATION_DISABLED", 1 << 4), ("SCX_OPS_ALLOW_QUEUED_WAKEUP", 1 << 5)];

/// Turns that are over at the tick end as lazily as those of EEVDF do, as FLSCHED's paper has it: from Linux 7.4 on, and as long as
/// nobody has measured it only if the user asks for it in the environment.
pub(crate) const LAZY_FLAG: &str = "SCX_OPS_LAZY_RESCHED";
const LAZY: &str = "FLSCHED_LAZY_RESCHED";

/// Attempts while CPUs come and go.
const HOTPLUG_TRIES: usize = 20;

/// Opens, configures, loads and attaches a policy; repeats this if CPUs came or went in between. It is guarded against
/// real-time tasks that do not sleep.
pub fn start(spec: &PolicySpec, scope: Scope) -> Result<Running, Error> {
    processes::check(spec)?;
    let guard = is_at_risk().then(Guard::start);
    let is_unguarded = matches!(guard, Some(Err(_)));
    let guard = guard.and_then(Result::ok);
    let mut outcome = Err(Error::HotplugRace);
    for _ in 0..HOTPLUG_TRIES {
        outcome = start_once(spec, scope, guard.as_ref());
        if !matches!(outcome, Err(Error::HotplugRace)) {
            break;
        }
    }
    let mut running = outcome?;
    running.guard = guard;
    running.warnings.extend(is_unguarded.then(|| UNGUARDED.to_owned()));
    Ok(running)
}

/// Whether real-time tasks that do not sleep stop everything else while a scheduler is attached, on a machine that matters:
/// one of `flsched vm` is thrown away, and there a guard would be part of what is measured.
fn is_at_risk() -> bool {
    std::env::var_os(VM_VARIABLE).is_none() && !sched_ext::has_deadline_server()
}

/// The same, but [`Error::HotplugRace`] if CPUs came or went in between. The guard watches it when this returns.
pub(crate) fn start_once(spec: &PolicySpec, scope: Scope, guard: Option<&Guard>) -> Result<Running, Error> {
    let policy = spec.policy;
    let btf = btf_of(policy)?;
    let frequencies = frequencies_for(&btf);
    if let Some(frequencies) = &frequencies {
        frequencies.clocks().check(spec)?;
    }
    check_machine()?;
    if !sched_ext::has_deadline_server() {
        guard::check()?;
    }

    log::capture();
    let (mut object, warnings) = load(spec, scope, &btf, frequencies.as_ref())?;
    let refused = |cause| refused(policy, cause);
    let raised = guard.map(Guard::raise_to_attach);
    let links = attach(&mut object, policy.name).map_err(|e| {
        let known = if is_busy(&e) { check_machine().err() } else { obstacle_of_boot() };
        known.unwrap_or_else(|| refused(e))
    })?;
    let running = Running { policy, guard: None, links, object, report: exit::place(&btf), warnings };
    if let (Some(guard), Some(link)) = (guard, running.link()) {
        guard.watch(link);
    }
    drop(raised);
    let ended = running.exited();
    let has_ended = ended.as_ref().is_some_and(|report| report.restart || report.ejected);
    if has_ended && let Some(guard) = guard {
        guard.release();
    }
    // EBUSY; of what, the kernel does not say.
    if let Some(report) = &ended
        && report.reason.contains("failed (-16)")
        && let Some(found) = boot::reservations()
    {
        return Err(Error::NoRoom { found });
    }
    match ended {
        Some(report) if report.restart => Err(Error::HotplugRace),
        Some(report) if report.ejected => {
            Err(Error::EjectedAtOnce { policy: policy.name.to_owned(), report: Box::new(report) })
        }
        _ => Ok(running),
    }
}

/// Does everything but the last step: the kernel's verifier checks the policy, but nothing is
/// attached. Returns which program took it the most work, if the kernel says that.
pub fn try_load(policy: &'static Policy) -> Result<Option<Costliest>, Error> {
    log::capture();
    let btf = btf_of(policy)?;
    let frequencies = frequencies_for(&btf);
    let (object, _) = load(&PolicySpec::new(policy), Scope::Machine, &btf, frequencies.as_ref())?;
    Ok(Costliest::of(&object))
}

fn btf_of(policy: &Policy) -> Result<Btf<'static>, Error> {
    let missing = || malformed(policy, "no BTF");
    Btf::from_raw(policy.name, policy.object).ok().flatten().ok_or_else(missing)
}

/// The loaded object, and warnings about the machine.
fn load(
    spec: &PolicySpec,
    scope: Scope,
    btf: &Btf<'_>,
    frequencies: Option<&Frequencies>,
) -> Result<(Object, Vec<String>), Error> {
    let is_lazy = is_lazy()?;
    let policy = spec.policy;
    if let Some(cpu) = topology::beyond_tables() {
        return Err(Error::TooManyCpus { cpu });
    }
    let mut open = object::open(policy)?;
    let places = topology::of_this_machine();
    configure(&mut open, (spec, scope), btf, (&places, frequencies))
        .map_err(|what| malformed(policy, what))?;
    let mut object = open.load().map_err(|e| refused(policy, e.into()))?;
    fill_lists(&mut object, spec).map_err(|what| malformed(policy, what))?;
    let useless = frequencies.and_then(Frequencies::why_useless).map(|why| {
        format!("{} finds no slow CPU here, so what it does by frequency changes nothing: {why}", policy.name)
    });
    let lazily = is_lazy.then(|| format!("{LAZY}=1: turns that are over at the tick end lazily"));
    Ok((object, places.warning.into_iter().chain(useless).chain(lazily).collect()))
}

fn refused(policy: &Policy, cause: anyhow::Error) -> Error {
    let log = log::tail();
    // libbpf's error is ENOENT, as for much else, so its message decides.
    if log.iter().any(|line| line.contains("failed to open system Kconfig")) {
        return Error::NoKernelConfig { release: release() };
    }
    if let Some(forbidden) = access::forbidden_by(&format!("{cause:#}")) {
        return forbidden;
    }
    Error::Load { policy: policy.name.to_owned(), cause, log }
}

fn malformed(policy: &Policy, what: impl ToString) -> Error {
    Error::Object { policy: policy.name.to_owned(), what: what.to_string() }
}

impl Running {
    pub fn policy(&self) -> &'static Policy {
        self.policy
    }

    /// Properties of this machine that make the policy perform worse, as messages to the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Why the kernel ended it; `None` while it is attached.
    pub fn exited(&self) -> Option<ExitReport> {
        let mut report = exit::read(&self.object, self.report.clone()?)?;
        if self.guard.as_ref().is_some_and(Guard::has_fired) {
            report.set_by_guard();
        }
        Some(report)
    }

    /// The link by which it is attached.
    pub(crate) fn link(&self) -> Option<BorrowedFd<'_>> {
        self.links.last().map(AsFd::as_fd)
    }

    /// Its callbacks as programs in the kernel, in the order of its source; without those that this kernel does not need.
    pub fn callbacks(&self) -> impl Iterator<Item = Program<'_>> {
        self.object.progs().filter(|prog| prog.prog_type() == ProgramType::StructOps && prog.autoload())
    }

    /// The policy's named statistics, summed over CPUs, in the order of its source.
    pub fn stats(&self) -> Result<Vec<(String, u64)>, Error> {
        let Some(map) = self.object.maps().find(|map| map.name() == STATS_MAP) else {
            return Ok(Vec::new());
        };
        sums(self.policy, &map).map_err(|cause| malformed(self.policy, cause))
    }

    /// Writes an entry of one of the policy's array maps, for tests that replace hardware.
    pub fn set_entry(&self, map: &str, key: u32, value: &[u8]) -> Result<(), Error> {
        let failed = |what: String| malformed(self.policy, what);
        let found = self.object.maps().find(|it| it.name() == map);
        let found = found.ok_or_else(|| failed(format!("no map {map}")))?;
        found.update(&key.to_ne_bytes(), value, MapFlags::ANY).map_err(|e| failed(format!("{map}: {e}")))
    }

    /// Detaches while the guard still watches: detaching waits for RCU, which real-time tasks can keep from running.
    pub(crate) fn detach_guarded(&self, guard: &Guard) {
        if let Some(link) = self.link() {
            // SAFETY: the link is open. If the guard has detached it, this is an error without consequences.
            unsafe { libbpf_rs::libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
        }
        guard.release();
    }

    /// Detaches; the default scheduler runs the machine when this returns.
    pub fn stop(mut self) -> Result<ExitReport, Error> {
        if let Some(guard) = &self.guard {
            self.detach_guarded(guard);
        }
        self.links.clear();
        let deadline = Instant::now() + DETACH_LIMIT;
        loop {
            let detached = sched_ext::status().is_none_or(|status| !status.is_active());
            if let (true, Some(report)) = (detached, self.exited()) {
                return Ok(report);
            }
            if Instant::now() > deadline {
                let what = format!("the kernel did not detach it within {} s", DETACH_LIMIT.as_secs());
                return Err(malformed(self.policy, what));
            }
            sleep(Duration::from_millis(2));
        }
    }
}

/// A policy's named statistics from their map, summed over CPUs, in the order of its source.
pub(crate) fn sums(policy: &Policy, map: &impl MapCore) -> libbpf_rs::Result<Vec<(String, u64)>> {
    let cpus = map.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?.unwrap_or_default();
    let word = |cpu: &Vec<u8>, index: usize| {
        Some(u64::from_ne_bytes(cpu.get(index * 8..index * 8 + 8)?.try_into().ok()?))
    };
    let sum = |index: usize| cpus.iter().filter_map(|cpu| word(cpu, index)).sum();
    let named = policy.statistics.iter().enumerate();
    Ok(named.map(|(index, statistic)| (statistic.name.clone(), sum(index))).collect())
}

/// Whether a policy can attach here, now; if not, why.
pub fn check_machine() -> Result<(), Error> {
    let Some(status) = sched_ext::status() else {
        return Err(Error::NoSchedExt { release: release() });
    };
    Purpose::ATTACH.check()?;
    if status.is_active() {
        let ops = status.ops.unwrap_or_else(|| "(unnamed)".into());
        let holder = sched_ext::holder(&ops);
        return Err(Error::Busy { ops, holder, no_sub_scheduler: sched_ext::why_no_sub_scheduler() });
    }
    let kfuncs = crate::malformed_kfuncs();
    if !kfuncs.is_empty() {
        return Err(Error::MalformedBtf { release: release(), kfuncs });
    }
    Ok(())
}

/// As [`check_machine`]; refuses partial mode on a busy machine, too: [`Error::CpusBusy`].
pub fn check_partial() -> Result<(), Error> {
    check_machine()?;
    if sched_ext::has_deadline_server() {
        return Ok(());
    }
    partial::obstacle().map_or(Ok(()), |obstacle| Err(Error::CpusBusy(obstacle)))
}

/// The CPUs' frequencies, for a policy that uses them: reading them takes several files a CPU.
fn frequencies_for(btf: &Btf<'_>) -> Option<Frequencies> {
    let asks = variables(btf, ".rodata").iter().any(|(name, _, _)| *name == "max_mhz");
    asks.then(Frequencies::of_this_machine)
}

fn configure(
    open: &mut OpenObject,
    (spec, scope): (&PolicySpec, Scope),
    btf: &Btf<'_>,
    (places, frequencies): (&Places, Option<&Frequencies>),
) -> anyhow::Result<()> {
    for (name, value) in spec.knobs() {
        compat::set_rodata_var(open, name, &value.to_ne_bytes())?;
    }
    let clocks = frequencies.map(Frequencies::clocks);
    for (name, _, _) in variables(btf, ".rodata") {
        if name == "tick_ns" {
            compat::set_rodata_var(open, name, &tick_ns().to_ne_bytes())?;
        }
        if let Some(table) = places.bytes(name).or_else(|| clocks.as_ref()?.bytes(name)) {
            compat::set_rodata_var(open, name, &table)?;
        }
        if let Some(constant) = name.strip_prefix("__").filter(|n| n.starts_with("SCX_")) {
            compat::set_rodata_var(open, name, &constants::value(constant).to_ne_bytes())?;
        }
    }
    compat::set_lib_features(open)?;
    compat::set_rodata_var(open, "uei_dump_len", &DUMP_LEN.to_ne_bytes())?;

    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".data.uei_dump") {
            map.set_value_size(DUMP_LEN)?;
        }
        if map.map_type() == MapType::StructOps {
            configure_ops(spec.policy, &mut map, btf, scope)
                .ok_or_else(|| anyhow::anyhow!("its ops table lacks a member of struct sched_ext_ops"))?;
        }
    }
    // The probe in scx's headers finds out whether BPF itself disables migration. It needs the
    // function tracer; without it the headers rely on the kernel's version.
    if !compat::function_tracer_available() {
        for mut prog in open.progs_mut().filter(|prog| prog.prog_type() != ProgramType::StructOps) {
            prog.set_autoload(false);
        }
    }
    Ok(())
}

fn fill_lists(object: &mut Object, spec: &PolicySpec) -> anyhow::Result<()> {
    for (name, pids) in spec.pids() {
        let map = object.maps_mut().find(|map| map.name() == name.as_str());
        let map = map.ok_or_else(|| anyhow::anyhow!("no list '{name}'"))?;
        for pid in pids {
            map.update(&pid.to_ne_bytes(), &[1], MapFlags::ANY)?;
        }
    }
    Ok(())
}

/// Length of the timer tick. The kernel advances its coarse clocks by it (`KTIME_LOW_RES`), so their
/// resolution shows it even where the kernel's configuration is not readable.
fn tick_ns() -> u64 {
    const COARSEST: u64 = 10_000_000; // HZ=100
    let resolution = nix::time::clock_getres(nix::time::ClockId::CLOCK_MONOTONIC_COARSE);
    resolution.ok().and_then(|tick| u64::try_from(tick.num_nanoseconds()).ok()).unwrap_or(COARSEST)
}

/// Whether the user asks for lazy rescheduling.
fn wants_lazy() -> Result<bool, UsageError> {
    match std::env::var_os(LAZY) {
        None => Ok(false),
        Some(value) if value == "0" => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(UsageError(format!("{LAZY}={} is neither 0 nor 1", value.to_string_lossy()))),
    }
}

/// Whether rescheduling is lazy. An error: the user asks for it, and this kernel cannot do it.
fn is_lazy() -> Result<bool, UsageError> {
    let wants = wants_lazy()?;
    if wants && !sched_ext::has_lazy_rescheduling() {
        return Err(UsageError(format!(
            "{LAZY}=1: this kernel has no {LAZY_FLAG} (Linux 7.4 and newer): unset it"
        )));
    }
    Ok(wants)
}

fn configure_ops(
    policy: &Policy,
    ops: &mut libbpf_rs::OpenMapMut<'_>,
    btf: &Btf<'_>,
    scope: Scope,
) -> Option<()> {
    set_ops_member(ops, btf, "hotplug_seq", &sched_ext::hotplug_seq().unwrap_or(0).to_ne_bytes())?;
    set_ops_member(ops, btf, "name", policy.ops_name().as_bytes())?;
    set_ops_member(ops, btf, "exit_dump_len", &DUMP_LEN.to_ne_bytes())?;
    let mut flags = u64::from_ne_bytes(ops_member(ops, btf, "flags")?.try_into().ok()?);
    if scope == Scope::Partial {
        flags |= compat::read_enum("scx_ops_flags", "SCX_OPS_SWITCH_PARTIAL").ok()?;
    }
    for (flag, bit) in OPTIONAL_FLAGS {
        if compat::read_enum("scx_ops_flags", flag).is_err() {
            flags &= !bit;
        }
    }
    // From 7.1 on the kernel itself has tasks enqueued again that cannot run where they were put, and
    // `cpu_release` is deprecated.
    if let Ok(immediately) = compat::read_enum("scx_ops_flags", "SCX_OPS_ALWAYS_ENQ_IMMED") {
        flags |= immediately;
        set_ops_member(ops, btf, "cpu_release", &[])?;
    }
    if matches!(wants_lazy(), Ok(true))
        && let Ok(lazily) = compat::read_enum("scx_ops_flags", LAZY_FLAG)
    {
        flags |= lazily;
    }
    set_ops_member(ops, btf, "flags", &flags.to_ne_bytes())?;
    Some(())
}

fn attach(object: &mut Object, name: &str) -> anyhow::Result<Vec<Link>> {
    let mut links = Vec::new();
    for prog in
        object.progs_mut().filter(|prog| prog.prog_type() != ProgramType::StructOps && prog.autoload())
    {
        links.push(prog.attach()?);
    }
    let ops = |map: &MapMut<'_>| map.map_type() == MapType::StructOps;
    let mut ops = object.maps_mut().find(ops).ok_or_else(|| anyhow::anyhow!("{name} has no ops table"))?;
    links.push(ops.attach_struct_ops()?);
    Ok(links)
}

/// Why the kernel refuses any scheduler, of what it says only in its log.
fn obstacle_of_boot() -> Option<Error> {
    if boot::is_real_time() {
        return Some(Error::RealTimeKernel { release: release() });
    }
    boot::isolated_cpus().map(|cpus| Error::Isolated { cpus })
}

fn is_busy(error: &anyhow::Error) -> bool {
    // libbpf-rs has no error kind for EBUSY, so its text decides.
    error.chain().any(|cause| cause.to_string().contains("busy"))
}

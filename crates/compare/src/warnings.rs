//! Warnings about a comparison's figures, each with its remedy.
use crate::Target;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::result::ArmResult;
use crate::spec::CompareSpec;
use crate::verdict::MIN_RUNS;
use crate::{Contender, Waits};

/// Share of the CPUs that others may use before it is worth a warning.
const BUSY: f64 = 0.25;

/// The first version of QEMU that divides the time to the next timer among the virtual CPUs.
const FAIR_QEMU: (u32, u32) = (8, 1);

pub(crate) fn warnings(spec: &CompareSpec, environment: &Environment, results: &[ArmResult]) -> Vec<String> {
    let mut warnings = Vec::new();
    if (spec.runs as usize) < MIN_RUNS {
        warnings.push(format!(
            "{} run(s) of each are too few for a verdict: use --runs {MIN_RUNS} or more",
            spec.runs
        ));
    }
    if spec.clock == Clock::Work {
        warnings.extend(long_turns(environment));
    }
    if spec.clock == Clock::Wall {
        warnings.extend(busy(environment));
        warnings.extend(oversubscribed(environment));
    }
    if spec.on == Target::Host && environment.governor.as_deref() == Some("powersave") {
        warnings.push(
            "the frequency governor is powersave: times may follow the CPU's frequency more than \
             the scheduler; set it to performance"
                .into(),
        );
    }
    if spec.schedulers.iter().any(|it| it.scheduler.is_realtime()) {
        warnings.extend(throttling(environment));
    }
    warnings.extend(openmp_settings(environment));
    warnings.extend(waits(spec, environment));
    if results.iter().any(|result| result.time_s.is_some() && result.migrations.is_none()) {
        warnings.push(
            "migrations are not counted: that needs root, or kernel.perf_event_paranoid below 1".into(),
        );
    }
    warnings.extend(no_frequencies(spec, environment, results));
    warnings
}

/// A comparison of a scheduler that chooses CPUs by their frequency needs frequencies that vary.
fn no_frequencies(spec: &CompareSpec, environment: &Environment, results: &[ArmResult]) -> Vec<String> {
    let is_smove = |it: &Contender| it.scheduler.to_string().split(':').next() == Some("smove");
    let timed = || results.iter().filter(|result| result.time_s.is_some());
    if !spec.schedulers.iter().any(is_smove) || timed().count() == 0 {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    if let Some(machine) = environment.model.as_ref().filter(|_| timed().all(|it| it.residency.is_none())) {
        warnings.push(format!("smove finds no slow CPU: the frequencies of {machine} do not change"));
        return warnings;
    }
    if !timed().any(|result| result.figures.iter().any(|it| it.name == "busy_mhz")) {
        warnings.push(
            "the CPUs' frequencies are not reported: that needs their counters (APERF, MPERF), which virtual \
             machines hardly ever have, and root, or kernel.perf_event_paranoid below 1"
                .into(),
        );
    }
    if timed().all(|result| result.residency.is_none()) {
        warnings.push(
            "for how long CPUs ran at which frequency is not known: the kernel controls none here (no \
             cpufreq), as in most virtual machines"
                .into(),
        );
    }
    warnings
}

/// They may decide more than any scheduler does.
fn openmp_settings(environment: &Environment) -> Option<String> {
    let settings: Vec<_> = environment.openmp.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!settings.is_empty())
        .then(|| format!("parallel programs ran with settings from your environment: {}", settings.join(" ")))
}

/// How the environment of `eevdf+sleep` differs from that of `eevdf`.
fn waits(spec: &CompareSpec, environment: &Environment) -> Vec<String> {
    let asked = |waits: &Waits| spec.schedulers.iter().any(|it| it.waits == Some(*waits));
    let is_set = |name: &str| environment.openmp.contains_key(name);
    let line = |waits: Waits| format!("+{waits}: {}", waits.choose(is_set));
    Waits::ALL.into_iter().filter(asked).map(line).collect()
}

/// Others used the machine that keeps the clock.
fn busy(environment: &Environment) -> Option<String> {
    let (load, cpus) = match &environment.vm {
        Some(vm) => (&vm.host_load_average, vm.host_cpus),
        None => (&environment.load_average, environment.cpus),
    };
    let load = *load.first()?;
    (load > BUSY * f64::from(cpus)).then(|| {
        format!(
            "the load average was {load:.2} on {cpus} CPUs at the start: other programs take part; \
             stop them, or use --clock parallel in a VM"
        )
    })
}

/// Virtual CPUs wait for real ones.
fn oversubscribed(environment: &Environment) -> Option<String> {
    let vm = environment.vm.as_ref()?;
    (environment.cpus > vm.host_cpus).then(|| {
        format!(
            "the VM has {} CPUs, the host {}: virtual CPUs take turns, and real time in the VM \
             depends on whose; use --clock parallel, or fewer CPUs",
            environment.cpus, vm.host_cpus
        )
    })
}

/// Older versions of QEMU let a virtual CPU run until the next timer before another has its turn, so
/// that a task which waits for another CPU's task spins through all that time.
fn long_turns(environment: &Environment) -> Option<String> {
    let version = environment.vm.as_ref()?.qemu_version.as_ref()?;
    (environment.cpus > 1 && qemu_release(version)? < FAIR_QEMU).then(|| {
        format!(
            "this QEMU is older than {}.{}: on the work clock its virtual CPUs take long turns, \
             and programs that spin or yield while they wait appear slower than with a newer one",
            FAIR_QEMU.0, FAIR_QEMU.1
        )
    })
}

/// `(8, 1)` of `QEMU emulator version 8.1.2 (Debian …)`.
fn qemu_release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split_once("version ")?.1.split(|next: char| !next.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The kernel keeps a share of each CPU from real-time tasks.
fn throttling(environment: &Environment) -> Option<String> {
    let number = |name: &str| environment.sysctl.get(name)?.parse::<f64>().ok();
    let (runtime, period) = (number("sched_rt_runtime_us")?, number("sched_rt_period_us")?);
    (runtime >= 0.0 && runtime < period).then(|| {
        format!(
            "the kernel leaves fifo and rr at most {:.0} % of a CPU while other tasks wait \
             (kernel.sched_rt_runtime_us)",
            100.0 * runtime / period
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::VmEnvironment;

    fn in_vm(vm: VmEnvironment) -> Environment {
        Environment { cpus: 4, vm: Some(vm), ..Environment::default() }
    }

    #[test]
    fn old_qemu() {
        let with = |version: &str| {
            long_turns(&in_vm(VmEnvironment { qemu_version: Some(version.into()), ..Default::default() }))
        };
        assert!(with("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)").is_some());
        assert!(with("QEMU emulator version 10.0.8").is_none());
        assert!(with("QEMU emulator version 8.1.0").is_none());
        assert!(with("something else").is_none());
    }

    #[test]
    fn the_host_that_keeps_the_clock_is_busy() {
        let host = |load: f64, host_cpus: u32| {
            in_vm(VmEnvironment { host_load_average: vec![load], host_cpus, ..Default::default() })
        };
        let remedy = |warning: Option<String>| warning.is_some_and(|it| it.contains("--clock parallel"));
        assert!(remedy(busy(&host(2.0, 4))) && busy(&host(0.1, 4)).is_none());
        assert!(remedy(oversubscribed(&host(0.0, 2))) && oversubscribed(&host(0.0, 4)).is_none());
    }

    #[test]
    fn throttled_real_time_tasks() {
        let with = |runtime: &str| {
            let sysctl = [("sched_rt_runtime_us", runtime), ("sched_rt_period_us", "1000000")]
                .map(|(name, value)| (name.to_string(), value.to_string()));
            throttling(&Environment { sysctl: sysctl.into(), ..Environment::default() })
        };
        assert!(with("950000").is_some_and(|text| text.contains("95 %")));
        assert!(with("-1").is_none() && with("1000000").is_none());
    }
}

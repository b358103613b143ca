//! `flsched doctor --topology`: what the loader makes of a machine's CPUs.
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use flsched_host::Layout;
use flsched_machine::{CpuLocation, GroupOfCpus, MAX_CPUS, Sysfs, write_cpu_list};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

pub fn run(tarball: Option<&Path>, as_json: bool) -> Result<u8> {
    let layout = match tarball {
        Some(path) => Layout::of_tarball(path)?,
        None => Layout::of_this_machine(),
    };
    let mut out = io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report(&layout))?)?;
    } else {
        write!(out, "{}", text(&layout))?;
    }
    Ok(0)
}

fn text(layout: &Layout) -> String {
    let groups = layout.places.groups();
    let mut text = String::new();
    if let Some(machine) = &layout.machine {
        text += &summary(machine);
    }
    if let Some(warning) = &layout.places.warning {
        text += &format!("warning: {warning}\n");
    }
    text += &format!(
        "\nPolicies search for CPUs group by group, the nearest first; a group has at most 64 CPUs.\n\n{}\n",
        table(&groups, layout.machine.as_ref())
    );
    text
}

fn summary(machine: &Sysfs) -> String {
    let count = |of: fn(&CpuLocation) -> usize| -> usize {
        machine.locations.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    let mut threads = BTreeMap::<usize, usize>::new();
    for location in &machine.locations {
        *threads.entry(location.core).or_default() += 1;
    }
    let threads: BTreeSet<usize> = threads.into_values().collect();
    let each: Vec<String> = threads.iter().map(ToString::to_string).collect();
    let cpus = write_cpu_list(machine.locations.iter().map(|location| location.cpu));
    let mut text = format!("CPUs online           {} ({cpus})\n", machine.locations.len());
    text += &format!("cores                 {} of {} threads\n", count(|at| at.core), each.join(" or "));
    text += &format!("last-level caches     {}\n", count(|at| at.llc));
    text += &format!("nodes with CPUs       {}\n", count(|at| at.node));
    let others = machine.nodes_without_cpus();
    if !others.is_empty() {
        text += &format!("nodes of memory only  {} ({})\n", others.len(), write_cpu_list(others));
    }
    let distances = distances(machine);
    for (node, row) in distances.iter().filter(|_| distances.len() > 1) {
        let row: Vec<String> = row.iter().map(|(other, distance)| format!("{other}: {distance}")).collect();
        let row = if row.is_empty() { "not known".to_owned() } else { row.join(", ") };
        text += &format!("from node {node:<3}         {row}\n");
    }
    let beyond: Vec<usize> =
        machine.locations.iter().map(|at| at.cpu).filter(|&cpu| cpu >= MAX_CPUS).collect();
    if !beyond.is_empty() {
        text +=
            &format!("warning: policies do not attach while CPUs {} are online\n", write_cpu_list(beyond));
    }
    text
}

/// Between nodes that have CPUs.
fn distances(machine: &Sysfs) -> BTreeMap<usize, BTreeMap<usize, usize>> {
    let without = machine.nodes_without_cpus();
    let has_cpus = |node: &usize| !without.contains(node);
    let rows = machine.distances.iter().filter(|(node, _)| has_cpus(node));
    rows.map(|(&node, row)| {
        (node, row.iter().filter(|(other, _)| has_cpus(other)).map(|(&a, &b)| (a, b)).collect())
    })
    .collect()
}

fn cpus_of(group: &GroupOfCpus) -> BTreeSet<usize> {
    group.cores.iter().flatten().copied().collect()
}

/// A group's node; 0 if that is not known.
fn node_of(group: &GroupOfCpus, machine: Option<&Sysfs>) -> usize {
    let first = group.cores.iter().flatten().next();
    let place = machine
        .zip(first)
        .and_then(|(machine, cpu)| machine.locations.iter().find(|location| location.cpu == *cpu));
    place.map_or(0, |location| location.node)
}

fn table(groups: &[GroupOfCpus], machine: Option<&Sysfs>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty();
    table.set_header(["group", "node", "cores", "threads", "CPUs", "nearest groups"]);
    for (number, group) in groups.iter().enumerate() {
        let threads = group.cores.iter().map(Vec::len).max().unwrap_or(0);
        let near: Vec<String> = group.near.iter().map(ToString::to_string).collect();
        table.add_row([
            number.to_string(),
            node_of(group, machine).to_string(),
            group.cores.len().to_string(),
            threads.to_string(),
            write_cpu_list(cpus_of(group)),
            near.join(" "),
        ]);
    }
    for column in table.column_iter_mut().take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn report(layout: &Layout) -> Value {
    let machine = layout.machine.as_ref();
    let groups = layout.places.groups();
    let groups = groups.iter().map(|group| {
        json!({
            "node": node_of(group, machine),
            "cpus": write_cpu_list(cpus_of(group)),
            "cores": group.cores,
            "near": group.near,
            "rings": group.rings,
        })
    });
    json!({
        "version": 1,
        "warning": layout.places.warning,
        "distances": machine.map(distances),
        "nodes_without_cpus": machine.map(Sysfs::nodes_without_cpus),
        "groups": groups.collect::<Vec<_>>(),
    })
}

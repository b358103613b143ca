//! A view on the whole terminal, of any size.
use super::line;
use super::view::{CpuView, TaskView, View, WakeUps};
use super::words::{count, time};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row, Table};
use std::collections::BTreeMap;

/// More CPUs than this are shown by cache at first.
const MOST_CPUS: usize = 64;
/// Columns of the side with wake-ups and counters.
const SIDE: u16 = 38;
/// With fewer columns there is no such side.
const NARROW: u16 = 84;
/// A wait of this length is marked. FLSCHED's bound, with up to 16 tasks on a CPU.
const LONG_WAIT_NS: u64 = 100_000_000;

/// What the user has chosen to see.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The order of tasks.
    pub order: Order,
    /// All tasks instead of CPUs.
    pub is_per_task: bool,
    /// CPUs where their number would have caches shown, and the other way round.
    pub is_regrouped: bool,
    /// Nothing is read any more.
    pub is_paused: bool,
    /// The keys are explained.
    pub shows_help: bool,
    /// The first row that is shown.
    pub first_row: usize,
}

/// By what tasks are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Longest wait first.
    #[default]
    Wait,
    /// Greatest part of a CPU first.
    Cpu,
    /// Least nice value first.
    Nice,
    Name,
}

impl Order {
    /// The one that follows.
    pub fn next(self) -> Self {
        match self {
            Self::Wait => Self::Cpu,
            Self::Cpu => Self::Nice,
            Self::Nice => Self::Name,
            Self::Name => Self::Wait,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Wait => "longest wait first",
            Self::Cpu => "most CPU time first",
            Self::Nice => "by nice value",
            Self::Name => "by name",
        }
    }

    fn sorted(self, tasks: &[TaskView]) -> Vec<&TaskView> {
        let mut sorted: Vec<&TaskView> = tasks.iter().collect();
        sorted.sort_by(|a, b| {
            let order = match self {
                Self::Wait => b.wait_ns.cmp(&a.wait_ns),
                Self::Cpu => b.cpu_percent.unwrap_or(0.0).total_cmp(&a.cpu_percent.unwrap_or(0.0)),
                Self::Nice => a.nice.cmp(&b.nice),
                Self::Name => a.name.cmp(&b.name),
            };
            order.then(a.pid.cmp(&b.pid))
        });
        sorted
    }
}

/// Draws the view. Returns the first row that it shows, which is less than wanted at the end of a list.
pub fn draw(frame: &mut Frame<'_>, view: &View, choice: &Choice) -> usize {
    let events = (view.events.len() as u16).min(3);
    let rows = [
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(if choice.is_per_task { 0 } else { view.longest_waits.len() as u16 + 2 }),
        Constraint::Length(events),
        Constraint::Length(1),
    ];
    let [head, middle, waits, events, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(heading(view), head);
    let is_narrow = middle.width < NARROW;
    let [main, side] =
        Layout::horizontal([Constraint::Min(1), Constraint::Length(if is_narrow { 0 } else { SIDE })])
            .areas(middle);
    let first_row = if choice.is_per_task {
        let title = format!("Tasks, {}", choice.order.word());
        tasks(frame, main, &title, &choice.order.sorted(&view.tasks), choice)
    } else {
        tasks(frame, waits, "Longest waits", &Order::Wait.sorted(&view.longest_waits), &Choice::default());
        cpus(frame, main, view, choice)
    };
    if !is_narrow {
        let of_wake_ups = view.wake_ups.histogram.len() as u16 + 3;
        let [upper, lower] =
            Layout::vertical([Constraint::Length(of_wake_ups), Constraint::Min(0)]).areas(side);
        wake_ups(frame, upper, &view.wake_ups);
        counters(frame, lower, view);
    }
    let lines = view.events.iter().rev().map(|event| Line::from(format!("{} {}", event.at, event.what)));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), events);
    frame.render_widget(keys(choice), foot);
    if choice.shows_help {
        help(frame);
    }
    first_row
}

fn heading(view: &View) -> Paragraph<'static> {
    let ejections = match view.ejections {
        0 => String::new(),
        1 => " · 1 ejection".into(),
        many => format!(" · {many} ejections"),
    };
    Paragraph::new(vec![
        Line::from(format!("{} · {}{ejections}", line::scheduler(view), view.kernel)).bold(),
        Line::from(format!(
            "{} CPUs {:.0} % busy · {} switches/s · {}",
            view.cpus.len(),
            view.busy_percent,
            count(view.switches_per_s),
            line::waiting(view)
        )),
    ])
}

/// Some rows of a table, and in its title how many there are.
fn framed(title: &str, rows: usize, first: usize, area: Rect) -> Block<'static> {
    let shown = usize::from(area.height.saturating_sub(2));
    let range = match rows > shown {
        true => format!(" {title} ({}–{} of {rows}) ", first + 1, (first + shown).min(rows)),
        false => format!(" {title} "),
    };
    Block::new().borders(Borders::TOP).title(range)
}

/// The first row that can be shown so that the last one is not followed by empty ones.
fn first_of(rows: usize, wanted: usize, area: Rect) -> usize {
    wanted.min(rows.saturating_sub(usize::from(area.height.saturating_sub(2))))
}

fn cpus(frame: &mut Frame<'_>, area: Rect, view: &View, choice: &Choice) -> usize {
    let is_per_cache = (view.cpus.len() > MOST_CPUS) != choice.is_regrouped;
    let rows: Vec<Row<'_>> =
        if is_per_cache { caches(&view.cpus) } else { view.cpus.iter().map(of_cpu).collect() };
    let count = rows.len();
    let first = first_of(count, choice.first_row, area);
    let head = if is_per_cache {
        ["cache", "busy", "", "waiting", "longest", "CPUs"]
    } else {
        ["CPU", "busy", "", "waiting", "longest", "running"]
    };
    let widths = [
        Constraint::Length(5),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let title = if is_per_cache { "Caches" } else { "CPUs" };
    let table = Table::new(rows.into_iter().skip(first), widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::DIM)))
        .block(framed(title, count, first, area));
    frame.render_widget(table, area);
    first
}

fn bar(percent: f64) -> String {
    let filled = (percent / 10.0).round().clamp(0.0, 10.0) as usize;
    "█".repeat(filled) + &"·".repeat(10 - filled)
}

/// Waits that are long are marked.
fn marked(row: Row<'_>, longest_wait_ns: u64) -> Row<'_> {
    if longest_wait_ns >= LONG_WAIT_NS { row.red() } else { row }
}

fn wait(longest_wait_ns: u64) -> String {
    if longest_wait_ns == 0 { "–".into() } else { time(longest_wait_ns) }
}

fn of_cpu(cpu: &CpuView) -> Row<'_> {
    let row = Row::new([
        cpu.cpu.to_string(),
        format!("{:3.0} %", cpu.busy_percent),
        bar(cpu.busy_percent),
        cpu.queued.to_string(),
        wait(cpu.longest_wait_ns),
        cpu.running.clone().unwrap_or_else(|| "idle".into()),
    ]);
    marked(row, cpu.longest_wait_ns)
}

fn caches(cpus: &[CpuView]) -> Vec<Row<'_>> {
    let mut caches: BTreeMap<u32, Vec<&CpuView>> = BTreeMap::new();
    for cpu in cpus {
        caches.entry(cpu.cache).or_default().push(cpu);
    }
    let row = |(cache, cpus): (u32, Vec<&CpuView>)| {
        let busy = cpus.iter().map(|cpu| cpu.busy_percent).sum::<f64>() / cpus.len() as f64;
        let longest = cpus.iter().map(|cpu| cpu.longest_wait_ns).max().unwrap_or(0);
        let idle = cpus.iter().filter(|cpu| cpu.running.is_none()).count();
        let row = Row::new([
            cache.to_string(),
            format!("{busy:3.0} %"),
            bar(busy),
            cpus.iter().map(|cpu| cpu.queued).sum::<usize>().to_string(),
            wait(longest),
            format!("{}, {idle} idle now", cpus.len()),
        ]);
        marked(row, longest)
    };
    caches.into_iter().map(row).collect()
}

fn tasks(frame: &mut Frame<'_>, area: Rect, title: &str, tasks: &[&TaskView], choice: &Choice) -> usize {
    let first = first_of(tasks.len(), choice.first_row, area);
    let row = |task: &&TaskView| {
        let where_it_is = if task.runs { "runs" } else { "waits" };
        let row = Row::new([
            task.pid.to_string(),
            task.name.clone(),
            if task.runs { "–".into() } else { time(task.wait_ns) },
            task.nice.to_string(),
            task.class.to_owned(),
            format!("{where_it_is} on {}", task.cpu),
            match task.may_run_on {
                1 => "only there".into(),
                many => format!("{many} CPUs"),
            },
            task.cpu_percent.map_or_else(|| "–".into(), |percent| format!("{percent:.0} %")),
        ]);
        marked(row, task.wait_ns)
    };
    let widths = [
        Constraint::Length(8),
        Constraint::Length(15),
        Constraint::Length(7),
        Constraint::Length(4),
        Constraint::Length(8),
        Constraint::Length(13),
        Constraint::Length(10),
        Constraint::Length(8),
    ];
    let head = Row::new(["pid", "task", "waits", "nice", "class", "where", "may run on", "of a CPU"]);
    let table = Table::new(tasks.iter().skip(first).map(row), widths)
        .header(head.style(Style::new().add_modifier(Modifier::DIM)))
        .block(framed(title, tasks.len(), first, area));
    frame.render_widget(table, area);
    first
}

fn wake_ups(frame: &mut Frame<'_>, area: Rect, wake_ups: &WakeUps) {
    const LONGEST_BAR: u64 = 20;
    let most = wake_ups.histogram.iter().map(|bar| bar.count).max().unwrap_or(1).max(1);
    let mut lines = vec![Line::from(match (wake_ups.p50_ns, wake_ups.p99_ns) {
        (Some(p50), Some(p99)) => {
            format!("{}/s, p50 {}, p99 {}", count(wake_ups.per_s), time(p50), time(p99))
        }
        _ => "none".into(),
    })];
    lines.extend(wake_ups.histogram.iter().map(|bar| {
        // What there is can be seen, however little.
        let length = (bar.count * LONGEST_BAR).div_ceil(most);
        Line::from(format!(
            "{:>7} {:<20} {}",
            time(bar.from_ns),
            "█".repeat(length as usize),
            count(bar.count as f64)
        ))
    }));
    let block = Block::new().borders(Borders::TOP | Borders::LEFT).title(" From wake-up to running ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn counters(frame: &mut Frame<'_>, area: Rect, view: &View) {
    let lines = view.counters.iter().map(|it| {
        let line = Line::from(format!("{:>9}/s {}", count(it.per_s), it.name));
        if it.per_s > 0.0 { line } else { line.dim() }
    });
    let block = Block::new().borders(Borders::TOP | Borders::LEFT).title(" The policy's counters ");
    if !view.counters.is_empty() {
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
    }
}

fn keys(choice: &Choice) -> Paragraph<'static> {
    let pause = if choice.is_paused { "PAUSED  p go on" } else { "p pause" };
    Paragraph::new(format!("q quit  t tasks  s sort  c caches  {pause}  ↑↓ scroll  ? help"))
        .style(Style::new().add_modifier(Modifier::REVERSED))
}

const HELP: &str = "\
q, Ctrl-C  end
t          tasks, or CPUs
s          sort tasks by wait, CPU time, nice value, name
c          last-level caches, or single CPUs
p, space   pause, or go on
↑ ↓ PgUp PgDn Home   scroll
? or h     this help

waiting  tasks that are runnable and have no CPU
longest  how long the first of them has waited
red      a wait of 100 ms or more
From wake-up to running: in the last interval; a bar
holds latencies up to twice the time at its left.";

fn help(frame: &mut Frame<'_>) {
    let (width, height) = (62, HELP.lines().count() as u16 + 2);
    let whole = frame.area();
    let area = Rect {
        x: whole.width.saturating_sub(width) / 2,
        y: whole.height.saturating_sub(height) / 2,
        width: width.min(whole.width),
        height: height.min(whole.height),
    };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" Keys and words ")), area);
}

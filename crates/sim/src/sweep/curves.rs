//! The results of a sweep: as a table, as comma-separated values, and as a picture with a curve for each scheduler.
use super::{Point, Report, Sweep};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use flsched_recording::timeline::with_alternative;
use plotters::backend::SVGBackend;
use plotters::prelude::*;
use serde::Serialize;

const SIZE: (u32, u32) = (900, 480);
/// Of middle brightness, without a background: to be read on light and on dark pages.
const TEXT: RGBColor = RGBColor(0x6e, 0x77, 0x81);
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x3b, 0x82, 0xd0),
    RGBColor(0xe0, 0x4f, 0x2c),
    RGBColor(0x1a, 0x99, 0x88),
    RGBColor(0x9a, 0x6d, 0xd7),
    RGBColor(0xa8, 0x7a, 0x2c),
    RGBColor(0xd0, 0x56, 0x9a),
    RGBColor(0x7a, 0x90, 0x22),
    RGBColor(0x7d, 0x86, 0x90),
];

/// A line of the file.
#[derive(Serialize)]
struct Record<'a> {
    setting: &'a str,
    value: &'a str,
    scheduler: &'a str,
    machine: &'a str,
    workload: &'a str,
    seed: u64,
    time_s: f64,
    context_switches: u64,
    migrations: u64,
    wakeup_p50_us: Option<f64>,
    wakeup_p99_us: Option<f64>,
    busy_share: f64,
    lock_wait_share: f64,
}

/// Times in seconds, medians of the runs: a row for each value, a column for each scheduler.
pub fn table(report: &Report) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let names = report.curves.iter().map(|curve| right(curve.scheduler.clone()));
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(std::iter::once(Cell::new(&report.setting)).chain(names).collect::<Vec<_>>());
    for (index, value) in report.values.iter().enumerate() {
        let times = report.curves.iter().map(|curve| right(format!("{:.6} s", curve.at(index).0)));
        table.add_row(std::iter::once(right(value.clone())).chain(times).collect::<Vec<_>>());
    }
    format!("{table}\n")
}

/// A line for each value, scheduler and seed, below a line with the names.
pub fn csv(sweep: &Sweep, points: &[Point]) -> Result<Vec<u8>, ::csv::Error> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for Point { value, scheduler, outcome } in points {
        writer.serialize(Record {
            setting: &sweep.range.path,
            value,
            scheduler,
            machine: &outcome.machine,
            workload: &outcome.workload,
            seed: outcome.seed,
            time_s: outcome.time_s,
            context_switches: outcome.context_switches,
            migrations: outcome.migrations,
            wakeup_p50_us: outcome.wakeup_latency_us.get("p50").copied(),
            wakeup_p99_us: outcome.wakeup_latency_us.get("p99").copied(),
            busy_share: outcome.busy_share,
            lock_wait_share: outcome.lock_wait_share,
        })?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// The time over the value: medians, with lines from the least to the most of the runs.
pub fn svg(report: &Report) -> Result<String, String> {
    let mut text = String::new();
    draw(report, &mut text).map_err(|error| format!("cannot draw: {error}"))?;
    let schedulers: Vec<&str> = report.curves.iter().map(|curve| curve.scheduler.as_str()).collect();
    let words = format!("{}, over {}: {}", title(report), report.setting, schedulers.join(", "));
    Ok(with_alternative(&text, &words))
}

fn title(report: &Report) -> String {
    let runs = if report.runs > 1 { format!("; medians of {} seeds", report.runs) } else { String::new() };
    format!("{} on {}; clock: model{runs}", report.workload, report.machine)
}

/// Where the values are on the axis: numbers at their own distances, what was listed at equal ones.
fn places(report: &Report) -> Vec<f64> {
    let numbers: Option<Vec<f64>> = report.values.iter().map(|value| value.parse().ok()).collect();
    match numbers {
        Some(numbers) if !report.is_list => numbers,
        _ => (0..report.values.len()).map(|index| index as f64).collect(),
    }
}

fn draw(report: &Report, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let places = places(report);
    let (first, last) = (places[0], places[places.len() - 1]);
    let edge = (last - first) / 50.0;
    let all = || report.curves.iter().flat_map(|curve| curve.times_s.iter().flatten().copied());
    let most = all().fold(0.0, f64::max);
    let style = |size: i32| ("sans-serif", size).into_font().color(&TEXT);

    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(title(report), style(15))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(first - edge..last + edge, 0.0..most * 1.05)?;
    let label = |at: &f64| match report.is_list {
        true => {
            let near = |(_, place): &(usize, &f64)| (**place - at).abs() < 0.01;
            let index = places.iter().enumerate().find(near).map(|(index, _)| index);
            index.map_or(String::new(), |index| report.values[index].clone())
        }
        false => format!("{at:.0}"),
    };
    chart
        .configure_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(style(14))
        .axis_desc_style(style(15))
        .x_labels(if report.is_list { report.values.len() } else { 10 })
        .x_label_formatter(&label)
        .x_desc(&report.setting)
        .y_desc("time, s")
        .draw()?;
    for (index, curve) in report.curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let ends = places.iter().enumerate().map(|(at, place)| (*place, curve.at(at)));
        let ends: Vec<(f64, (f64, f64, f64))> = ends.collect();
        let line = PathElement::new(
            ends.iter().map(|(place, (median, ..))| (*place, *median)).collect::<Vec<_>>(),
            colour.stroke_width(2),
        );
        chart
            .draw_series([line])?
            .label(curve.scheduler.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let whisker = |&(place, (_, low, high)): &(f64, (f64, f64, f64))| {
            PathElement::new(vec![(place, low), (place, high)], colour.stroke_width(1))
        };
        chart.draw_series(ends.iter().map(whisker))?;
        chart.draw_series(
            ends.iter().map(|(place, (median, ..))| Circle::new((*place, *median), 3, colour.filled())),
        )?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).label_font(style(14)).draw()?;
    area.present()?;
    Ok(())
}

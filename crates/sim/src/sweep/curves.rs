//! The results of a sweep: as a table, as comma-separated values, and as a picture with a curve for each scheduler.
use super::{Point, Sweep};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
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
    value: u64,
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

/// Times in seconds: a row for each value, a column for each scheduler.
pub fn table(sweep: &Sweep, points: &[Point]) -> String {
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let names: Vec<String> = sweep.schedulers.iter().map(ToString::to_string).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let header = std::iter::once(Cell::new(&sweep.range.path)).chain(names.into_iter().map(right));
    table.set_header(header.collect::<Vec<_>>());
    for row in points.chunks(sweep.schedulers.len()) {
        let times = row.iter().map(|point| right(format!("{:.6} s", point.outcome.time_s)));
        table.add_row(std::iter::once(right(row[0].value.to_string())).chain(times).collect::<Vec<_>>());
    }
    format!("{table}\n")
}

/// A line for each value and scheduler, below a line with the names.
pub fn csv(sweep: &Sweep, points: &[Point]) -> Result<Vec<u8>, ::csv::Error> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    for Point { value, scheduler, outcome } in points {
        writer.serialize(Record {
            setting: &sweep.range.path,
            value: *value,
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

/// The time over the value.
pub fn svg(sweep: &Sweep, points: &[Point], title: &str) -> Result<String, String> {
    let mut text = String::new();
    draw(sweep, points, title, &mut text).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(text.trim_end().to_owned() + "\n")
}

fn draw(
    sweep: &Sweep,
    points: &[Point],
    title: &str,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let values = sweep.range.values();
    let most = points.iter().map(|point| point.outcome.time_s).fold(0.0, f64::max);
    let style = |size: i32| ("sans-serif", size).into_font().color(&TEXT);

    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .caption(title, style(15))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(values[0]..values[values.len() - 1], 0.0..most * 1.05)?;
    chart
        .configure_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.25))
        .light_line_style(TRANSPARENT)
        .label_style(style(14))
        .axis_desc_style(style(15))
        .x_desc(&sweep.range.path)
        .y_desc("time, s")
        .draw()?;
    for (index, scheduler) in sweep.schedulers.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let own = points.iter().skip(index).step_by(sweep.schedulers.len());
        let curve: Vec<(u64, f64)> = own.map(|point| (point.value, point.outcome.time_s)).collect();
        let line = PathElement::new(curve.clone(), colour.stroke_width(2));
        chart
            .draw_series([line])?
            .label(scheduler.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(curve.into_iter().map(|at| Circle::new(at, 3, colour.filled())))?;
    }
    chart.configure_series_labels().position(SeriesLabelPosition::LowerRight).label_font(style(14)).draw()?;
    area.present()?;
    Ok(())
}

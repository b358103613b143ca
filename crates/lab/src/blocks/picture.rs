//! `picture`: times relative to the first scheduler's, a group for each workload, as SVG. Colours are of
//! middle brightness and the background is left out, so that it can be read on light and on dark pages.
use super::words::{header, quantity};
use super::{Context, Picture, Rendered, required, view};
use crate::markers::Request;
use crate::view::{Row, View};
use flsched_compare::result::ArmResult;
use flsched_recording::timeline::with_alternative;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::{Component, Path, PathBuf};

const WIDTH: i32 = 900;
const LEFT: i32 = 270;
const RIGHT: i32 = WIDTH - 20;
/// Of a scheduler within its group.
const PITCH: i32 = 10;
/// Between groups.
const GAP: i32 = 14;
const LEGEND_ROW: i32 = 18;
const LEGEND_COLUMN: i32 = 150;
const AXIS: i32 = 44;
/// Values beyond this are drawn at the edge.
const LEAST: f64 = 0.02;
const MOST: f64 = 8.0;
const TICKS: [f64; 13] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0];

const TEXT: RGBColor = RGBColor(0x6e, 0x77, 0x81);
const SUBJECT_COLOUR: RGBColor = RGBColor(0xe0, 0x4f, 0x2c);
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x7d, 0x86, 0x90),
    RGBColor(0x3b, 0x82, 0xd0),
    RGBColor(0x1a, 0x99, 0x88),
    RGBColor(0x9a, 0x6d, 0xd7),
    RGBColor(0xa8, 0x7a, 0x2c),
    RGBColor(0xd0, 0x56, 0x9a),
    RGBColor(0x7a, 0x90, 0x22),
    RGBColor(0x2a, 0x93, 0xb8),
    RGBColor(0xb0, 0x6a, 0x5a),
    RGBColor(0x55, 0x8b, 0x55),
];

pub(super) fn render(context: &Context<'_>, request: &Request) -> Result<Rendered, String> {
    let path = out(request)?;
    let view = view(context, request)?;
    let text = link(&view, context.document, &path);
    Ok(Rendered { text, pictures: vec![Picture { svg: svg(&view)?, path }] })
}

/// Where the picture is put, under the project's folder.
pub(super) fn out(request: &Request) -> Result<PathBuf, String> {
    let path = PathBuf::from(required(request, "out")?);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    match is_inside && path.starts_with("docs") && path.extension().is_some_and(|it| it == "svg") {
        true => Ok(path),
        false => Err(format!("out=`{}` is not like docs/pictures/NAME.svg", path.display())),
    }
}

/// The picture in a document.
pub(super) fn link(view: &View, document: &Path, picture: &Path) -> String {
    let alt = format!("{}: {}", alternative(view), header(&view.reports));
    format!("![{}]({})", alt.replace(['[', ']'], ""), relative(document, picture).display())
}

fn alternative(view: &View) -> String {
    format!("{} of each workload, relative to {}", quantity(&view.reports[0]), view.first())
}

/// From a document's folder; both are under the project's.
pub(crate) fn relative(document: &Path, picture: &Path) -> PathBuf {
    let folder: Vec<_> = document.parent().map(|it| it.components().collect()).unwrap_or_default();
    let target: Vec<_> = picture.components().collect();
    let common = folder.iter().zip(&target).take_while(|(one, other)| one == other).count();
    let up = folder[common..].iter().map(|_| Component::ParentDir);
    up.chain(target[common..].iter().copied()).collect()
}

pub(super) fn svg(view: &View) -> Result<String, String> {
    let mut text = String::new();
    draw(view, &mut text).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(with_alternative(&text, &format!("{}: {}", alternative(view), view.schedulers.join(", "))))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(view: &View, text: &mut String) -> Drawn {
    let has_floor = view.rows.iter().any(|row| row.floor_s.is_some());
    let entries = view.schedulers.len() as i32 + i32::from(has_floor);
    let per_row = (WIDTH - 20) / LEGEND_COLUMN;
    let top = (entries + per_row - 1) / per_row * LEGEND_ROW + 12;
    let group = PITCH * view.schedulers.len() as i32 + GAP;
    let bottom = top + group * view.rows.len() as i32;
    let size = (WIDTH as u32, (bottom + AXIS) as u32);

    let area = SVGBackend::with_string(text, size).into_drawing_area();
    legend(&area, view, has_floor, per_row)?;
    let axis = Axis::of(view);
    axis.draw(&area, view, top, bottom)?;
    for (index, row) in view.losses_first().into_iter().enumerate() {
        let from = top + group * index as i32;
        draw_row(&area, view, row, &axis, (from, from + group))?;
    }
    area.present()?;
    Ok(())
}

fn legend(area: &Area<'_>, view: &View, has_floor: bool, per_row: i32) -> Drawn {
    let names = view.schedulers.iter().map(String::as_str).chain(has_floor.then_some("floor"));
    for (index, name) in names.enumerate() {
        let x = 14 + index as i32 % per_row * LEGEND_COLUMN;
        let y = 12 + index as i32 / per_row * LEGEND_ROW;
        match index < view.schedulers.len() {
            true => dot(area, view, index, (x, y))?,
            false => area.draw(&PathElement::new(vec![(x, y - 6), (x, y + 6)], TEXT.stroke_width(2)))?,
        }
        area.draw(&Text::new(name.to_string(), (x + 12, y), style(15, HPos::Left)))?;
    }
    Ok(())
}

/// Relative to the first scheduler's time, on a scale where half as long is as far from 1 as twice as long.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(view: &View) -> Self {
        let shown = |row: &Row| -> Vec<f64> {
            let relative = row.cells.iter().flatten().filter_map(relative_time);
            let floor = relative_floor(row).into_iter();
            relative.flat_map(|(value, low, high)| [value, low, high]).chain(floor).collect()
        };
        let all: Vec<f64> = view.rows.iter().flat_map(shown).collect();
        let low = all.iter().copied().fold(0.7, f64::min).max(LEAST);
        let high = all.iter().copied().fold(1.5, f64::max).min(MOST);
        Self { low: low / 1.05, high: high * 1.05 }
    }

    fn at(&self, value: f64) -> i32 {
        let share = (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn draw(&self, area: &Area<'_>, view: &View, top: i32, bottom: i32) -> Drawn {
        for tick in TICKS.into_iter().filter(|tick| (self.low..=self.high).contains(tick)) {
            let x = self.at(tick);
            let colour = if tick == 1.0 { TEXT.mix(0.9) } else { TEXT.mix(0.25) };
            area.draw(&PathElement::new(vec![(x, top), (x, bottom)], colour))?;
            area.draw(&Text::new(tick.to_string(), (x, bottom + 12), style(14, HPos::Center)))?;
        }
        let quantity = quantity(&view.reports[0]);
        let title = format!("{quantity} / {quantity} of {}; bars are intervals; left is less", view.first());
        area.draw(&Text::new(title, ((LEFT + RIGHT) / 2, bottom + 32), style(15, HPos::Center)))?;
        Ok(())
    }
}

fn draw_row(area: &Area<'_>, view: &View, row: &Row, axis: &Axis, (from, to): (i32, i32)) -> Drawn {
    let line = PathElement::new(vec![(10, from), (RIGHT, from)], TEXT.mix(0.25));
    area.draw(&line)?;
    let middle = (from + to) / 2;
    area.draw(&Text::new(shortened(&row.workload), (LEFT - 12, middle), style(15, HPos::Right)))?;
    if let Some(floor) = relative_floor(row) {
        let x = axis.at(floor);
        area.draw(&PathElement::new(vec![(x, from + 2), (x, to - 2)], TEXT.stroke_width(2)))?;
    }
    for (column, cell) in row.cells.iter().enumerate() {
        let y = from + GAP / 2 + PITCH * column as i32 + PITCH / 2;
        let Some((value, low, high)) = cell.as_ref().and_then(relative_time) else { continue };
        let colour = colour(view, column);
        let whisker = vec![(axis.at(low), y), (axis.at(high), y)];
        area.draw(&PathElement::new(whisker, colour.stroke_width(2)))?;
        dot(area, view, column, (axis.at(value), y))?;
        if value > axis.high || value < axis.low {
            let beyond = Text::new(format!("{value:.1}"), (axis.at(value) - 8, y), style(13, HPos::Right));
            area.draw(&beyond)?;
        }
    }
    Ok(())
}

fn dot(area: &Area<'_>, view: &View, column: usize, at: (i32, i32)) -> Drawn {
    let colour = colour(view, column);
    match view.subject == Some(column) {
        // A shape of its own, for readers that do not see the colour.
        true => {
            let corners = [(0, -6), (6, 0), (0, 6), (-6, 0)];
            let corners = corners.map(|(x, y)| (at.0 + x, at.1 + y)).to_vec();
            area.draw(&Polygon::new(corners, colour.filled()))?;
        }
        false => area.draw(&Circle::new(at, 4, colour.filled()))?,
    }
    Ok(())
}

fn colour(view: &View, column: usize) -> RGBColor {
    match view.subject == Some(column) {
        true => SUBJECT_COLOUR,
        false => COLOURS[column % COLOURS.len()],
    }
}

fn style(size: i32, align: HPos) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&TEXT).pos(Pos::new(align, VPos::Center))
}

/// The end matters more than the middle: it has the numbers.
fn shortened(name: &str) -> String {
    const FIT: usize = 38;
    let count = name.chars().count();
    match count > FIT {
        true => format!("…{}", name.chars().skip(count + 1 - FIT).collect::<String>()),
        false => name.to_string(),
    }
}

/// The time over the first scheduler's, with the ends of its interval.
fn relative_time(cell: &ArmResult) -> Option<(f64, f64, f64)> {
    let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
    let ratio = positive(cell.ratio_to_first)?;
    let (low, high) = (positive(cell.ratio_to_first_low)?, positive(cell.ratio_to_first_high)?);
    // The report's ratio is the other way round: above 1 is faster.
    Some((1.0 / ratio, 1.0 / high, 1.0 / low))
}

fn relative_floor(row: &Row) -> Option<f64> {
    let first = row.cells.first()?.as_ref()?.time_s?.median;
    row.floor_s.filter(|_| first > 0.0).map(|floor| floor / first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sets::Sets;
    use crate::view::Selection;
    use crate::view::tests::{project, report};

    fn drawn() -> String {
        let measured = report(&[
            ("spin-barrier:32:50:12500", &[("eevdf", 1.0), ("flsched", 0.5)]),
            ("slow", &[("eevdf", 1.0), ("flsched", 100.0)]),
        ]);
        let mut alone = report(&[("spin-barrier:1:50:12500", &[("eevdf", 0.01)])]);
        alone.cpus = 1;
        let (_folder, store) = project(&[("a.json", &measured), ("floor.json", &alone)]);
        let selection = Selection {
            files: vec!["a.json"],
            subject: "flsched",
            floor: Some("floor.json"),
            ..Selection::default()
        };
        svg(&View::new(&store, &Sets::default(), &selection).unwrap()).unwrap()
    }

    #[test]
    fn the_same_bytes_each_time() {
        assert_eq!(drawn(), drawn());
    }

    #[test]
    fn names_everything_and_has_no_background() {
        let svg = drawn();
        for text in ["eevdf", "flsched", "floor", "spin-barrier:32:50:12500", "100.0", "bars are intervals"] {
            assert!(svg.contains(text), "{text} is missing in\n{svg}");
        }
        assert!(svg.ends_with("</svg>\n"));
        assert!(!svg.contains("#FFFFFF") && !svg.contains("#000000"), "{svg}");
    }

    #[test]
    fn links_are_relative_to_the_document() {
        let link = |document: &str| relative(Path::new(document), Path::new("docs/pictures/a.svg"));
        assert_eq!(link("README.md"), Path::new("docs/pictures/a.svg"));
        assert_eq!(link("docs/results.md"), Path::new("pictures/a.svg"));
        assert_eq!(link("docs/more/x.md"), Path::new("../pictures/a.svg"));
    }

    #[test]
    fn half_is_as_far_from_one_as_twice() {
        let axis = Axis { low: 0.25, high: 4.0 };
        let (half, twice) = (axis.at(1.0) - axis.at(0.5), axis.at(2.0) - axis.at(1.0));
        assert!((half - twice).abs() <= 1 && half > 100, "{half} and {twice} pixels");
        assert_eq!(axis.at(100.0), RIGHT);
    }
}

//! A timeline as a picture: time from left to right, a row for each CPU, a colour for each task or for
//! each frequency, as in the figures of the Smove paper.
use super::{CpuId, Slice, Timeline, Tuning, display_ns, joined};
use crate::Ns;
use maud::{Markup, html};

/// Frequencies are counted and shown in steps of this size.
pub const STEP_MHZ: u32 = 100;
/// Width of a row, in pixels.
const WIDTH: u64 = 1600;
const LEFT: u64 = 60;
const TOP: u64 = 40;
/// Approximate height of all rows together, in pixels. A row is 3 to 16 pixels high.
const HEIGHT: u64 = 800;
/// Width of a frequency in the legend, in pixels.
const LEGEND: u64 = 48;

/// What the colours show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colouring {
    Task,
    /// The frequency at which a task runs, in steps of 100 MHz; for recordings that have
    /// frequencies.
    Frequency,
}

/// What a pixel shows: the number of a task, or the lowest frequency of a step, in MHz.
type Key = u32;

/// A period of a row with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    key: Key,
    from: Ns,
    to: Ns,
}

/// The key of a task that runs before the CPU's first known frequency.
const UNKNOWN: Key = 0;

/// An SVG with a row for each CPU on which tasks ran. A pixel shows the key that lasted longest within it.
pub fn render_timeline(timeline: &Timeline, title: &str, colouring: Colouring) -> String {
    let end = timeline.full_at.unwrap_or(timeline.end).max(1);
    let mut slices: Vec<Vec<Slice>> = vec![Vec::new(); timeline.cpus.len()];
    timeline.slices.iter().for_each(|slice| slices[slice.cpu].push(*slice));
    let mut tunings: Vec<Vec<Tuning>> = vec![Vec::new(); timeline.cpus.len()];
    timeline.tunings.iter().for_each(|tuning| tunings[tuning.cpu].push(*tuning));
    let pieces = |cpu: CpuId| match colouring {
        Colouring::Task => by_task(&slices[cpu]),
        Colouring::Frequency => by_step(&slices[cpu], &tunings[cpu]),
    };
    let used = (0..timeline.cpus.len()).filter(|&cpu| !slices[cpu].is_empty());
    let rows: Vec<(CpuId, Vec<Piece>)> = used.map(|cpu| (cpu, pieces(cpu))).collect();
    let steps =
        rows.iter().flat_map(|(_, pieces)| pieces).map(|piece| piece.key).filter(|&key| key != UNKNOWN);
    let range = (steps.clone().min().unwrap_or(0), steps.max().unwrap_or(0));

    let row = (HEIGHT / rows.len().max(1) as u64).clamp(3, 16);
    let by_frequency = colouring == Colouring::Frequency;
    let legend_height = if by_frequency { 24 } else { 0 };
    let height = TOP + row * rows.len() as u64 + 30 + legend_height;
    let width = LEFT + WIDTH + 20;
    let colour_and_name = |key: Key| match colouring {
        Colouring::Task => (colour_of_task(key), timeline.label(key as usize)),
        Colouring::Frequency if key == UNKNOWN => ("#bbb".into(), "frequency unknown".into()),
        Colouring::Frequency => (colour_of_step(key, range), format!("{key} MHz")),
    };
    let picture = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}"))
            font-family="sans-serif" font-size="11" role="img" aria-label=(title) {
            rect width="100%" height="100%" fill="#fff" {}
            text x=(LEFT) y="18" font-size="14" {
                (title) "; " (rows.len()) " of " (timeline.cpus.len()) " CPUs had work"
            }
            @for (index, (cpu, pieces)) in (0..).zip(&rows) {
                @let y = TOP + row * index;
                @if row >= 10 || index % 10 == 0 {
                    text x="4" y=(y + row.min(10)) { "CPU " (timeline.cpus[*cpu]) }
                }
                @for (key, from, to) in runs(pieces, end) {
                    @let (colour, name) = colour_and_name(key);
                    rect x=(LEFT + from) y=(y) width=(to - from) height=(row - 1) fill=(colour) {
                        title { (name) }
                    }
                }
            }
            @for tenth in 0..=10 {
                @let anchor = if tenth == 10 { "end" } else { "middle" };
                text x=(LEFT + WIDTH * tenth / 10) y=(height - 12 - legend_height) text-anchor=(anchor) {
                    (display_ns(end / 10 * tenth))
                }
            }
            @if by_frequency {
                (legend(range, height - 22))
            }
        }
    };
    picture.into_string() + "\n"
}

fn legend(range: (Key, Key), y: u64) -> Markup {
    html! {
        @for (index, step) in (0..).zip((range.0..=range.1).step_by(STEP_MHZ as usize)) {
            @let x = LEFT + LEGEND * index;
            rect x=(x) y=(y) width=(LEGEND) height="6" fill=(colour_of_step(step, range)) {}
            text x=(x) y=(y + 16) { (step) }
        }
        text x="4" y=(y + 16) { "MHz, from" }
    }
}

fn by_task(slices: &[Slice]) -> Vec<Piece> {
    let piece = |slice: &Slice| Piece { key: slice.task as Key, from: slice.from, to: slice.to };
    slices.iter().map(piece).collect()
}

/// The times at which a CPU was busy, by frequency.
fn by_step(slices: &[Slice], tunings: &[Tuning]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut first = 0;
    for slice in slices {
        let known_from = tunings.first().map_or(Ns::MAX, |tuning| tuning.at);
        if slice.from < known_from {
            pieces.push(Piece { key: UNKNOWN, from: slice.from, to: slice.to.min(known_from) });
        }
        // Slices and tunings are in order of time, so tunings that ended before this slice are skipped for
        // good.
        while tunings.get(first + 1).is_some_and(|next| next.at <= slice.from) {
            first += 1;
        }
        for (index, tuning) in tunings.iter().enumerate().skip(first).take_while(|(_, it)| it.at < slice.to) {
            let until = tunings.get(index + 1).map_or(slice.to, |next| next.at.min(slice.to));
            let key = tuning.mhz / STEP_MHZ * STEP_MHZ;
            pieces.push(Piece { key, from: slice.from.max(tuning.at), to: until });
        }
    }
    pieces
}

/// The pixels of a row as runs of one key: key, first pixel, end.
fn runs(pieces: &[Piece], end: Ns) -> Vec<(Key, u64, u64)> {
    let pixel = |at: Ns| ((u128::from(at) * u128::from(WIDTH) / u128::from(end)) as u64).min(WIDTH - 1);
    let start_of = |pixel: u64| (u128::from(pixel) * u128::from(end) / u128::from(WIDTH)) as u64;
    // The key that lasted longest in each pixel, and for how long.
    let mut owners: Vec<Option<(Key, Ns)>> = vec![None; WIDTH as usize];
    for piece in pieces.iter().filter(|piece| piece.from < end) {
        for at in pixel(piece.from)..=pixel(piece.to.min(end)) {
            let had = piece.to.min(start_of(at + 1)).saturating_sub(piece.from.max(start_of(at)));
            let owner = &mut owners[at as usize];
            if had > owner.map_or(0, |(_, best)| best) {
                *owner = Some((piece.key, had));
            }
        }
    }
    joined((0..).zip(owners).filter_map(|(at, owner)| Some((at, owner?.0))))
}

fn colour_of_task(task: Key) -> String {
    format!("hsl({},{}%,55%)", task * 137 % 360, 45 + task * 31 % 40)
}

/// The colour of a frequency: from dark to light, so that the order is visible without colours and in print.
fn colour_of_step(step: Key, (low, high): (Key, Key)) -> String {
    let share = f64::from(step - low) / f64::from((high - low).max(1));
    format!("hsl({:.0},75%,{:.0}%)", 260.0 - 210.0 * share, 28.0 + 32.0 * share)
}

/// An SVG picture with the words for readers who cannot see it. A library has drawn it, without them.
pub fn with_alternative(svg: &str, words: &str) -> String {
    let svg = svg.trim_end();
    let element = html! { svg role="img" aria-label=(words) {} }.into_string();
    let attributes = element.strip_suffix("></svg>").unwrap_or("<svg");
    svg.replacen("<svg", attributes, 1) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_shows_what_lasted_longest() {
        let piece = |key, from, to| Piece { key, from, to };
        // 10 ns a pixel.
        let pieces = [piece(1, 0, 25), piece(2, 25, 27), piece(3, 27, 40)];
        assert_eq!(runs(&pieces, 10 * WIDTH), [(1, 0, 3), (3, 3, 4)]);
    }

    #[test]
    fn an_alternative_is_escaped() {
        assert_eq!(
            with_alternative("<svg width=\"1\"><svg/></svg>\n\n", "a < \"b\""),
            "<svg role=\"img\" aria-label=\"a &lt; &quot;b&quot;\" width=\"1\"><svg/></svg>\n"
        );
    }

    #[test]
    fn a_slice_has_a_piece_for_each_frequency() {
        let slice = |from, to| Slice { cpu: 0, task: 0, from, to };
        let tuning = |at, mhz| Tuning { cpu: 0, at, mhz };
        let slices = [slice(5, 10), slice(20, 60), slice(60, 70)];
        let tunings =
            [tuning(0, 1200), tuning(15, 1250), tuning(30, 1850), tuning(60, 2999), tuning(90, 800)];
        let piece = |key, from, to| Piece { key, from, to };
        assert_eq!(
            by_step(&slices, &tunings),
            [piece(1200, 5, 10), piece(1200, 20, 30), piece(1800, 30, 60), piece(2900, 60, 70)]
        );
        // The task runs before the CPU's first known frequency.
        assert_eq!(by_step(&slices[1..2], &tunings[2..3]), [piece(UNKNOWN, 20, 30), piece(1800, 30, 60)]);
        assert_eq!(by_step(&slices[..1], &[]), [piece(UNKNOWN, 5, 10)]);
    }
}

//! A recording as a picture: time from left to right, a row for each CPU, a colour for each task.
use crate::core::{Recording, Slice};
use crate::engine::{Ns, display_ns};
use std::fmt::Write;

/// Pixels of the whole time.
const WIDTH: u64 = 1600;
const LEFT: u64 = 60;
const TOP: u64 = 40;
/// Height of all rows together, about; a row has from 3 to 16.
const HEIGHT: u64 = 800;

/// An SVG. Of all tasks that had a CPU within a pixel, the one that had it longest has the pixel.
pub fn render_timeline(recording: &Recording, title: &str) -> String {
    let end = recording.full_at.unwrap_or(recording.end).max(1);
    let row = (HEIGHT / recording.nr_cpus.max(1) as u64).clamp(3, 16);
    let height = TOP + row * recording.nr_cpus as u64 + 30;
    let width = LEFT + WIDTH + 20;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let mut by_cpu: Vec<Vec<Slice>> = vec![Vec::new(); recording.nr_cpus];
    recording.slices.iter().for_each(|slice| by_cpu[slice.cpu].push(*slice));
    for (cpu, slices) in by_cpu.iter().enumerate() {
        let y = TOP + row * cpu as u64;
        if row >= 10 || cpu % 10 == 0 {
            let _ = writeln!(text, "<text x=\"4\" y=\"{}\">CPU {cpu}</text>", y + row.min(10));
        }
        for (task, from, to) in runs(slices, end) {
            let (name, pid) = &recording.tasks[task];
            let _ = writeln!(
                text,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"hsl({},{}%,55%)\">\
                 <title>{} {pid}</title></rect>",
                LEFT + from,
                to - from,
                row - 1,
                task * 137 % 360,
                45 + task * 31 % 40,
                escaped(name)
            );
        }
    }
    for tenth in 0..=10 {
        let (x, y) = (LEFT + WIDTH * tenth / 10, height - 12);
        let at = display_ns(end / 10 * tenth);
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{at}</text>");
    }
    text + "</svg>\n"
}

/// Who has which pixels of a row: task, from, to.
fn runs(slices: &[Slice], end: Ns) -> Vec<(usize, u64, u64)> {
    let pixel = |at: Ns| ((u128::from(at) * u128::from(WIDTH) / u128::from(end)) as u64).min(WIDTH - 1);
    let start_of = |pixel: u64| (u128::from(pixel) * u128::from(end) / u128::from(WIDTH)) as u64;
    // How long the best one has each pixel.
    let mut owners: Vec<Option<(usize, Ns)>> = vec![None; WIDTH as usize];
    for slice in slices.iter().filter(|slice| slice.from < end) {
        for at in pixel(slice.from)..=pixel(slice.to.min(end)) {
            let had = slice.to.min(start_of(at + 1)).saturating_sub(slice.from.max(start_of(at)));
            let owner = &mut owners[at as usize];
            if had > owner.map_or(0, |(_, best)| best) {
                *owner = Some((slice.task, had));
            }
        }
    }
    let mut runs: Vec<(usize, u64, u64)> = Vec::new();
    for (at, owner) in (0..).zip(owners) {
        let Some((task, _)) = owner else { continue };
        match runs.last_mut() {
            Some((last, _, to)) if *last == task && *to == at => *to = at + 1,
            _ => runs.push((task, at, at + 1)),
        }
    }
    runs
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_belongs_to_who_had_it_longest() {
        let slice = |task, from, to| Slice { cpu: 0, task, from, to };
        // 10 ns a pixel.
        let slices = [slice(1, 0, 25), slice(2, 25, 27), slice(3, 27, 40)];
        assert_eq!(runs(&slices, 10 * WIDTH), [(1, 0, 3), (3, 3, 4)]);
    }
}

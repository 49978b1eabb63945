//! The curves in a terminal: columns of block elements.

use super::report::Report;
use ptxkit::occupancy::Axis;

/// The columns of a curve.
const COLUMNS: u32 = 64;
/// Its lines, each of eight steps.
const LINES: u32 = 4;
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub fn title(axis: Axis) -> &'static str {
    match axis {
        Axis::Threads => "threads of a block",
        Axis::Registers => "registers of a thread",
        Axis::Shared => "bytes of shared memory of a block",
    }
}

/// Warps over one resource, with a mark at the kernel's own.
pub fn text(report: &Report, axis: Axis) -> String {
    let curve = report.processor.curve(axis, &report.block);
    let (first, end) = (
        curve.first().map_or(0, |point| point.from),
        report.processor.end(axis),
    );
    let at = |column: u32| first + (end - first) * column / (COLUMNS - 1);
    let heights: Vec<u32> = (0..COLUMNS)
        .map(|column| {
            let point = curve.iter().rfind(|point| point.from <= at(column));
            let warps = point.map_or(0, |point| point.occupancy.warps);
            (warps * LINES * 8).div_ceil(report.occupancy.of.max(1))
        })
        .collect();
    let mut out = format!("  warps by {}\n", title(axis));
    for line in (0..LINES).rev() {
        let label = match line + 1 {
            LINES => report.occupancy.of.to_string(),
            _ => String::new(),
        };
        let cells = heights.iter().map(|height| {
            let eighths = height.saturating_sub(line * 8).min(8);
            EIGHTHS[eighths as usize]
        });
        let cells: String = cells.collect();
        out += format!("  {label:>4} │{cells}").trim_end();
        out += "\n";
    }
    let value = axis.of(&report.block);
    // Unknown registers have no place.
    let mark = (first..=end).contains(&value).then(|| {
        let span = u64::from(end - first).max(1);
        (u64::from(value - first) * u64::from(COLUMNS - 1)).div_ceil(span) as usize
    });
    let axis_line =
        (0..COLUMNS as usize).map(|column| if mark == Some(column) { '▲' } else { '─' });
    out += &format!("     0 └{}\n", axis_line.collect::<String>());
    out += &format!(
        "        {}\n",
        labels(first, end, mark.map(|mark| (mark, value)))
    );
    out
}

/// The first and the last value below the axis, and the kernel's own where it has room.
fn labels(first: u32, end: u32, mark: Option<(usize, u32)>) -> String {
    let (first, end) = (first.to_string(), end.to_string());
    let width = COLUMNS as usize;
    let own = mark.and_then(|(column, value)| {
        let value = value.to_string();
        let start = column.saturating_sub(value.len() / 2);
        let fits = start > first.len() + 1 && start + value.len() + 1 < width - end.len();
        fits.then_some((start, value))
    });
    let (start, own) = own.unwrap_or((first.len(), String::new()));
    let left = format!("{first:<start$}{own}");
    let room = width.saturating_sub(left.len());
    format!("{left}{end:>room$}")
}

//! The curves as a picture: for each kernel a row of three.

use std::fmt::Write as _;

use super::chart::title;
use super::report::Report;
use crate::markup::escaped;
use ptxkit::occupancy::Axis;

/// The size of a curve in pixels, and the room around it.
const WIDTH: u32 = 280;
const HEIGHT: u32 = 140;
const LEFT: u32 = 48;
const RIGHT: u32 = 24;
/// The height of a kernel's title.
const TITLE: u32 = 64;
/// Below a curve: values, and the name of the resource.
const BELOW: u32 = 56;

/// Colours for light and dark pages: the text of both has a contrast of 7 at least.
const STYLE: &str = "\
.back { fill: #ffffff } .name { fill: #1a1d23; font-weight: 600 } .text { fill: #4a5260 }
.grid { stroke: #dcdfe5 } .area { fill: #0b57b8; fill-opacity: .14 }
.line { stroke: #0b57b8; fill: none; stroke-width: 2 }
.own { stroke: #a8210f; stroke-dasharray: 4 3 } .dot { fill: #a8210f } .mark { fill: #a8210f }
text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }
@media (prefers-color-scheme: dark) {
.back { fill: #16181d } .name { fill: #e4e6eb } .text { fill: #a9b2c0 }
.grid { stroke: #333843 } .area { fill: #7db4ff; fill-opacity: .2 }
.line { stroke: #7db4ff }
.own { stroke: #ff9a80 } .dot { fill: #ff9a80 } .mark { fill: #ff9a80 }
}";

/// A document with all kernels.
pub fn document(reports: &[Report]) -> String {
    let width = 3 * (LEFT + WIDTH + RIGHT);
    let row = TITLE + HEIGHT + BELOW;
    let height = row * reports.len() as u32;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>Occupancy</title>\n<style>\n{STYLE}\n</style>\n\
         <rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
    );
    for (index, report) in reports.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", row * index as u32);
        let _ = writeln!(
            out,
            "<text class=\"name\" x=\"16\" y=\"24\">{} on {}</text>",
            escaped(&report.kernel.name),
            report.target
        );
        let _ = writeln!(
            out,
            "<text class=\"text\" x=\"16\" y=\"42\">{}, limited by {}</text>",
            report.resident(&report.occupancy),
            report.limits()
        );
        for (column, axis) in (0..).zip(Axis::ALL) {
            let x = LEFT + column * (LEFT + WIDTH + RIGHT);
            let _ = writeln!(out, "<g transform=\"translate({x} {TITLE})\">");
            curve(&mut out, report, axis);
            out += "</g>\n";
        }
        out += "</g>\n";
    }
    out + "</svg>\n"
}

/// One curve: steps, as every value of an allocation unit has the same occupancy.
fn curve(out: &mut String, report: &Report, axis: Axis) {
    let points = report.processor.curve(axis, &report.block);
    let (first, end) = (
        points.first().map_or(0, |point| point.from),
        report.processor.end(axis),
    );
    let most = report.occupancy.of.max(1);
    let x = |value: u32| {
        f64::from(value.saturating_sub(first)) * f64::from(WIDTH) / f64::from((end - first).max(1))
    };
    let y = |warps: u32| f64::from(HEIGHT) * (1.0 - f64::from(warps) / f64::from(most));
    for quarter in 0..=4 {
        let warps = most * quarter / 4;
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M0 {0:.1}H{WIDTH}\"/>\
             <text class=\"text\" x=\"-8\" y=\"{1:.1}\" text-anchor=\"end\">{warps}</text>",
            y(warps),
            y(warps) + 4.0
        );
    }
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let height = y(point.occupancy.warps);
        let _ = match index {
            0 => write!(path, "M0 {height:.1}"),
            _ => write!(path, "H{:.1}V{height:.1}", x(point.from)),
        };
    }
    let _ = write!(path, "H{WIDTH}");
    let _ = writeln!(
        out,
        "<path class=\"area\" d=\"{path}V{HEIGHT}H0Z\"/>\n<path class=\"line\" d=\"{path}\"/>"
    );
    for (value, anchor) in [(first, "start"), (end, "end")] {
        let _ = writeln!(
            out,
            "<text class=\"text\" x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{value}</text>",
            x(value),
            HEIGHT + 18
        );
    }
    let own = axis.of(&report.block);
    // Unknown registers have no place.
    if (first..=end).contains(&own) {
        let (x, y) = (x(own), y(report.occupancy.warps));
        let _ = writeln!(
            out,
            "<path class=\"own\" d=\"M{x:.1} 0V{HEIGHT}\"/>\
             <circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
        );
        // Beside the ends, the value would lie over theirs.
        if (0.15..0.85).contains(&(x / f64::from(WIDTH))) {
            let _ = writeln!(
                out,
                "<text class=\"mark\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{own}</text>",
                HEIGHT + 18
            );
        }
    }
    let _ = writeln!(
        out,
        "<text class=\"text\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">warps by {}</text>",
        WIDTH / 2,
        HEIGHT + 38,
        title(axis)
    );
}

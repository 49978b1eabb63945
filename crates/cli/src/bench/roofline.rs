//! The roofline: operations a second over operations a byte, as a picture.

use std::fmt::Write as _;

use crate::markup::escaped;

/// A kernel in the picture.
pub struct Point {
    pub label: String,
    /// Operations for each byte.
    pub intensity: f64,
    /// Operations a second.
    pub rate: f64,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 56.0;

/// Colours for light and dark pages: the text of both has a contrast of 7 at least.
const STYLE: &str = "\
.back { fill: #ffffff } .name { fill: #1a1d23; font-weight: 600 } .text { fill: #4a5260 }
.grid { stroke: #dcdfe5 } .roof { stroke: #0b57b8; fill: none; stroke-width: 2 }
.theory { stroke-dasharray: 6 4 }
.dot, .mark { fill: #a8210f }
text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }
@media (prefers-color-scheme: dark) {
.back { fill: #16181d } .name { fill: #e4e6eb } .text { fill: #a9b2c0 }
.grid { stroke: #333843 } .roof { stroke: #7db4ff } .dot, .mark { fill: #ff9a80 }
}";

/// The roofs a second.
pub struct Roofs {
    /// Bytes of a copy, as measured.
    pub copy: f64,
    /// Bytes of the device's memory in theory, drawn dashed.
    pub bandwidth: Option<f64>,
    /// Operations in theory, with their kind.
    pub operations: Option<(&'static str, f64)>,
}

impl Roofs {
    /// `GFLOP/s; copies 2893.1 GB/s, memory 3352.3 GB/s, f32 66908.2 GFLOP/s`
    fn legend(&self) -> String {
        let mut text = format!("GFLOP/s; copies {:.1} GB/s", self.copy / 1e9);
        // Writing to a String cannot fail.
        if let Some(bandwidth) = self.bandwidth {
            let _ = write!(text, ", memory (dashed) {:.1} GB/s", bandwidth / 1e9);
        }
        if let Some((kind, peak)) = self.operations {
            let _ = write!(text, ", {kind} {:.1} GFLOP/s", peak / 1e9);
        }
        text
    }
}

/// The picture of some kernels under the roofs.
pub fn document(device: &str, points: &[Point], roofs: &Roofs) -> String {
    let decade = |value: f64| value.max(1e-12).log10();
    let peak = roofs.operations.map(|(_, peak)| peak);
    let slopes = [(Some(roofs.copy), "roof"), (roofs.bandwidth, "roof theory")];
    let slopes: Vec<(f64, &str)> = slopes
        .into_iter()
        .filter_map(|(bytes, class)| Some((bytes?, class)))
        .collect();
    let ridge = |bandwidth: f64| peak.map(|peak| decade(peak / bandwidth));
    let xs = points.iter().map(|point| decade(point.intensity));
    let ridges = slopes.iter().filter_map(|(bytes, _)| ridge(*bytes));
    let (low, high) = span(xs.chain(ridges));
    let roof = |bandwidth: f64, x: f64| {
        let slope = x + decade(bandwidth);
        peak.map_or(slope, |peak| slope.min(decade(peak)))
    };
    let ys = points.iter().map(|point| decade(point.rate));
    let ends = slopes
        .iter()
        .flat_map(|(bytes, _)| [roof(*bytes, low), roof(*bytes, high)]);
    let (bottom, top) = span(ys.chain(ends));
    let x = |value: f64| LEFT + WIDTH * (value - low) / (high - low);
    let y = |value: f64| TOP + HEIGHT * (1.0 - (value - bottom) / (top - bottom));
    let (width, height) = (LEFT + WIDTH + 40.0, TOP + HEIGHT + 56.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>Roofline</title>\n\
         <style>\n{STYLE}\n</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"name\" x=\"16\" y=\"24\">{}</text>\n",
        escaped(device)
    );
    for power in low as i32..=high as i32 {
        let at = x(f64::from(power));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{:.1}\"/>\
             <text class=\"text\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            TOP + HEIGHT,
            TOP + HEIGHT + 18.0,
            power_of_ten(power)
        );
    }
    for power in bottom as i32..=top as i32 {
        let at = y(f64::from(power));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{:.1}\"/>\
             <text class=\"text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT + WIDTH,
            LEFT - 8.0,
            at + 4.0,
            power_of_ten(power - 9)
        );
    }
    for (bandwidth, class) in slopes {
        let bend = ridge(bandwidth).filter(|ridge| (low..high).contains(ridge));
        let bend = bend.unwrap_or(high);
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{:.1} {:.1}L{:.1} {:.1}H{:.1}\"/>",
            x(low),
            y(roof(bandwidth, low)),
            x(bend),
            y(roof(bandwidth, bend)),
            x(high)
        );
    }
    for point in points {
        let (at, up) = (x(decade(point.intensity)), y(decade(point.rate)));
        let _ = writeln!(
            out,
            "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"4\"/>\
             <text class=\"mark\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at + 8.0,
            up + 4.0,
            escaped(&point.label)
        );
    }
    let _ = write!(
        out,
        "<text class=\"text\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations a byte</text>\n\
         <text class=\"text\" x=\"16\" y=\"44\">{}</text>\n</svg>\n",
        LEFT + WIDTH / 2.0,
        TOP + HEIGHT + 42.0,
        roofs.legend()
    );
    out
}

/// Whole decades around some values, two at least.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    let (low, high) = ((low - 0.2).floor(), (high + 0.2).ceil());
    (low, high.max(low + 2.0))
}

fn power_of_ten(power: i32) -> String {
    match power {
        0..=4 => 10_u32.pow(power as u32).to_string(),
        -3..=-1 => format!("{:.*}", -power as usize, 10_f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_roofs_end_at_the_peak() {
        let points = [Point {
            label: "saxpy.ptx".to_owned(),
            intensity: 0.17,
            rate: 400e9,
        }];
        let mut roofs = Roofs {
            copy: 2.9e12,
            bandwidth: Some(3.35e12),
            operations: Some(("f32", 66.9e12)),
        };
        let picture = document("H100", &points, &roofs);
        let ends = |picture: &str, class: &str| {
            let path = picture.split_once(&format!("<path class=\"{class}\" d=\"M"));
            let path = path.unwrap().1.split('"').next().unwrap().to_owned();
            // Start, bend and end: `x yLx yHx`.
            let numbers = path
                .split([' ', 'L', 'H'])
                .map(|n| n.parse::<f64>().unwrap());
            numbers.collect::<Vec<f64>>()
        };
        let (measured, theory) = (ends(&picture, "roof"), ends(&picture, "roof theory"));
        assert!(theory[1] < measured[1], "the theoretical one is higher");
        assert!(
            theory[2] < measured[2],
            "and bends at fewer operations a byte"
        );
        assert_eq!((theory[3], theory[4]), (measured[3], measured[4]));
        assert!(
            picture.contains("copies 2900.0 GB/s, memory (dashed) 3350.0 GB/s, f32 66900.0 GF")
        );

        roofs.bandwidth = None;
        assert!(!document("CPU", &points, &roofs).contains("roof theory\""));
    }
}

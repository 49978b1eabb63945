//! Measures our side and its peer in turn, A B, B A, A B …, so that a machine
//! whose speed drifts slows both, and prints the medians and their ratio.

use std::time::{Duration, Instant};

/// How long is measured at least: of a fraction of a second a neighbour on the machine can take most.
const LEAST: Duration = Duration::from_secs(2);

/// Warms both sides up, then times runs of each in turn, `runs` at least and for two seconds at least.
///
/// `goal` is the ratio ours/peer that the project promises; it is printed, not
/// asserted: a bench reports, and a busy machine must not fail a build.
/// Returns the median ratio.
#[allow(dead_code, reason = "each bench takes one of the two")]
pub fn paired(
    title: &str,
    runs: usize,
    goal: f64,
    mut ours: impl FnMut(),
    mut peer: impl FnMut(),
) -> f64 {
    paired_by(title, runs, goal, || time(&mut ours), || time(&mut peer))
}

/// The same for sides that say themselves how many seconds they took.
pub fn paired_by(
    title: &str,
    runs: usize,
    goal: f64,
    mut ours: impl FnMut() -> f64,
    mut peer: impl FnMut() -> f64,
) -> f64 {
    // Long enough for caches, clocks and background compilers to settle.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        ours();
        peer();
    }
    let (mut a, mut b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    for run in 0.. {
        if run >= runs && start.elapsed() >= LEAST {
            break;
        }
        let (x, y) = match run % 2 {
            0 => (ours(), peer()),
            _ => {
                let y = peer();
                (ours(), y)
            }
        };
        a.push(x);
        b.push(y);
        ratios.push(x / y);
    }
    let (a, b) = (median(&mut a), median(&mut b));
    let ratio = median(&mut ratios);
    let (low, high) = (ratios[0], ratios[ratios.len() - 1]);
    let verdict = if ratio <= goal { "met" } else { "MISSED" };
    println!(
        "{title:<34} ours {:>10}  peer {:>10}  ratio {ratio:.3} ({low:.3} to {high:.3})  goal {goal}: {verdict}",
        show(a),
        show(b),
    );
    ratio
}

fn time(run: &mut impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn show(seconds: f64) -> String {
    format!("{:.3?}", Duration::from_secs_f64(seconds))
}

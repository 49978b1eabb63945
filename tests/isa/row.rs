//! Rows: statements, inputs, the result.

use ptxkit::cpu::Vectorization;

use crate::kernels::{Kernels, device};

/// A body (see [`crate::kernels`]), its first inputs (the others are 0), and
/// the bits of its result.
pub type Row = (&'static str, &'static [u64], u64);

/// The bits of an `f32`.
pub const fn s(value: f32) -> u64 {
    value.to_bits() as u64
}

/// The bits of an `f64`.
pub const fn d(value: f64) -> u64 {
    value.to_bits()
}

/// A signed number in the low half.
pub const fn w(value: i32) -> u64 {
    value as u32 as u64
}

pub const MIN32: u64 = 0x8000_0000;
pub const NAN32: u64 = 0x7FC0_0000;

/// Runs each row in one thread alone and in the 32 of a warp.
pub fn check(rows: &[Row]) {
    check_for("sm_90a", rows);
}

/// The same for another target.
pub fn check_for(target: &str, rows: &[Row]) {
    let mut bodies: Vec<&str> = rows.iter().map(|row| row.0).collect();
    bodies.sort_unstable();
    bodies.dedup();
    let device = device();
    let mut wrong = Vec::new();
    for (threads, lanes) in [(1, Vectorization::Never), (32, Vectorization::Always)] {
        let kernels = Kernels::load_for(target, &device, &bodies, lanes);
        for &(body, inputs, expected) in rows {
            let number = bodies.binary_search(&body).expect("made of the rows");
            let mut input = [0; 4];
            input[..inputs.len()].copy_from_slice(inputs);
            match kernels.run(number, &vec![input; threads]) {
                Ok(found) => {
                    if let Some(at) = found.iter().position(|&found| found != expected) {
                        let found = found[at];
                        wrong.push(format!(
                            "{body} {inputs:X?}\n  gives {found:#X}, not {expected:#X}, in thread {at} of {threads}"
                        ));
                    }
                }
                Err(error) => wrong.push(format!("{body}, {threads} threads\n  {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

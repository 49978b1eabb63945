//! The arithmetic throughput of a multiprocessor, one row a target.
//!
//! Sources: CUDA C++ Programming Guide, "Arithmetic Instructions" (results per clock cycle and
//! multiprocessor); of matrices the white papers of the architectures. What neither has is
//! `None`.

/// What one multiprocessor computes in a clock cycle.
///
/// An fma is one result and two operations.
///
/// ```
/// use ptxkit_occupancy::Throughput;
///
/// let hopper = Throughput::of(90).unwrap();
/// assert_eq!((hopper.f32, hopper.f64), (128, Some(64)));
/// assert!(Throughput::of(91).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Throughput {
    /// Compute capability times ten: 90 is `sm_90`.
    pub number: u16,
    /// Results of `add`, `mul` and `fma` on f16; of `f16x2` each half is one.
    pub f16: Option<u32>,
    /// The same on f32.
    pub f32: u32,
    /// The same on f64.
    pub f64: Option<u32>,
    /// Multiplications with addition of dense matrices of f16, with sums in f32, by tensor
    /// cores. Devices of one target may be sold with less.
    pub matrix: Option<u32>,
}

#[rustfmt::skip]
const TABLE: &[Throughput] = &[
    //  f16        f32  f64       matrix
    row(50,  None,      128, Some(4),  None),
    row(52,  None,      128, Some(4),  None),
    row(53,  Some(256), 128, Some(4),  None),
    row(60,  Some(128), 64,  Some(32), None),
    row(61,  Some(2),   128, Some(4),  None),
    row(62,  Some(256), 128, Some(4),  None),
    row(70,  Some(128), 64,  Some(32), Some(512)),
    row(72,  Some(128), 64,  Some(32), Some(512)),
    row(75,  Some(128), 64,  Some(2),  Some(512)),
    row(80,  Some(256), 64,  Some(32), Some(1024)),
    row(86,  Some(128), 128, Some(2),  Some(512)),
    row(87,  None,      128, Some(2),  Some(1024)),
    row(89,  Some(128), 128, Some(2),  Some(512)),
    row(90,  Some(256), 128, Some(64), Some(2048)),
    row(100, Some(256), 128, Some(64), Some(4096)),
    row(101, None,      128, None,     None),
    row(103, Some(256), 128, Some(2),  Some(4096)),
    row(110, None,      128, None,     None),
    row(120, Some(128), 128, Some(2),  Some(512)),
    row(121, Some(128), 128, Some(2),  Some(512)),
];

const fn row(
    number: u16,
    f16: Option<u32>,
    f32: u32,
    f64: Option<u32>,
    matrix: Option<u32>,
) -> Throughput {
    Throughput {
        number,
        f16,
        f32,
        f64,
        matrix,
    }
}

impl Throughput {
    /// That of a target by its number; `None` if it is not published.
    pub fn of(number: u16) -> Option<&'static Throughput> {
        TABLE.iter().find(|row| row.number == number)
    }

    /// All targets with a row, by number.
    pub fn all() -> impl Iterator<Item = &'static Throughput> {
        TABLE.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Multiprocessor;

    /// Published figures in TFLOP/s, at the clock that they are published for.
    #[test]
    fn devices_reach_what_is_published() {
        // Target, multiprocessors, clock in GHz; f32, f64 and matrices.
        #[rustfmt::skip]
        let devices = [
            ("P100 SXM", 60, 56, 1.480, 10.6, 5.3, None),
            ("V100 SXM", 70, 80, 1.530, 15.7, 7.8, Some(125.0)),
            ("T4", 75, 40, 1.590, 8.1, 0.254, Some(65.0)),
            ("A100 SXM", 80, 108, 1.410, 19.5, 9.7, Some(312.0)),
            ("A40", 86, 84, 1.740, 37.4, 0.585, Some(149.7)),
            ("L40S", 89, 142, 2.520, 91.6, 1.431, Some(366.0)),
            ("H100 SXM", 90, 132, 1.980, 67.0, 34.0, None),
            ("H100 SXM, matrices", 90, 132, 1.830, 62.0, 31.0, Some(989.4)),
        ];
        for (name, target, count, clock, f32, f64, matrix) in devices {
            let row = Throughput::of(target).unwrap();
            let peak = |results: u32| 2.0 * f64::from(results) * f64::from(count) * clock / 1e3;
            let near = |found: f64, published: f64| {
                assert!(
                    (found / published - 1.0).abs() < 0.02,
                    "{name}: {found} is not {published}"
                );
            };
            near(peak(row.f32), f32);
            near(peak(row.f64.unwrap()), f64);
            if let Some(matrix) = matrix {
                near(peak(row.matrix.unwrap()), matrix);
            }
        }
    }

    #[test]
    fn every_row_is_of_a_known_multiprocessor() {
        assert!(Throughput::all().is_sorted_by_key(|row| row.number));
        for row in Throughput::all() {
            assert!(Multiprocessor::of(row.number).is_some(), "{}", row.number);
        }
        // One whose throughput is not published.
        assert!(Throughput::of(88).is_none() && Multiprocessor::of(88).is_some());
    }
}

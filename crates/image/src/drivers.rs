//! Which driver has which CUDA version, and which PTX it reads.

use std::fmt;

use ptx::ast::Version;

/// The first driver branch of a CUDA version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverRelease {
    /// The first number of the driver's own version: 580 for 580.65.06.
    pub branch: u32,
    /// As `cuDriverGetVersion` gives it: 13000 for CUDA 13.0.
    pub cuda: u32,
    /// The newest PTX version that it reads.
    pub ptx: Version,
}

/// The first driver branch of each CUDA version from 11.0, the first whose PTX version is known
/// (CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding Driver Versions"). A branch
/// between two belongs to the older one.
const BRANCHES: [(u32, u32, u32); 22] = [
    (450, 11, 0),
    (455, 11, 1),
    (460, 11, 2),
    (465, 11, 3),
    (470, 11, 4),
    (495, 11, 5),
    (510, 11, 6),
    (515, 11, 7),
    (520, 11, 8),
    (525, 12, 0),
    (530, 12, 1),
    (535, 12, 2),
    (545, 12, 3),
    (550, 12, 4),
    (555, 12, 5),
    (560, 12, 6),
    (565, 12, 7),
    (570, 12, 8),
    (575, 12, 9),
    (580, 13, 0),
    (590, 13, 1),
    (595, 13, 2),
];

impl fmt::Display for DriverRelease {
    /// `driver 580 (CUDA 13.0)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = (self.cuda / 1000, self.cuda % 1000 / 10);
        write!(f, "driver {} (CUDA {major}.{minor})", self.branch)
    }
}

/// The known driver branches, the oldest first.
///
/// ```
/// use ptxkit_image::drivers;
///
/// let first_of_13 = drivers().find(|driver| driver.cuda == 13000).unwrap();
/// assert_eq!((first_of_13.branch, first_of_13.ptx.to_string()), (580, "9.0".into()));
/// ```
pub fn drivers() -> impl DoubleEndedIterator<Item = DriverRelease> {
    BRANCHES.into_iter().filter_map(|(branch, major, minor)| {
        let cuda = major * 1000 + minor * 10;
        let ptx = newest_ptx(cuda)?;
        Some(DriverRelease { branch, cuda, ptx })
    })
}

/// The first driver branch that reads PTX of this version; `None` if no known one does.
///
/// ```
/// use ptxkit_image::{first_driver_for, newest_ptx};
///
/// let version = newest_ptx(12080).unwrap(); // 8.7
/// assert_eq!(first_driver_for(version).unwrap().to_string(), "driver 570 (CUDA 12.8)");
/// ```
pub fn first_driver_for(version: Version) -> Option<DriverRelease> {
    drivers().find(|driver| driver.ptx >= version)
}

/// The newest PTX version that a driver of this CUDA version supports (PTX ISA, "Release Notes");
/// `None` for drivers older than CUDA 11.
pub fn newest_ptx(driver_version: u32) -> Option<Version> {
    let minor = (driver_version % 1000 / 10) as u8;
    let (major, minor) = match (driver_version / 1000, minor) {
        (11, _) => (7, minor.min(8)),
        // 12.6 did not introduce a version.
        (12, 0..=5) => (8, minor),
        (12, _) => (8, (minor - 1).min(8)),
        (cuda @ 13.., _) => (u8::try_from(cuda - 4).unwrap_or(u8::MAX), minor),
        _ => return None,
    };
    Some(Version { major, minor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_versions_are_those_of_the_release_notes() {
        for (driver, ptx) in [
            (11000, (7, 0)),
            (11080, (7, 8)),
            (12000, (8, 0)),
            (12050, (8, 5)),
            (12060, (8, 5)),
            (12080, (8, 7)),
            (12090, (8, 8)),
            (13000, (9, 0)),
        ] {
            let (major, minor) = ptx;
            let newest = newest_ptx(driver);
            assert_eq!(newest, Some(Version { major, minor }), "{driver}");
        }
        assert_eq!(newest_ptx(10020), None);
    }

    #[test]
    fn the_first_driver_reads_the_version_and_the_one_before_does_not() {
        let of = |major, minor| first_driver_for(Version { major, minor });
        assert_eq!(of(8, 5).map(|driver| driver.cuda), Some(12050));
        assert_eq!(of(6, 0).map(|driver| driver.branch), Some(450));
        assert_eq!(of(99, 0), None);
        let versions: Vec<_> = drivers().map(|driver| driver.ptx).collect();
        assert!(versions.is_sorted());
    }
}

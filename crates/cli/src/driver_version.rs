//! Driver versions as shown by nvidia-smi: the CUDA version, or the version of the driver.

use std::fmt;
use std::str::FromStr;

/// The CUDA version of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverVersion {
    /// In the format of `cuDriverGetVersion`: 12040 for CUDA 12.4.
    pub cuda: u32,
    /// How the version follows from the text, if it has another number.
    derivation: Option<String>,
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

/// Drivers from this branch are newer than the table.
const FIRST_UNKNOWN: u32 = 600;

impl FromStr for DriverVersion {
    type Err = String;

    /// Parses `12.4`, `12`, `580` or `580.65.06`.
    fn from_str(text: &str) -> Result<DriverVersion, String> {
        let wrong = || "give the CUDA version, 12.4, or the driver's own, 580.65".to_owned();
        let parts: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        let (cuda, derivation) = match parts.map_err(|_| wrong())?.as_slice() {
            [major, minor] if *major < 100 && *minor < 100 => ((*major, *minor), None),
            [major] if *major < 100 => ((*major, 0), Some(format!("the first of CUDA {major}"))),
            [branch, rest @ ..] if *branch >= 100 && rest.len() <= 2 => {
                let (_, major, minor) = BRANCHES
                    .into_iter()
                    .take_while(|(first, ..)| first <= branch)
                    .last()
                    .ok_or("drivers before 450 (CUDA 11.0) are not supported")?;
                let newer = match *branch >= FIRST_UNKNOWN {
                    true => ", which may have a newer one",
                    false => "",
                };
                ((major, minor), Some(format!("driver {text}{newer}")))
            }
            _ => return Err(wrong()),
        };
        if cuda.0 < 11 {
            return Err("drivers before CUDA 11.0 are not supported".to_owned());
        }
        Ok(DriverVersion {
            cuda: cuda.0 * 1000 + cuda.1 * 10,
            derivation,
        })
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA {}.{}", self.cuda / 1000, self.cuda % 1000 / 10)?;
        match &self.derivation {
            Some(derivation) => write!(f, " ({derivation})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_nvidia_smi_are_understood() {
        for (text, derivation) in [
            ("12.4", "CUDA 12.4"),
            ("12", "CUDA 12.0 (the first of CUDA 12)"),
            ("580", "CUDA 13.0 (driver 580)"),
            ("580.65", "CUDA 13.0 (driver 580.65)"),
            ("580.65.06", "CUDA 13.0 (driver 580.65.06)"),
            ("572.16", "CUDA 12.8 (driver 572.16)"),
            (
                "610.10",
                "CUDA 13.2 (driver 610.10, which may have a newer one)",
            ),
        ] {
            let version: DriverVersion = text.parse().unwrap();
            assert_eq!(version.to_string(), derivation, "{text}");
        }
        for wrong in [
            "",
            "x",
            "12.x",
            "12.4.1.2",
            "580.1.2.3",
            "390.46",
            "10.2",
            "-580",
        ] {
            assert!(wrong.parse::<DriverVersion>().is_err(), "{wrong}");
        }
    }
}

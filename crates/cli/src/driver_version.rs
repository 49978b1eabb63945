//! A driver as nvidia-smi shows it: by its CUDA version, or by its own version.

use std::fmt;
use std::str::FromStr;

/// The CUDA version of a driver, and the text that it was understood from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverVersion {
    /// As `cuDriverGetVersion` gives it: 12040 for CUDA 12.4.
    pub cuda: u32,
    /// Why it is that version, where the text says another number.
    understood: Option<String>,
}

/// The first driver branch of each CUDA version since 11.0, the first whose PTX is known here
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

/// Drivers from this branch on are newer than the table.
const UNKNOWN: u32 = 600;

impl FromStr for DriverVersion {
    type Err = String;

    /// Reads `12.4`, `12`, `580` and `580.65.06`.
    fn from_str(text: &str) -> Result<DriverVersion, String> {
        let wrong = || "give the CUDA version, 12.4, or the driver's own, 580.65".to_owned();
        let parts: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        let (cuda, understood) = match parts.map_err(|_| wrong())?.as_slice() {
            [major, minor] if *major < 100 && *minor < 100 => ((*major, *minor), None),
            [major] if *major < 100 => ((*major, 0), Some(format!("the first of CUDA {major}"))),
            [branch, rest @ ..] if *branch >= 100 && rest.len() <= 2 => {
                let (_, major, minor) = BRANCHES
                    .into_iter()
                    .take_while(|(first, ..)| first <= branch)
                    .last()
                    .ok_or("drivers before 450 are not known; CUDA 11.0 is the first that is")?;
                let newer = match *branch >= UNKNOWN {
                    true => ", which may have a newer one",
                    false => "",
                };
                ((major, minor), Some(format!("driver {text}{newer}")))
            }
            _ => return Err(wrong()),
        };
        if cuda.0 < 11 {
            return Err("drivers before CUDA 11.0 are not known".to_owned());
        }
        Ok(DriverVersion {
            cuda: cuda.0 * 1000 + cuda.1 * 10,
            understood,
        })
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CUDA {}.{}", self.cuda / 1000, self.cuda % 1000 / 10)?;
        match &self.understood {
            Some(understood) => write!(f, " ({understood})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_nvidia_smi_are_understood() {
        for (text, understood) in [
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
            assert_eq!(version.to_string(), understood, "{text}");
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

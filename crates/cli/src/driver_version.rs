//! Driver versions as shown by nvidia-smi: the CUDA version, or the version of the driver.

use std::fmt;
use std::str::FromStr;

use ptxkit::image::drivers;

/// The CUDA version of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverVersion {
    /// In the format of `cuDriverGetVersion`: 12040 for CUDA 12.4.
    pub cuda: u32,
    /// How the version follows from the text, if it has another number.
    derivation: Option<String>,
}

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
                let release = drivers()
                    .take_while(|release| release.branch <= *branch)
                    .last()
                    .ok_or("drivers before 450 (CUDA 11.0) are not supported")?;
                let newer = if *branch >= FIRST_UNKNOWN {
                    ", which may have a newer one"
                } else {
                    ""
                };
                (
                    (release.cuda / 1000, release.cuda % 1000 / 10),
                    Some(format!("driver {text}{newer}")),
                )
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

//! Device selection by the user.

use std::fmt;
use std::str::FromStr;

use crate::driver::device::Device;
use crate::driver::device::driver::Driver;
use crate::driver::error::Error;

/// `auto`, `nvidia`, `nvidia:N` or `cpu`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Selection {
    /// A GPU if NVIDIA's driver answers with at least one, else the CPU.
    #[default]
    Auto,
    /// GPU number N, or the first.
    Nvidia(Option<u32>),
    /// The embedded CPU device.
    Cpu,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selection, Error> {
        match text {
            "auto" => Ok(Selection::Auto),
            "cpu" => Ok(Selection::Cpu),
            "nvidia" => Ok(Selection::Nvidia(None)),
            _ => text
                .strip_prefix("nvidia:")
                // `parse` would accept a sign.
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|number| number.parse().ok())
                .map(|number| Selection::Nvidia(Some(number)))
                .ok_or_else(|| Error::BadSelection(text.to_owned())),
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::Auto => f.write_str("auto"),
            Selection::Nvidia(None) => f.write_str("nvidia"),
            Selection::Nvidia(Some(number)) => write!(f, "nvidia:{number}"),
            Selection::Cpu => f.write_str("cpu"),
        }
    }
}

/// The selected device and the reason.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The device.
    pub device: Device,
    /// The reason as one clause: `no NVIDIA driver: libcuda.so.1: cannot open shared object
    /// file`.
    pub why: String,
}

/// The device for a [`Selection`]. Only `auto` falls back to the CPU; a GPU
/// asked for by name that is not there is an error.
///
/// ```
/// # #[cfg(feature = "cpu")] {
/// use ptxkit::driver::{select, Selection};
/// let chosen = select(Selection::Auto)?;
/// println!("{} ({})", chosen.device.name()?, chosen.why);
/// # }
/// # Ok::<(), ptxkit::driver::Error>(())
/// ```
pub fn select(selection: Selection) -> Result<Selected, Error> {
    match selection {
        Selection::Nvidia(number) => Ok(Selected {
            device: Driver::nvidia()?.device(number.unwrap_or(0))?,
            why: "asked for".to_owned(),
        }),
        Selection::Cpu => Ok(Selected {
            device: cpu(None)?,
            why: "asked for".to_owned(),
        }),
        Selection::Auto => match first_gpu() {
            Ok((device, count)) => Ok(Selected {
                device,
                why: match count {
                    1 => "the NVIDIA driver has one GPU".to_owned(),
                    _ => format!("the first of the NVIDIA driver's {count} GPUs"),
                },
            }),
            Err(error) => Ok(Selected {
                why: match &error {
                    // Without the advice to use the CPU, which happens here.
                    Error::DriverMissing(missing) => missing.reasons(),
                    other => other.to_string(),
                },
                device: cpu(Some(error))?,
            }),
        },
    }
}

fn first_gpu() -> Result<(Device, u32), Error> {
    let driver = Driver::nvidia()?;
    Ok((driver.device(0)?, driver.device_count()?))
}

#[cfg(feature = "cpu")]
fn cpu(_no_gpu: Option<Error>) -> Result<Device, Error> {
    Driver::cpu()?.device(0)
}

/// Without the CPU device the error is the reason why there is no GPU.
#[cfg(not(feature = "cpu"))]
fn cpu(no_gpu: Option<Error>) -> Result<Device, Error> {
    Err(no_gpu.unwrap_or_else(|| Error::BadSelection("cpu".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_read_and_written_the_same() {
        for text in ["auto", "nvidia", "nvidia:0", "nvidia:17", "cpu"] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "gpu",
            "nvidia:",
            "nvidia:x",
            "nvidia:-1",
            "nvidia:+1",
            "CPU",
            "nvidia:99999999999",
        ] {
            let error = text.parse::<Selection>().unwrap_err();
            assert!(error.to_string().contains("nvidia:N"), "{text}: {error}");
        }
    }
}

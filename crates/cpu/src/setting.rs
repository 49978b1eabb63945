//! Environment variables that configure the CPU device with a number.

use std::ops::RangeInclusive;

/// An environment variable and the range of its valid numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) variable: &'static str,
    pub(crate) range: RangeInclusive<u32>,
}

/// The value of an environment variable is not a number in its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}={value} is not a whole number from {} to {}: change or unset it",
    setting.variable, setting.range.start(), setting.range.end()
)]
pub(crate) struct SettingError {
    setting: Setting,
    value: String,
}

impl Setting {
    /// The variable's number; `None` if it is not set or empty.
    pub(crate) fn read(&self) -> Result<Option<u32>, SettingError> {
        match std::env::var_os(self.variable) {
            Some(value) => self.parse(&value.to_string_lossy()),
            None => Ok(None),
        }
    }

    fn parse(&self, value: &str) -> Result<Option<u32>, SettingError> {
        if value.trim().is_empty() {
            return Ok(None);
        }
        let number = value.trim().parse().ok();
        match number.filter(|number| self.range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(SettingError {
                setting: self.clone(),
                value: value.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_in_the_range_are_taken() {
        let devices = Setting {
            variable: "PTXKIT_CPU_DEVICES",
            range: 1..=8,
        };
        assert_eq!(devices.parse(""), Ok(None));
        assert_eq!(devices.parse(" 8 "), Ok(Some(8)));
        for wrong in ["0", "9", "-1", "abc", "1.5", "4294967297"] {
            let error = devices.parse(wrong).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "PTXKIT_CPU_DEVICES={wrong} is not a whole number from 1 to 8: change or unset it"
                )
            );
        }
    }
}

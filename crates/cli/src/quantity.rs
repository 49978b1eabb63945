//! Parses and formats sizes and durations.

use std::time::Duration;

/// Parses `200000`, `512K`, `64M` or `2GiB`: bytes, with binary units.
pub fn size(text: &str) -> Result<u64, String> {
    let wrong = || "a size is expected: bytes, or as 512K, 64M, 2G (powers of 1024)".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.to_ascii_lowercase();
    let power = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(1_u64 << (10 * power))
        .ok_or_else(|| format!("{text} is too large"))
}

/// Parses `90s`, `30m`, `12h`, `7d` or `4w`.
pub fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "an age is expected, as 90s, 30m, 12h, 7d or 4w".to_owned();
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return Err(wrong()),
    };
    let seconds = number.checked_mul(seconds).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// `1.5 MiB`
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that rounds to 1024.0 becomes 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `3 h`: a duration in the largest suitable unit.
pub fn show_age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (number, unit) = match seconds {
        0..60 => (seconds, "s"),
        60..3600 => (seconds / 60, "min"),
        3600..86400 => (seconds / 3600, "h"),
        _ => (seconds / 86400, "d"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("200000", 200_000),
            ("1k", 1024),
            ("64M", 64 << 20),
            ("2GiB", 2 << 30),
            ("3 GB", 3 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in [
            "",
            "M",
            "-1",
            "1.5G",
            "1X",
            "1GG",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_are_read() {
        assert_eq!(age("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(age("2w"), Ok(Duration::from_secs(14 * 86400)));
        for wrong in ["", "7", "d", "-1d", "1y", "99999999999999999w"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_are_shown() {
        assert_eq!(show_size(1023), "1023 B");
        assert_eq!(show_size(1536), "1.5 KiB");
        assert_eq!(show_size((1 << 20) - 1), "1.0 MiB");
        assert_eq!(show_size(4 << 30), "4.0 GiB");
        assert_eq!(show_age(Duration::from_secs(59)), "59 s");
        assert_eq!(show_age(Duration::from_secs(7200)), "2 h");
        assert_eq!(show_age(Duration::from_secs(86400 * 400)), "400 d");
    }
}

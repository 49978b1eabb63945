//! Where a blob comes from: for people and tools, not part of the key.

use std::time::Duration;

/// Where a blob comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The name of the source: a path, or what the program called it.
    pub source: String,
    /// The names of its kernels.
    pub kernels: Vec<String>,
    /// The architecture compiled for: `sm_90a`, `cpu`.
    pub target: String,
    /// As in [`KeyParts::compiler`](super::KeyParts::compiler).
    pub compiler: String,
    /// How long it took to compile.
    pub compile_time: Duration,
    /// Which image of the source was taken, and why; empty where nobody said.
    pub image: String,
}

impl Provenance {
    /// This, and what `other` has beside it.
    pub(super) fn with(&self, other: &Provenance) -> Provenance {
        let mut both = self.clone();
        let more = other.kernels.iter();
        both.kernels
            .extend(more.filter(|name| !self.kernels.contains(name)).cloned());
        both.compile_time += other.compile_time;
        both
    }

    /// One `name value` a line, so that a new name does not break old readers.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            text.push_str(name);
            text.push(' ');
            text.push_str(&plain(value));
            text.push('\n');
        };
        line("source", &self.source);
        line("target", &self.target);
        line("compiler", &self.compiler);
        line(
            "compile_us",
            &self
                .compile_time
                .as_micros()
                .min(u64::MAX as u128)
                .to_string(),
        );
        if !self.image.is_empty() {
            line("image", &self.image);
        }
        for kernel in &self.kernels {
            line("kernel", kernel);
        }
        text
    }

    /// The image that `text` says: of hundreds of kernels, none is read.
    #[cfg(feature = "driver")]
    pub(super) fn image_in(text: &[u8]) -> Option<String> {
        let mut lines = text.split(|&byte| byte == b'\n');
        let image = lines.find_map(|line| line.strip_prefix(b"image "))?;
        Some(plain(&String::from_utf8_lossy(image)))
    }

    /// What `text` says; lines that it does not know are passed over.
    pub(super) fn from_text(text: &str) -> Provenance {
        let mut found = Provenance::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("source", value)) => found.source = plain(value),
                Some(("target", value)) => found.target = plain(value),
                Some(("compiler", value)) => found.compiler = plain(value),
                Some(("compile_us", value)) => {
                    found.compile_time = Duration::from_micros(value.parse().unwrap_or(0));
                }
                Some(("image", value)) => found.image = plain(value),
                Some(("kernel", value)) => found.kernels.push(plain(value)),
                _ => {}
            }
        }
        found
    }
}

/// Without what would steer a terminal: what is read may come from anywhere.
fn plain(value: &str) -> String {
    value.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_line_break_stays_one_line() {
        let odd = Provenance {
            source: "a\nkernel b".into(),
            ..Provenance::default()
        };
        let read = Provenance::from_text(&odd.to_text());
        assert_eq!(read.source, "a?kernel b");
        assert!(read.kernels.is_empty());
    }

    #[test]
    fn nothing_that_is_read_steers_a_terminal() {
        let text = "source \x1b[2Ja\nkernel k\x07\nimage \u{9b}1m";
        let read = Provenance::from_text(text);
        assert_eq!(read.source, "?[2Ja");
        assert_eq!(read.kernels, ["k?"]);
        assert_eq!(read.image, "?1m");
        #[cfg(feature = "driver")]
        assert_eq!(
            Provenance::image_in(text.as_bytes()).as_deref(),
            Some("?1m")
        );
    }
}

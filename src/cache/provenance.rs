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
            text.extend(value.chars().map(|c| if c.is_control() { '?' } else { c }));
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
    pub(super) fn image_in(text: &str) -> Option<String> {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix("image ").map(str::to_owned))
    }

    /// What `text` says; lines that it does not know are passed over.
    pub(super) fn from_text(text: &str) -> Provenance {
        let mut found = Provenance::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("source", value)) => found.source = value.to_owned(),
                Some(("target", value)) => found.target = value.to_owned(),
                Some(("compiler", value)) => found.compiler = value.to_owned(),
                Some(("compile_us", value)) => {
                    found.compile_time = Duration::from_micros(value.parse().unwrap_or(0));
                }
                Some(("image", value)) => found.image = value.to_owned(),
                Some(("kernel", value)) => found.kernels.push(value.to_owned()),
                _ => {}
            }
        }
        found
    }
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
}

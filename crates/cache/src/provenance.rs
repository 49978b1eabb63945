//! Where a blob comes from: for tools, not part of the key.

use std::time::Duration;

use super::key::Key;

/// Where a blob comes from. Each text is stored without control characters, and
/// cut to 4 KiB: longer kernel names are valid PTX, but nobody reads them.
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
    /// The blobs of its slices, where it is the index of a module that was cut.
    pub slices: Vec<Key>,
    /// The blob of its module, where it is the optimized code of one kernel.
    pub module: Option<Key>,
}

impl Provenance {
    pub(super) fn without_kernels(&self) -> Provenance {
        Provenance {
            kernels: Vec::new(),
            slices: Vec::new(),
            ..self.clone()
        }
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
        if let Some(module) = &self.module {
            line("module", &module.to_string());
        }
        for kernel in &self.kernels {
            line("kernel", kernel);
        }
        for slice in &self.slices {
            line("slice", &slice.to_string());
        }
        text
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Provenance {
        Provenance::from_text(&String::from_utf8_lossy(bytes))
    }

    /// Reads what `to_text` wrote; unknown lines are skipped.
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
                Some(("module", value)) => found.module = Key::parse(value),
                Some(("kernel", value)) => found.kernels.push(plain(value)),
                Some(("slice", value)) => found.slices.extend(Key::parse(value)),
                _ => {}
            }
        }
        found
    }
}

/// The most bytes of one text. Mangled names of templates take a few hundred.
const MAX_TEXT: usize = 4096;
const ELLIPSIS: &str = "…";

/// The text without control characters, which would reach a terminal, and of
/// limited length: what is read may come from anywhere.
fn plain(value: &str) -> String {
    if value.len() <= MAX_TEXT {
        return value.replace(char::is_control, "?");
    }
    let end = value.floor_char_boundary(MAX_TEXT - ELLIPSIS.len());
    value[..end].replace(char::is_control, "?") + ELLIPSIS
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
    }

    #[test]
    fn long_names_are_cut() {
        for long in ["k".repeat(65_536), "é".repeat(65_536)] {
            let named = Provenance {
                kernels: vec![long.clone(), "short".into()],
                ..Provenance::default()
            };
            let written = Provenance::from_text(&named.to_text());
            // Also where another program wrote them.
            let read = Provenance::from_text(&format!("kernel {long}\nkernel short\n"));
            assert_eq!(written, read);
            let [cut, short] = &read.kernels[..] else {
                panic!("{} kernels", read.kernels.len())
            };
            assert!(cut.len() <= MAX_TEXT && cut.len() > MAX_TEXT - 4);
            assert!(cut.ends_with(ELLIPSIS));
            assert_eq!(short, "short");
            // What was cut once is not cut again.
            assert_eq!(plain(cut), *cut);
        }
    }
}

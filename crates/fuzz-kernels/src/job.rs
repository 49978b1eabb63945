//! What a child process gets and returns: a kernel as text with its launch, and a digest.

use std::io::{BufRead, Write};

use crate::kernel::Kernel;

/// A kernel to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The PTX.
    pub ptx: String,
    /// Blocks of the grid.
    pub grid: u32,
    /// Threads of a block, in x and y.
    pub block: [u32; 2],
    /// The kernel's uniform parameters.
    pub parameters: [u32; 4],
}

impl Job {
    /// The job of a kernel.
    pub fn new(kernel: &Kernel) -> Job {
        Job {
            ptx: kernel.ptx(),
            grid: kernel.grid,
            block: kernel.block,
            parameters: kernel.parameters,
        }
    }

    /// Writes it to a child.
    ///
    /// # Errors
    /// The child ended.
    pub fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        let ([x, y], [a, b, c, d]) = (self.block, self.parameters);
        writeln!(
            to,
            "{} {x} {y} {a} {b} {c} {d} {}",
            self.grid,
            self.ptx.len()
        )?;
        to.write_all(self.ptx.as_bytes())?;
        to.flush()
    }

    /// Reads it in a child; `None` at the end of the input.
    pub fn read(from: &mut impl BufRead) -> Option<Job> {
        let mut head = String::new();
        from.read_line(&mut head).ok()?;
        let numbers: Vec<u32> = head
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let [grid, x, y, a, b, c, d, length] = numbers[..] else {
            return None;
        };
        let mut ptx = vec![0; length as usize];
        from.read_exact(&mut ptx).ok()?;
        Some(Job {
            ptx: String::from_utf8(ptx).ok()?,
            grid,
            block: [x, y],
            parameters: [a, b, c, d],
        })
    }
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The digest of the results.
    Digest(u64),
    /// The error of the load or the launch.
    Error(String),
    /// The process ended, by a signal or a panic.
    Crash(String),
    /// The kernel did not end in time.
    Timeout,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Digest(digest) => write!(f, "{digest:016x}"),
            Outcome::Error(text) => write!(f, "error: {text}"),
            Outcome::Crash(text) => write!(f, "crash: {text}"),
            Outcome::Timeout => f.write_str("timeout"),
        }
    }
}

impl Outcome {
    /// Reads the line that `Display` writes.
    pub fn parse(line: &str) -> Outcome {
        if let Some(text) = line.strip_prefix("error: ") {
            return Outcome::Error(text.to_owned());
        }
        if let Some(text) = line.strip_prefix("crash: ") {
            return Outcome::Crash(text.to_owned());
        }
        match u64::from_str_radix(line, 16) {
            _ if line == "timeout" => Outcome::Timeout,
            Ok(digest) => Outcome::Digest(digest),
            Err(_) => Outcome::Crash(format!("the process wrote {line:?}")),
        }
    }

    /// The outcome without what may differ between two runs of one mistake.
    pub fn kind(&self) -> String {
        match self {
            Outcome::Digest(_) => "digest".to_owned(),
            // The entry that failed: a load that fails is not a launch that fails.
            Outcome::Error(text) => text.split(':').next().unwrap_or_default().to_owned(),
            Outcome::Crash(_) => "crash".to_owned(),
            Outcome::Timeout => "timeout".to_owned(),
        }
    }
}

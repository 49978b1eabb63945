//! The PTX of the kernels that ran, as far as the report has room.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::take;
use std::ops::Range;

use cpu::observe::{Launch, Load};
use lint::Options;
use ptx::Digest;
use report::{Finding, KernelSource};

/// Bytes of PTX of one kernel, and of all kernels of a process, in the report.
const MAX_KERNEL: usize = 256 << 10;
const MAX_PROCESS: usize = 4 << 20;

/// Bytes of a module that the linter reads, which delays the program.
const MAX_LINTED: usize = 1 << 20;

/// Bytes of PTX that a process keeps until its kernels run.
const MAX_KEPT: usize = 256 << 20;

#[derive(Default)]
pub(super) struct Sources {
    /// By the number of the module's code.
    modules: HashMap<u64, Module>,
    /// Kernels that are in the report, by digest and name.
    told: HashSet<(String, String)>,
    new: Vec<KernelSource>,
    /// Bytes in the report, and bytes that are kept.
    written: usize,
    kept: usize,
}

struct Module {
    digest: String,
    /// Empty if there was no room.
    text: String,
    kernels: HashMap<String, Kernel>,
    files: BTreeMap<u32, String>,
    /// What the linter finds in the module. It runs when the first kernel is launched.
    findings: Option<Vec<Finding>>,
}

struct Kernel {
    /// Its bytes in the text.
    range: Range<usize>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// The report says why its PTX is not there.
    LeftOut,
    Written,
}

impl Sources {
    /// Keeps the PTX of a module, and returns its digest.
    pub(super) fn loaded(&mut self, load: &Load<'_>) -> Option<String> {
        let text = load.ptx?;
        let mut digest = format!("{:?}", Digest::of(text.as_bytes()));
        digest.truncate(16);
        let kernels = load.kernels.iter().map(|kernel| {
            let (range, state) = (kernel.text.clone(), State::New);
            (kernel.name.to_owned(), Kernel { range, state })
        });
        let has_room = self.kept + text.len() <= MAX_KEPT;
        if has_room {
            self.kept += text.len();
        }
        let module = Module {
            digest: digest.clone(),
            text: if has_room {
                text.to_owned()
            } else {
                String::new()
            },
            kernels: kernels.collect(),
            files: files(text),
            findings: None,
        };
        self.modules.insert(load.module, module);
        Some(digest)
    }

    /// The digest of a module's PTX.
    pub(super) fn digest(&self, module: u64) -> Option<String> {
        Some(self.modules.get(&module)?.digest.clone())
    }

    /// Puts the PTX of a kernel into the report at its first launch. That of a kernel with a fault has room in any case.
    pub(super) fn launched(&mut self, launch: &Launch<'_>) {
        let Some(module) = self.modules.get_mut(&launch.module) else {
            return;
        };
        let Some(kernel) = module.kernels.get_mut(launch.kernel) else {
            return;
        };
        let has_fault = launch.fault.is_some();
        let is_told = match kernel.state {
            State::New => false,
            State::LeftOut => !has_fault,
            State::Written => true,
        };
        if is_told {
            return;
        }
        let key = (module.digest.clone(), launch.kernel.to_owned());
        if kernel.state == State::New && !self.told.insert(key) {
            // Another module has the same PTX.
            kernel.state = State::Written;
            return;
        }
        let size = kernel.range.len();
        let text = module.text.get(kernel.range.clone());
        let left_out = if text.is_none() || size == 0 {
            Some("The program loaded more PTX than the report keeps.".to_owned())
        } else if size > MAX_KERNEL {
            Some(format!(
                "The PTX has {size} bytes; the report has that of kernels up to {MAX_KERNEL}."
            ))
        } else if self.written + size > MAX_PROCESS && !has_fault {
            Some(format!(
                "The report has {MAX_PROCESS} bytes of PTX of other kernels already."
            ))
        } else {
            None
        };
        let text = text.filter(|_| left_out.is_none());
        kernel.state = if text.is_some() {
            State::Written
        } else {
            State::LeftOut
        };
        self.written += text.map_or(0, str::len);
        let first_line = line_at(&module.text, kernel.range.start);
        let last_line = line_at(&module.text, kernel.range.end);
        let findings = module.findings.get_or_insert_with(|| lint(&module.text));
        let findings = findings.iter();
        let findings = findings.filter(|found| (first_line..=last_line).contains(&found.line));
        self.new.push(KernelSource {
            name: launch.kernel.to_owned(),
            module: module.digest.clone(),
            ptx: text.map(str::to_owned),
            left_out,
            findings: findings.cloned().collect(),
            first_line,
            files: module.files.clone(),
        });
    }

    /// The kernels that are new in the report.
    pub(super) fn take(&mut self) -> Vec<KernelSource> {
        take(&mut self.new)
    }
}

/// The line of a position, from 1.
fn line_at(text: &str, position: usize) -> u32 {
    let before = text.as_bytes().get(..position).unwrap_or_default();
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}

/// What the linter finds in a module by its default rules.
fn lint(text: &str) -> Vec<Finding> {
    if text.len() > MAX_LINTED {
        return Vec::new();
    }
    let reading = ptx::read(text);
    let found = lint::run(&reading.module, text, &Options::default()).into_iter();
    found
        .map(|found| Finding {
            code: found.code.to_string(),
            message: found.message,
            help: found.help,
            line: line_at(text, found.span.start as usize),
        })
        .collect()
}

/// The names of the `.file` directives, by number.
fn files(text: &str) -> BTreeMap<u32, String> {
    let directives = text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix(".file")?.trim_start();
        let (number, name) = rest.split_once(char::is_whitespace)?;
        let name = name.trim_start().strip_prefix('"')?.split('"').next()?;
        Some((number.parse().ok()?, name.to_owned()))
    });
    directives.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linter_names_lines() {
        let text = ".version 7.8\n.target sm_90\n.address_size 64\n.global .b32 x;\n.entry k() {\n\
            .reg .b32 a;\nld.global.b32 a, [x];\nshl.b32 a, a, 32;\nst.global.b32 [x], a;\nret;\n}\n";
        let found = lint(text);
        assert_eq!((found[0].code.as_str(), found[0].line), ("W0103", 8));
    }

    #[test]
    fn files_have_numbers() {
        let text = ".version 8.0\n.file 1 \"/a b/k.cu\"\n\t.file\t12 \"x.cuh\", 3, 4\n.file 3 k\n";
        let wanted = [(1, "/a b/k.cu".to_owned()), (12, "x.cuh".to_owned())];
        assert_eq!(files(text), BTreeMap::from(wanted));
    }
}

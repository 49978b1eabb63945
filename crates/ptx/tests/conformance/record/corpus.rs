//! What NVIDIA's compilers make of the sources in `cuda/`.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use crate::archive::{self, Entry, Verdict};
use crate::parallel::parallel;
use crate::toolkit::Toolkit;

const TARGETS: [&str; 8] = [
    "sm_75", "sm_80", "sm_90a", "sm_100a", "sm_103a", "sm_110", "sm_120a", "sm_121",
];

/// Each source is built for every target, except those with many headers:
/// they take long and are much alike.
const HEAVY: [&str; 11] = [
    "atomic",
    "barrier",
    "block",
    "device_reduce",
    "device_select",
    "device_sort",
    "groups",
    "lambda",
    "pipeline",
    "residency",
    "warp_cub",
];
const HEAVY_TARGETS: [&str; 3] = ["sm_80", "sm_90a", "sm_120a"];

/// Each source is built in three of these ways more, for one target each.
const VARIANTS: [(&str, &[&str]); 7] = [
    ("debug", &["-G"]),
    ("lines", &["-lineinfo"]),
    ("unoptimised", &["-Xcicc", "-O0"]),
    ("registers", &["--maxrregcount=32"]),
    ("fast", &["-use_fast_math"]),
    ("relocatable", &["-rdc=true"]),
    ("both", &["-lineinfo", "-rdc=true", "-use_fast_math"]),
];

/// Sources that NVRTC builds too: those without host code.
const NVRTC: [&str; 6] = [
    "half",
    "integer",
    "matrix",
    "objects",
    "texture",
    "generators",
];

struct Build {
    source: String,
    target: &'static str,
    variant: &'static str,
    options: &'static [&'static str],
    compiler: Compiler,
}

enum Compiler {
    Nvcc,
    Nvrtc,
}

/// Builds every source and asks ptxas about the result, which it must accept:
/// what it does not accept is left out and said.
pub fn record(toolkit: &Toolkit, sources: &Path) -> io::Result<()> {
    // Line tables hold paths: let them not be those of somebody's checkout.
    let copies = toolkit.folder("cuda")?;
    for source in std::fs::read_dir(sources)? {
        let source = source?;
        std::fs::copy(source.path(), copies.join(source.file_name()))?;
    }
    let sources = copies.as_path();
    let builds = builds(sources)?;
    let built = parallel(&builds, |build| {
        let name = format!("{}.{}.{}", build.source, build.target, build.variant);
        let text = match build.compile(toolkit, sources) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("{name}: not built: {error}");
                return None;
            }
        };
        match toolkit.judge(text.as_bytes()) {
            Ok(verdict @ Verdict::Accepted) => Some(Entry {
                name,
                verdict,
                text,
            }),
            verdict => {
                eprintln!("{name}: not accepted: {verdict:?}");
                None
            }
        }
    });
    let mut seen = HashSet::new();
    let entries: Vec<Entry> = built
        .into_iter()
        .flatten()
        .filter(|entry| seen.insert(entry.text.clone()))
        .collect();
    let bytes: usize = entries.iter().map(|entry| entry.text.len()).sum();
    println!("corpus: {} modules, {bytes} bytes", entries.len());
    archive::write("corpus", &archive::text_of(&entries))
}

/// Builds what the front end's speed is measured on: a module of so many bytes
/// that reading it takes a while, and one of small kernels.
pub fn record_large(toolkit: &Toolkit, sources: &Path) -> io::Result<()> {
    for source in ["large", "kernels"] {
        let build = Build {
            source: source.to_owned(),
            target: "sm_90",
            variant: "plain",
            options: &[],
            compiler: Compiler::Nvcc,
        };
        let text = build.compile(toolkit, sources)?;
        println!("{source}: {} bytes", text.len());
        archive::write(source, &text)?;
    }
    Ok(())
}

fn builds(sources: &Path) -> io::Result<Vec<Build>> {
    let mut names: Vec<String> = std::fs::read_dir(sources)?
        .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    let mut builds = Vec::new();
    for (number, source) in names.into_iter().enumerate() {
        let targets = if HEAVY.contains(&source.as_str()) {
            HEAVY_TARGETS.as_slice()
        } else {
            TARGETS.as_slice()
        };
        let mut build = |target, variant, options, compiler| {
            builds.push(Build {
                source: source.clone(),
                target,
                variant,
                options,
                compiler,
            });
        };
        for target in targets {
            build(target, "plain", &[], Compiler::Nvcc);
        }
        for more in 0..3 {
            let (variant, options) = VARIANTS[(number + 2 * more) % VARIANTS.len()];
            let target = targets[(number + more) % targets.len()];
            build(target, variant, options, Compiler::Nvcc);
        }
        if NVRTC.contains(&source.as_str()) {
            build(
                targets[number % targets.len()],
                "nvrtc",
                &[],
                Compiler::Nvrtc,
            );
        }
    }
    Ok(builds)
}

impl Build {
    fn compile(&self, toolkit: &Toolkit, sources: &Path) -> io::Result<String> {
        let output = toolkit.fresh("ptx");
        let source = format!("{}.cu", self.source);
        let mut command = match self.compiler {
            Compiler::Nvcc => {
                let mut command = toolkit.program("nvcc");
                command.args(["-ptx", "-std=c++20", "--extended-lambda", "-w"]);
                command.arg(format!("-arch={}", self.target));
                // These need other translation units.
                if ["linked", "nested"].contains(&self.source.as_str())
                    && !self.options.contains(&"-rdc=true")
                {
                    command.arg("-rdc=true");
                }
                command
                    .args(self.options)
                    .arg(&source)
                    .arg("-o")
                    .arg(&output);
                command
            }
            Compiler::Nvrtc => {
                let mut command = std::process::Command::new(&toolkit.python);
                command.arg("-c").arg(include_str!("nvrtc.py"));
                command
                    .arg(toolkit.home())
                    .arg(self.target)
                    .arg(&source)
                    .arg(&output);
                command
            }
        };
        let result = command.current_dir(sources).output()?;
        if !result.status.success() {
            let errors = String::from_utf8_lossy(&result.stderr).into_owned();
            let first = errors.lines().find(|line| line.contains("error"));
            return Err(io::Error::other(first.unwrap_or(&errors).to_owned()));
        }
        let text = std::fs::read_to_string(&output)?;
        std::fs::remove_file(&output)?;
        Ok(text)
    }
}

//! `ptxkit assemble`: PTX to device code, through the compute cache.

mod against;
mod arch;
mod output;
mod resources;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use serde::Serialize;

use super::compiler::{Compiler, CompilerName, CompilerOptions, Toolkit};
use super::mapped::FileBytes;
use super::progress::Progress;
use crate::written;
use against::{Baseline, Denied, Finding, Saved};
use arch::Arch;
use input::ShowName as _;
use output::{Output, is_standard};
use ptxkit::cache::{Cache, Digest, Key, KeyParts, Lookup, Provenance};
use ptxkit::image::{self, Image, Target};
use ptxkit::jit::JitOptions;
use ptxkit::ptx;
use ptxkit::ptx::ast::Version;
use ptxkit::ptx::signature::signatures;
use resources::Resources;
use terminal::failure::{FAILED, Failure, MISMATCHES, VERIFIED};
use terminal::output::{Escaped, Format, Lines, eprint, json_line, print};

/// The help below the options.
pub const AFTER_HELP: &str = "\
Examples:
  ptxkit assemble k.ptx --arch sm_90                        writes k.cubin
  ptxkit assemble a.ptx b.ptx --arch all-major -o build     writes build/a.sm_80.cubin …
  ptxkit assemble k.ptx --arch sm_90 --save resources.json
  ptxkit assemble k.ptx --arch sm_90 --deny spills --against resources.json

Exit status: 0 done, 1 resources are denied or grew (--deny, --against), 2 an error.";

/// The arguments of `ptxkit assemble`.
#[derive(Debug, clap::Args)]
pub struct AssembleArgs {
    /// PTX files; `-` is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The architectures to compile for: sm_90, sm_100a; `all` of the compiler on which the PTX runs,
    /// `all-major` for the first of each major version, `native` for the GPUs of this machine
    #[arg(long, alias = "target", required = true, value_delimiter = ',')]
    arch: Vec<Arch>,
    /// The file for the code, `-` for standard output, or the folder for several files; without it,
    /// the name of the PTX file with .cubin, and for standard input standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The compiler: NVIDIA's driver, the library of `ptxkit nvptxcompiler`, or ptxas or nvJitLink of a CUDA
    /// toolkit; the default is the first of these that is available
    #[arg(long, value_enum)]
    compiler: Option<CompilerName>,
    /// Compile with this ptxas, instead of the toolkit's (CUDA_HOME) or the first on PATH
    #[arg(long)]
    ptxas: Option<PathBuf>,
    /// The optimisation level
    #[arg(short = 'O', value_parser = clap::value_parser!(u8).range(0..=3), value_name = "0..3")]
    optimization: Option<u8>,
    /// The limit of registers for each thread
    #[arg(long)]
    maxrregcount: Option<u32>,
    /// Generate line tables, for profilers
    #[arg(long)]
    lineinfo: bool,
    /// Generate code to be linked, with nvptxcompiler or ptxas
    #[arg(short = 'c', long)]
    relocatable: bool,
    /// Fail if a kernel has these
    #[arg(long, value_enum, value_delimiter = ',')]
    deny: Vec<Denied>,
    /// Fail if a kernel uses more resources than in this file, which --save has written
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Write the resources of all kernels to this file, for a later --against
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The result of a compilation.
struct Compiled {
    code: Vec<u8>,
    cache: &'static str,
    key: Key,
    compile: Duration,
    log: String,
}

/// PTX of the user.
struct Source {
    path: PathBuf,
    name: String,
    text: String,
    version: Option<Version>,
    target: Option<Target>,
}

/// What was made of one file for one target.
#[derive(Serialize)]
struct Assembled {
    source: String,
    target: String,
    output: String,
    bytes: usize,
    compiler: String,
    cache: &'static str,
    key: String,
    compile_ms: f64,
    log: String,
    kernels: Vec<Resources>,
    /// What `--deny` and `--against` reject.
    findings: Vec<Finding>,
    #[serde(skip)]
    notes: Vec<String>,
    #[serde(skip)]
    short_key: String,
}

/// Compiles each file for each target; returns the exit status: 1 if resources are denied or grew,
/// 2 if a file does not compile.
///
/// # Errors
/// Nothing can be compiled.
pub fn run(args: &AssembleArgs) -> Result<u8, Failure> {
    let baseline = args.against.as_deref().map(Baseline::read).transpose()?;
    let sources = args
        .files
        .iter()
        .map(|path| Source::read(path))
        .collect::<Result<Vec<_>, _>>()?;
    let native = if args.arch.contains(&Arch::Native) {
        arch::native()?
    } else {
        Vec::new()
    };
    let toolkit = Toolkit::of(args.ptxas.clone());
    // A driver does not make code to be linked.
    let only_target = args.only_target(&native).filter(|_| !args.relocatable);
    let newest = sources.iter().filter_map(|source| source.version).max();
    let compiler = Compiler::choose(args.compiler, &toolkit, (only_target, newest))?;
    let mut jobs = Vec::new();
    for source in &sources {
        let targets = arch::targets(&args.arch, &compiler, source.target, &native)
            .map_err(|failure| failure.of(&source.name))?;
        jobs.extend(targets.into_iter().map(|target| (source, target)));
    }
    let several_targets = jobs.iter().any(|(_, target)| *target != jobs[0].1);
    let places: Vec<_> = jobs
        .iter()
        .map(|(source, target)| (&*source.path, *target))
        .collect();
    let outputs = Output::of_all(args.output.as_deref(), &places, several_targets)?;
    if let Some(save) = &args.save
        && (outputs.iter().any(|output| output.is(save))
            || sources
                .iter()
                .any(|source| written::is_same(&source.path, save)))
    {
        return Err(Failure::new(format!(
            "{}: --save would replace the code or the PTX",
            save.shown()
        ))
        .help("name another file with --save"));
    }
    let options = CompilerOptions {
        jit: JitOptions {
            optimization: args.optimization,
            max_registers: args.maxrregcount,
            line_info: args.lineinfo,
            verbose: true,
            ..JitOptions::default()
        },
        relocatable: args.relocatable,
    };
    let progress = Mutex::new((Progress::new("assemble"), 0));
    let assemble = |((source, target), output): (&(&Source, Target), &Output)| {
        let mut made = assemble(source, *target, output, &compiler, &options);
        if several_targets {
            made = made.map_err(|failure| failure.of(&target.to_string()));
        }
        if let Ok(mut progress) = progress.lock() {
            progress.1 += 1;
            let done = progress.1;
            progress.0.show(done, jobs.len() as u64, &output.name());
        }
        made
    };
    let made: Vec<Result<Assembled, Failure>> = match &compiler {
        // A context belongs to one thread at a time.
        Compiler::Driver(_) => jobs.iter().zip(&outputs).map(assemble).collect(),
        _ => jobs.par_iter().zip(&outputs).map(assemble).collect(),
    };
    drop(progress);
    let mut status = VERIFIED;
    let mut assembled = Vec::new();
    for made in made {
        match made {
            Ok(made) => assembled.push(made),
            Err(failure) if jobs.len() == 1 => return Err(failure),
            Err(failure) => {
                failure.print();
                status = FAILED;
            }
        }
    }
    for made in &mut assembled {
        if let Err(failure) = made.check(&args.deny, baseline.as_ref()) {
            failure.print();
            status = FAILED;
        }
        if !made.findings.is_empty() {
            status = status.max(MISMATCHES);
        }
    }
    let report = match args.format {
        Format::Json => json_line(&assembled),
        Format::Text => report(&assembled, sources.len() > 1),
    };
    // Separate from the code.
    if outputs.contains(&Output::Standard) {
        eprint(&report);
    } else {
        print(&report);
    }
    for made in &assembled {
        made.explain();
    }
    if let Some(baseline) = &baseline
        && status == VERIFIED
        && !assembled.iter().any(|made| made.is_in(baseline))
    {
        return Err(baseline.useless());
    }
    if let Some(path) = args.save.as_deref().filter(|_| status != VERIFIED) {
        eprint(&format!("note: {} is not written\n", path.shown()));
    } else if let Some(path) = &args.save {
        let all: Vec<Saved> = assembled.iter().map(Assembled::saved).collect();
        against::save(path, &all)?;
    }
    Ok(status)
}

impl AssembleArgs {
    /// The target, if there is one alone.
    fn only_target(&self, native: &[Target]) -> Option<Target> {
        match (&*self.arch, native) {
            ([Arch::One(target)], _) | ([Arch::Native], [target]) => Some(*target),
            _ => None,
        }
    }
}

impl Source {
    fn read(path: &Path) -> Result<Source, Failure> {
        let (name, bytes) = if is_standard(path) {
            ("<stdin>".to_owned(), FileBytes::standard_input()?)
        } else {
            (path.shown().to_string(), FileBytes::open(path)?)
        };
        let image =
            image::open(&bytes).map_err(|error| Failure::new(format!("{name}: {error}")))?;
        let Image::Ptx(text) = image else {
            return Err(Failure::new(format!("{name} is not PTX"))
                .help("`ptxkit extract --kind ptx` takes the PTX out of it"));
        };
        Ok(Source {
            path: path.to_owned(),
            version: text.version,
            target: text.target,
            // No compiler accepts a byte order mark.
            text: text.source.trim_start_matches('\u{feff}').to_owned(),
            name,
        })
    }
}

/// Compiles PTX, and writes the code.
fn assemble(
    source: &Source,
    target: Target,
    output: &Output,
    compiler: &Compiler,
    options: &CompilerOptions,
) -> Result<Assembled, Failure> {
    let compiled = make(&source.name, &source.text, target, compiler, options)?;
    output.write(&compiled.code)?;
    let kernels = Resources::of_code(&compiled.code)
        .map_err(|error| Failure::new(format!("{}: {error}", output.name())))?;
    Ok(Assembled {
        source: source.name.clone(),
        target: target.to_string(),
        output: output.name(),
        bytes: compiled.code.len(),
        compiler: compiler.identity(),
        cache: compiled.cache,
        short_key: compiled.key.short().to_string(),
        key: compiled.key.to_string(),
        compile_ms: compiled.compile.as_secs_f64() * 1e3,
        log: compiled.log,
        kernels,
        findings: Vec::new(),
        notes: Vec::new(),
    })
}

impl Assembled {
    /// # Errors
    /// A resource that is denied is not known.
    fn check(&mut self, deny: &[Denied], baseline: Option<&Baseline>) -> Result<(), Failure> {
        if let Some(baseline) = baseline {
            (self.findings, self.notes) =
                baseline.compare(&self.source, &self.target, &self.kernels);
        }
        let denied = against::denied(deny, &self.kernels);
        let denied = denied.map_err(|failure| failure.of(&self.place()))?;
        self.findings.extend(denied);
        Ok(())
    }

    fn place(&self) -> String {
        format!("{} for {}", self.source, self.target)
    }

    fn is_in(&self, baseline: &Baseline) -> bool {
        baseline.kernels(&self.source, &self.target).is_some()
    }

    /// Prints findings and notes to standard error.
    fn explain(&self) {
        let place = self.place();
        for finding in &self.findings {
            Failure::new(format!("{place}: {finding}")).print();
        }
        for note in &self.notes {
            eprint(&format!(
                "{}\n",
                Escaped::new(format!("note: {place}: {note}"))
            ));
        }
    }

    fn saved(&self) -> Saved {
        Saved {
            source: self.source.clone(),
            target: self.target.clone(),
            kernels: self.kernels.clone(),
        }
    }

    /// The facts of the only output.
    fn lines(&self) -> String {
        let mut lines = Lines::default();
        lines.add("output", format!("{}, {} bytes", self.output, self.bytes));
        lines.add("target", &self.target);
        lines.add("compiler", &self.compiler);
        lines.add("cache", format!("{} {}", self.cache, self.short_key));
        lines.add("compile", format!("{:>10.3} ms", self.compile_ms));
        lines.0
    }

    /// The warnings in the compiler's log. The table has the resources.
    fn warnings(&self) -> impl Iterator<Item = &str> {
        self.log.lines().filter(|line| line.contains("arning"))
    }
}

/// The outputs, the warnings of the compiler, and the resources of all kernels.
fn report(assembled: &[Assembled], several_files: bool) -> String {
    let mut text = String::new();
    if let [only] = assembled {
        text += &only.lines();
    } else {
        for made in assembled {
            let (output, bytes) = (Escaped::new(&made.output), made.bytes);
            text += &format!("{output}  {bytes} bytes, cache {}\n", made.cache);
        }
    }
    for made in assembled {
        for line in made.warnings() {
            text += &format!("{}\n", Escaped::new(line));
        }
    }
    let rows: Vec<(String, &Resources)> = assembled
        .iter()
        .flat_map(|made| {
            let place = if several_files {
                format!("{}  {}", Escaped::new(&made.source), made.target)
            } else {
                made.target.clone()
            };
            made.kernels
                .iter()
                .map(move |kernel| (place.clone(), kernel))
        })
        .collect();
    if !rows.is_empty() {
        text += &resources::table(&rows);
    }
    text
}

/// Loads the code from the cache, or compiles it and stores it there.
#[allow(unsafe_code, reason = "code in the cache is trusted")]
fn make(
    name: &str,
    text: &str,
    target: Target,
    compiler: &Compiler,
    options: &CompilerOptions,
) -> Result<Compiled, Failure> {
    let cache = Cache::from_environment();
    let target_name = target.to_string();
    let identity = compiler.identity();
    let key = Key::new(&KeyParts {
        source: Digest::of(text.as_bytes()),
        target: &target_name,
        driver_version: compiler.driver_version(),
        compiler: &identity,
        options: &options.key_bytes(),
    });
    let pending_entry = match cache.lookup(&key) {
        Lookup::Hit(blob) => {
            return Ok(Compiled {
                code: blob.to_vec(),
                cache: "hit",
                key,
                compile: Duration::ZERO,
                log: String::new(),
            });
        }
        Lookup::Miss(pending_entry) => Some(pending_entry),
        _ => None,
    };
    let started = Instant::now();
    let (code, log) = compiler.compile(name, text, target, options)?;
    let compile = started.elapsed();
    let cache = if pending_entry.is_some() {
        "miss"
    } else {
        "off"
    };
    if let Some(pending_entry) = pending_entry {
        let module = ptx::read(text).module;
        let kernels = signatures(&module, text).into_iter();
        let provenance = Provenance {
            source: name.to_owned(),
            kernels: kernels.map(|kernel| kernel.name).collect(),
            target: target_name,
            compiler: identity,
            compile_time: compile,
            ..Provenance::default()
        };
        // SAFETY: the compiler of the key has just compiled it from this PTX.
        unsafe { pending_entry.put(&provenance, &code) };
    }
    Ok(Compiled {
        code,
        cache,
        key,
        compile,
        log,
    })
}

//! `ptxkit assemble`: PTX to device code, through the compute cache.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::compiler::{Compiler, CompilerName, Toolkit};
use super::mapped::FileBytes;
use input::ShowName as _;
use ptxkit::cache::{Cache, Digest, Key, KeyParts, Lookup, Provenance};
use ptxkit::image::{self, Image, Target};
use ptxkit::jit::JitOptions;
use ptxkit::ptx;
use ptxkit::ptx::signature::signatures;
use terminal::failure::Failure;
use terminal::output::{Format, Lines, eprint, json_line, print, print_bytes};

/// The arguments of `ptxkit assemble`.
#[derive(Debug, clap::Args)]
pub struct AssembleArgs {
    /// A PTX file; `-` is standard input
    file: PathBuf,
    /// The architecture to compile for: sm_90, sm_100a
    #[arg(long)]
    target: Target,
    /// The file for the code, `-` for standard output; without it, the name of the PTX file
    /// with .cubin, and for standard input standard output
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// The compiler: NVIDIA's driver, or nvJitLink or ptxas of a CUDA toolkit; the default is the
    /// first of these that is available
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

/// The destination of the code.
enum Output {
    File(PathBuf),
    Standard,
}

impl Output {
    fn of(args: &AssembleArgs) -> Result<Output, Failure> {
        let path = match &args.output {
            Some(path) => path.clone(),
            None if is_standard(&args.file) => args.file.clone(),
            None => args.file.with_extension("cubin"),
        };
        if !is_standard(&path) {
            return if path == args.file {
                Err(
                    Failure::new(format!("{}: the code would replace the PTX", path.shown()))
                        .help("name another file with --output"),
                )
            } else {
                Ok(Output::File(path))
            };
        }
        if std::io::stdout().is_terminal() {
            Err(
                Failure::new("the code is binary, and standard output is a terminal")
                    .help("name a file with --output, or redirect standard output"),
            )
        } else {
            Ok(Output::Standard)
        }
    }

    fn name(&self) -> String {
        match self {
            Output::File(path) => path.shown().to_string(),
            Output::Standard => "<stdout>".to_owned(),
        }
    }

    /// Writes the code.
    fn write(&self, code: &[u8]) -> Result<(), Failure> {
        match self {
            Output::File(path) => std::fs::write(path, code)
                .map_err(|error| Failure::new(format!("{}: {error}", path.shown()))),
            Output::Standard => {
                print_bytes(code);
                Ok(())
            }
        }
    }

    /// Prints the report, separate from the code.
    fn report(&self, text: &str) {
        match self {
            Output::File(_) => print(text),
            Output::Standard => eprint(text),
        }
    }
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub fn run(args: &AssembleArgs) -> Result<(), Failure> {
    let output = Output::of(args)?;
    let (name, bytes) = if is_standard(&args.file) {
        ("<stdin>".to_owned(), FileBytes::standard_input()?)
    } else {
        (args.file.shown().to_string(), FileBytes::open(&args.file)?)
    };
    let image = image::open(&bytes).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let Image::Ptx(text) = image else {
        return Err(Failure::new(format!("{name} is not PTX"))
            .help("`ptxkit extract --kind ptx` takes the PTX out of it"));
    };
    let toolkit = Toolkit::of(args.ptxas.clone());
    let compiler = Compiler::choose(args.compiler, &toolkit, args.target)?;
    let options = JitOptions {
        optimization: args.optimization,
        max_registers: args.maxrregcount,
        line_info: args.lineinfo,
        verbose: true,
        ..JitOptions::default()
    };
    let compiled = make(&name, &text.source, args.target, &compiler, &options)?;
    output.write(&compiled.code)?;
    let milliseconds = compiled.compile.as_secs_f64() * 1e3;
    match args.format {
        Format::Json => output.report(&json_line(&serde_json::json!({
            "output": output.name(),
            "bytes": compiled.code.len(),
            "target": args.target.to_string(),
            "compiler": compiler.identity(),
            "cache": compiled.cache,
            "key": compiled.key.to_string(),
            "compile_ms": milliseconds,
            "log": compiled.log,
        }))),
        Format::Text => {
            let mut lines = Lines::default();
            lines.add(
                "output",
                format!("{}, {} bytes", output.name(), compiled.code.len()),
            );
            lines.add("target", args.target.to_string());
            lines.add("compiler", compiler.identity());
            lines.add(
                "cache",
                format!("{} {}", compiled.cache, compiled.key.short()),
            );
            lines.add("compile", format!("{milliseconds:>10.3} ms"));
            for line in compiled.log.lines().filter(|line| !line.trim().is_empty()) {
                lines.add("", line);
            }
            output.report(&lines.0);
        }
    }
    Ok(())
}

/// Loads the code from the cache, or compiles it and stores it there.
#[allow(unsafe_code, reason = "code in the cache is trusted")]
fn make(
    name: &str,
    text: &str,
    target: Target,
    compiler: &Compiler,
    options: &JitOptions,
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

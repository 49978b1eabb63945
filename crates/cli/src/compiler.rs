//! The compilers of `ptxkit assemble`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::errors::{draw_log, of_driver};
use input::ShowName as _;
use ptxkit::driver::nvjitlink::NvJitLink;
use ptxkit::driver::nvptxcompiler::{NvPtxCompiler, NvPtxCompilerError};
use ptxkit::driver::{self, Context, Driver};
use ptxkit::image::{self, Target};
use ptxkit::jit::{self, JitOptions, PtxCompiler};
use ptxkit::ptx::ast::Version;
use ptxkit::ptx::isa;
use terminal::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CompilerName {
    Driver,
    #[value(name = "nvptxcompiler")]
    NvPtxCompiler,
    Ptxas,
    #[value(name = "nvjitlink")]
    NvJitLink,
}

/// The CUDA toolkit, if installed.
pub struct Toolkit {
    folder: Option<PathBuf>,
    ptxas: Option<PathBuf>,
}

impl Toolkit {
    /// The toolkit of the environment; `ptxas` is the user's choice.
    pub fn of(ptxas: Option<PathBuf>) -> Toolkit {
        let folder = ["CUDA_HOME", "CUDA_PATH"]
            .into_iter()
            .filter_map(std::env::var_os)
            .find(|folder| !folder.is_empty())
            .map(PathBuf::from);
        Toolkit { folder, ptxas }
    }

    fn ptxas(&self) -> PathBuf {
        let of_toolkit = || {
            let path = self.folder.as_ref()?.join("bin").join("ptxas");
            path.exists().then_some(path)
        };
        // A bare name is searched on PATH.
        self.ptxas
            .clone()
            .or_else(of_toolkit)
            .unwrap_or_else(|| "ptxas".into())
    }
}

/// The options of a compilation.
#[derive(Clone, Debug, Default)]
pub struct CompilerOptions {
    pub jit: JitOptions,
    /// Code to be linked, which ptxas and nvptxcompiler make.
    pub relocatable: bool,
}

impl CompilerOptions {
    /// The options that change the code, as bytes for a cache's key.
    pub fn key_bytes(&self) -> Vec<u8> {
        let mut bytes = self.jit.key_bytes();
        bytes.extend_from_slice(if self.relocatable {
            b"relocatable"
        } else {
            b""
        });
        bytes
    }
}

pub enum Compiler {
    Driver(Context),
    NvPtxCompiler(&'static NvPtxCompiler),
    NvJitLink(NvJitLink),
    Ptxas { path: PathBuf, version: String },
}

/// The error if nothing compiles.
const NO_COMPILER: &str = "there is no compiler: no NVIDIA driver with a device of this target, no \
     nvptxcompiler, no ptxas and no nvJitLink";

impl Compiler {
    /// The compiler of this name, or the first that is available. The driver compiles for the
    /// architecture of its own devices, so it is chosen by default only for that target alone, and for PTX up
    /// to a version that it reads.
    #[allow(unsafe_code, reason = "the user names the toolkit")]
    pub fn choose(
        name: Option<CompilerName>,
        toolkit: &Toolkit,
        (target, newest): (Option<Target>, Option<Version>),
    ) -> Result<Compiler, Failure> {
        let driver = || -> Result<Compiler, driver::Error> {
            let device = Driver::nvidia()?.device(0)?;
            Ok(Compiler::Driver(Context::primary(&device)?))
        };
        let nvjitlink = || {
            let opened = match &toolkit.folder {
                // SAFETY: the user names the toolkit, whose `ptxas` is run too.
                Some(folder) => unsafe { NvJitLink::open_in(folder) },
                None => NvJitLink::open(),
            };
            opened.map(Compiler::NvJitLink)
        };
        match name {
            Some(CompilerName::Driver) => driver().map_err(|error| of_driver(&error)),
            Some(CompilerName::NvPtxCompiler) => NvPtxCompiler::open()
                .map(Compiler::NvPtxCompiler)
                .map_err(Failure::new),
            Some(CompilerName::NvJitLink) => nvjitlink().map_err(|error| {
                Failure::new(error).help("CUDA_HOME names the folder of a CUDA toolkit")
            }),
            Some(CompilerName::Ptxas) => ptxas(toolkit.ptxas()),
            // A named ptxas is an explicit choice.
            None if toolkit.ptxas.is_some() => ptxas(toolkit.ptxas()),
            None => {
                let fits = |compiler: &Compiler| {
                    target.is_some_and(|target| compiler.compiles_for(target))
                        && compiler.reads(newest)
                };
                if let Some(compiler) = driver().ok().filter(fits) {
                    return Ok(compiler);
                }
                let library = library()?.map(Compiler::NvPtxCompiler);
                if let Some(compiler) = library.filter(|compiler| compiler.reads(newest)) {
                    return Ok(compiler);
                }
                ptxas(toolkit.ptxas())
                    .or_else(|_| nvjitlink())
                    .map_err(|_| {
                        Failure::new(NO_COMPILER).help(
                            "`pip install nvidia-cuda-nvcc` has ptxas: name it with --ptxas; or \
                             name the folder of a CUDA toolkit in CUDA_HOME; or see `ptxkit \
                             nvptxcompiler --help`",
                        )
                    })
            }
        }
    }

    /// Whether it reads PTX of a version, as far as that is known.
    fn reads(&self, version: Option<Version>) -> bool {
        let newest = match self {
            Compiler::NvPtxCompiler(library) => library.newest_ptx(),
            _ => image::newest_ptx(self.driver_version()),
        };
        version <= newest.or(version)
    }

    fn compiles_for(&self, target: Target) -> bool {
        match self {
            Compiler::Driver(context) => context.device().target().is_ok_and(|own| {
                own.parse()
                    .is_ok_and(|own: Target| own.number == target.number)
            }),
            _ => true,
        }
    }

    /// The targets that it compiles for.
    ///
    /// # Errors
    /// ptxas does not print its help.
    pub fn targets(&self) -> Result<Vec<Target>, Failure> {
        match self {
            Compiler::Driver(context) => {
                let target = context
                    .device()
                    .target()
                    .map_err(|error| of_driver(&error))?;
                Ok(target.parse().into_iter().collect())
            }
            Compiler::NvPtxCompiler(library) => {
                let (major, minor) = library.version();
                let mut targets = targets_of_toolkit(major, minor);
                let known = library.architectures();
                targets.retain(|target| known.is_empty() || known.contains(&target.number));
                Ok(targets)
            }
            Compiler::NvJitLink(library) => {
                let (major, minor) = library.version();
                Ok(targets_of_toolkit(major, minor))
            }
            Compiler::Ptxas { path, .. } => {
                let output = Command::new(path)
                    .arg("--help")
                    .output()
                    .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?;
                let targets = targets_in(&String::from_utf8_lossy(&output.stdout));
                if targets.is_empty() {
                    let message = format!("{}: its help lists no targets", path.shown());
                    return Err(Failure::new(message).help("name the targets with --arch"));
                }
                Ok(targets)
            }
        }
    }

    /// The identity of the compiler and its build.
    pub fn identity(&self) -> String {
        match self {
            Compiler::Driver(context) => jit::compiler_identity(context.device().driver().kind()),
            Compiler::NvPtxCompiler(library) => library.identity().to_owned(),
            Compiler::NvJitLink(library) => library.identity(),
            Compiler::Ptxas { version, .. } => format!("ptxas {version}"),
        }
    }

    /// In the format of `cuDriverGetVersion`; 0 for compilers without a driver.
    pub fn driver_version(&self) -> u32 {
        match self {
            Compiler::Driver(context) => context.device().driver().version().unsigned_abs(),
            _ => 0,
        }
    }

    /// The code and the compiler's log.
    pub fn compile(
        &self,
        name: &str,
        text: &str,
        target: Target,
        options: &CompilerOptions,
    ) -> Result<(Vec<u8>, String), Failure> {
        let CompilerOptions {
            jit: options,
            relocatable,
        } = options;
        if *relocatable && matches!(self, Compiler::Driver(_) | Compiler::NvJitLink(_)) {
            return Err(
                Failure::new("only ptxas and nvptxcompiler make relocatable code")
                    .help("give --compiler ptxas"),
            );
        }
        match self {
            Compiler::Driver(context) => {
                // Some drivers reject their device's own target as an explicit option.
                let own = context.device().target().ok();
                let options = JitOptions {
                    target: (own != Some(target.to_string())).then_some(target),
                    compiler: Some(PtxCompiler::Driver),
                    ..*options
                };
                let made = jit::compile(context, text, &options).map_err(|error| match &error {
                    driver::Error::Jit(error) => Failure::new(draw_log(error, name, text)),
                    error => of_driver(error),
                })?;
                Ok((made.binary, made.info_log))
            }
            Compiler::NvPtxCompiler(library) => {
                let mut arguments = arguments(target, options, false);
                arguments.extend(relocatable.then(|| "-c".to_owned()));
                let made = library.compile(text, &arguments);
                made.map_err(|error| match error {
                    NvPtxCompilerError::Failed { log, .. } => {
                        Failure::new(format!("{name} does not compile: {}", log.trim_end()))
                    }
                    error => Failure::new(error).of(name),
                })
            }
            Compiler::NvJitLink(library) => {
                if let Some(level @ 1..=2) = options.optimization {
                    return Err(Failure::new(format!("nvJitLink has no -O{level}"))
                        .help("give -O0 or -O3, or --compiler ptxas"));
                }
                library
                    .compile(text, &arguments(target, options, true))
                    .map_err(|error| {
                        let error = error.to_string();
                        Failure::new(format!("{name} does not compile: {}", error.trim_end()))
                    })
            }
            Compiler::Ptxas { path, .. } => {
                let mut arguments = arguments(target, options, false);
                arguments.extend(relocatable.then(|| "-c".to_owned()));
                run_ptxas(path, name, text, &arguments)
            }
        }
    }
}

/// nvptxcompiler, if it has been built.
///
/// # Errors
/// It cannot be used, though the user has built or named it.
fn library() -> Result<Option<&'static NvPtxCompiler>, Failure> {
    match NvPtxCompiler::open() {
        Ok(library) => Ok(Some(library)),
        Err(NvPtxCompilerError::Missing { .. } | NvPtxCompilerError::Off) => Ok(None),
        Err(error) => Err(Failure::new(error)
            .help("name another compiler with --compiler, or set PTXKIT_NVPTXCOMPILER=off")),
    }
}

/// The targets in the help of ptxas: `'sm_90a'`.
fn targets_in(help: &str) -> Vec<Target> {
    let mut targets: Vec<Target> = help
        .split('\'')
        .filter(|word| word.starts_with("sm_"))
        .filter_map(|word| word.parse().ok())
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// The targets that a toolkit of this version knows.
fn targets_of_toolkit(major: u32, minor: u32) -> Vec<Target> {
    let newest = image::newest_ptx(major * 1000 + minor * 10);
    let oldest = if major >= 13 { 75 } else { 50 };
    // CUDA 13 renamed sm_101 to sm_110. No toolkit compiles for sm_82.
    let absent = if major >= 13 { [101, 82] } else { [82, 82] };
    isa::target::Target::all()
        .filter(|target| {
            target
                .since()
                .zip(newest)
                .is_some_and(|(since, newest)| since <= newest)
        })
        .map(Target::from)
        .filter(|target| target.number >= oldest && !absent.contains(&target.number))
        .collect()
}

fn arguments(target: Target, options: &JitOptions, one_word: bool) -> Vec<String> {
    let registers = if one_word {
        "-maxrregcount="
    } else {
        "--maxrregcount="
    };
    let mut arguments = vec![format!("-arch={target}")];
    arguments.extend(options.optimization.map(|level| format!("-O{level}")));
    arguments.extend(
        options
            .max_registers
            .map(|most| format!("{registers}{most}")),
    );
    arguments.extend(options.line_info.then(|| "-lineinfo".to_owned()));
    if options.verbose && !one_word {
        arguments.push("-v".into());
    }
    arguments
}

/// The identity of a ptxas: the last line of its `--version`.
fn ptxas(path: PathBuf) -> Result<Compiler, Failure> {
    let failure = |why: String| {
        Failure::new(format!("{}: {why}", path.shown()))
            .help("name another with --ptxas, or a toolkit's folder in CUDA_HOME")
    };
    let output = Command::new(&path)
        .arg("--version")
        .output()
        .map_err(|error| failure(error.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.lines().rfind(|line| !line.trim().is_empty()) {
        Some(line) if output.status.success() => {
            let version = line.trim().to_owned();
            Ok(Compiler::Ptxas { path, version })
        }
        _ => Err(failure(match crash(output.status) {
            Some(signal) => format!("it crashed with {signal} when asked for its version"),
            None => "it does not print its version".into(),
        })),
    }
}

fn run_ptxas(
    path: &Path,
    name: &str,
    text: &str,
    arguments: &[String],
) -> Result<(Vec<u8>, String), Failure> {
    let failure = |error: std::io::Error| Failure::new(format!("{}: {error}", path.shown()));
    let folder = tempfile::tempdir().map_err(failure)?;
    let (source, code) = (
        folder.path().join("source.ptx"),
        folder.path().join("code.cubin"),
    );
    std::fs::write(&source, text).map_err(failure)?;
    let output = Command::new(path)
        .args(arguments)
        .arg("-o")
        .args([&code, &source])
        .output()
        .map_err(failure)?;
    let log = [output.stderr, output.stdout].concat();
    let log = String::from_utf8_lossy(&log).replace(&*source.to_string_lossy(), name);
    if let Some(signal) = crash(output.status) {
        let message = format!(
            "{name} is not compiled: {} crashed with {signal}",
            path.shown()
        );
        return Err(Failure::new(format!("{message}\n{log}").trim_end()).help(
            "this is a bug of the compiler: try another optimisation level (-O) or another --ptxas",
        ));
    }
    if !output.status.success() {
        let message = match log.trim_end() {
            "" => format!("ptxas ended without a message, {}", output.status),
            log => format!("ptxas reports\n{log}"),
        };
        return Err(Failure::new(format!("{name} does not compile: {message}")));
    }
    Ok((input::read(&code).map_err(failure)?, log))
}

/// The signal that killed a process, `signal 11 (SIGSEGV)`; `None` if it exited.
fn crash(status: ExitStatus) -> Option<String> {
    use std::os::unix::process::ExitStatusExt;
    status.signal()?;
    Some(status.to_string().replacen("signal: ", "signal ", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_toolkit() {
        let names = |targets: Vec<Target>| -> Vec<String> {
            let plain = targets.iter().map(Target::to_string);
            plain.filter(|name| !name.ends_with(['a', 'f'])).collect()
        };
        let cuda_12 = names(targets_of_toolkit(12, 4));
        assert_eq!(
            (&*cuda_12[0], &*cuda_12[cuda_12.len() - 1]),
            ("sm_50", "sm_90")
        );
        let cuda_13 = names(targets_of_toolkit(13, 0));
        assert_eq!(cuda_13[0], "sm_75");
        assert!(cuda_13.contains(&"sm_110".to_owned()) && !cuda_13.contains(&"sm_101".to_owned()));
        let help = "Allowed values: 'compute_90','sm_90','sm_90a', 'sm_100f','lto_90'.";
        assert_eq!(targets_in(help).len(), 3);
        assert!(targets_in("").is_empty());
    }
}

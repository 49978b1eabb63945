//! `ptxkit ptxas`: takes the place of ptxas, and makes binaries of the CPU device.
//!
//! Arguments, messages and exit status are those of ptxas 13.5, as programs that run it expect:
//! Triton (`TRITON_PTXAS_PATH`), clang (`--ptxas-path`), XLA, build systems.

pub(crate) mod options;

use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use input::ShowName as _;
use options::{Information, Input, Options};
use ptxkit::cpu::{self, CompileError, CompileErrorKind, CompileOptions, NEWEST_PTX};
use ptxkit::driver::{Context, Driver, DriverKind, Error, KernelAttribute, Module};
use ptxkit::image::{Suffix, Target};
use ptxkit::jit;
use ptxkit::lint::{self, Finding};
use ptxkit::ptx::diagnostic::{LineIndex, Severity};
use ptxkit::ptx::signature::signatures;
use ptxkit::ptx::{self, CheckOptions, Level, Reading, isa, text_of};
use report::{Failure, Kind, Process, Record};
use terminal::failure::VERIFIED;
use terminal::output::{Escaped, eprint, print};

/// The exit status of ptxas for every error.
const FAILED: u8 = 255;

/// The names of the program under which it is ptxas.
const NAMES: [&str; 2] = ["ptxas", "ptxkit-ptxas"];

/// The arguments for ptxas of a command line: that of a program called `ptxas`, or
/// `ptxkit ptxas …`. These options are not those of `ptxkit`.
pub fn arguments(mut line: impl Iterator<Item = OsString>) -> Option<Vec<String>> {
    let program = line.next()?;
    let name = Path::new(&program).file_stem().unwrap_or_default();
    let is_ptxas = NAMES.iter().any(|known| name == *known) || line.next()? == "ptxas";
    is_ptxas.then(|| {
        line.map(|word| word.to_string_lossy().into_owned())
            .collect()
    })
}

/// Runs ptxas; returns the exit status.
pub fn run(arguments: impl IntoIterator<Item = String>) -> u8 {
    match Options::read(arguments).and_then(|options| assemble(&options)) {
        Ok(()) => VERIFIED,
        Err(message) => {
            say("fatal", &message);
            FAILED
        }
    }
}

/// Prints a message without a place.
fn say(kind: &str, message: &str) {
    eprint(&format!("ptxas {kind:<8}: {}\n", Escaped::new(message)));
}

/// Prints a message at a line.
fn say_at(name: &str, line: u32, kind: &str, message: &str) {
    let (name, message) = (Escaped::new(name), Escaped::new(message));
    eprint(&format!(
        "ptxas {name}, line {line}; {kind:<8}: {message}\n"
    ));
}

/// The last message about PTX with errors.
fn aborted() -> String {
    "Ptx assembly aborted due to errors".into()
}

fn assemble(options: &Options) -> Result<(), String> {
    if let Some(information) = options.information {
        print(&inform(information));
        return Ok(());
    }
    let (name, text) = match &options.inputs[..] {
        [] => {
            print(&inform(Information::Help));
            return Ok(());
        }
        [input] => read(input)?,
        [_, second, ..] => {
            return Err(format!(
                "a second input, {}: the CPU device assembles one module at a time, and links by \
                 cuLinkAddData",
                name_of(second)
            ));
        }
    };
    let reading = ptx::read(&text);
    check(&reading, &name, &text, options)?;
    check_target(&reading, options.target)?;
    let kernels = signatures(&reading.module, &text);
    for entry in &options.entries {
        if !kernels.iter().any(|kernel| kernel.name == *entry) {
            return Err(format!("Unknown function {entry}"));
        }
    }
    if options.check_only {
        return Ok(());
    }
    let started = Instant::now();
    let code = cpu::compile(&text, &CompileOptions::from_environment()).map_err(|error| {
        for problem in &error.problems {
            match problem.line {
                0 => say("error", &problem.message),
                line => say_at(&name, line, "error", &problem.message),
            }
        }
        if let Some(path) = report::path(report::VARIABLE) {
            let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            note(&path, &names.join(", "), &error);
        }
        aborted()
    })?;
    let compile = started.elapsed();
    let output = &options.output;
    std::fs::write(output, &code)
        .map_err(|_| format!("Output file '{}' could not be opened", output.shown()))?;
    if options.verbose {
        say("info", "0 bytes gmem");
        let kernels = kernels.iter().map(|kernel| kernel.name.as_str());
        describe(&code, kernels, options.target).map_err(|error| error.to_string())?;
        let milliseconds = compile.as_secs_f64() * 1e3;
        say("info", &format!("Compile time = {milliseconds:.3} ms"));
    }
    Ok(())
}

/// Appends what the CPU device refuses to the report of `ptxkit exec`: the program does not come
/// to load it. Without a report the messages tell it.
fn note(path: &Path, kernels: &str, error: &CompileError) {
    let name = match error.kind {
        CompileErrorKind::NotSupported => "CUDA_ERROR_NOT_SUPPORTED",
        _ => "CUDA_ERROR_INVALID_PTX",
    };
    let cause = format!("{kernels}: {error}");
    let process = Process::current();
    let mut record = Record::new(&process, 0.0);
    let refused = Failure::new(Kind::Refused, "ptxas", name, cause, 1);
    record.failures.push(refused);
    if let Err(error) = record.append(path) {
        say("warning", &format!("{}: {error}", path.shown()));
    }
}

fn name_of(input: &Input) -> String {
    match input {
        Input::File(path) => path.shown().to_string(),
        Input::Standard => "<stdin>".into(),
        Input::Text(_) => "application ptx input".into(),
    }
}

/// The name of an input for messages, and its text.
fn read(input: &Input) -> Result<(String, String), String> {
    let name = name_of(input);
    let bytes = match input {
        Input::Text(text) => return Ok((name, text.clone())),
        Input::File(path) => input::read(path),
        Input::Standard => input::standard_input(),
    };
    let bytes = bytes.map_err(|_| {
        say("fatal", &format!("Input file '{name}' could not be opened"));
        aborted()
    })?;
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = text_of(&bytes[..end.unwrap_or(bytes.len())]).into_owned();
    Ok((name, text))
}

/// Prints the errors of a module, and with `--check` the warnings of the default rules.
fn check(reading: &Reading<'_>, name: &str, text: &str, options: &Options) -> Result<(), String> {
    let rules = CheckOptions {
        level: if options.check_only && !options.lint || options.relocatable {
            Level::Language
        } else {
            Level::Codegen
        },
        ..CheckOptions::default()
    };
    let mut found: Vec<Finding> = reading
        .diagnostics
        .iter()
        .cloned()
        .chain(ptx::check_with(&reading.module, text, &rules))
        .map(Finding::from)
        .collect();
    if options.lint && !options.no_warnings {
        found.extend(lint::run(&reading.module, text, &lint::Options::default()));
    }
    found.sort_by_key(|finding| (finding.span.start, finding.code));
    let lines = LineIndex::new(text);
    let mut failed = false;
    for finding in &found {
        let kind = match finding.severity {
            Severity::Warning if !options.warnings_are_errors => "warning",
            _ => "error",
        };
        failed |= kind == "error";
        let mut message = format!("{} ({})", finding.message, finding.code);
        if let Some(help) = &finding.help {
            message += &format!("; {help}");
        }
        say_at(name, lines.locate(finding.span.start).line, kind, &message);
    }
    if failed { Err(aborted()) } else { Ok(()) }
}

/// Fails if PTX for the module's `.target` cannot be compiled for `target`.
fn check_target(reading: &Reading<'_>, target: Target) -> Result<(), String> {
    let mut words = reading.module.target.iter();
    let own = words.find_map(|word| word.text.strip_prefix("sm_")?.parse::<Target>().ok());
    let Some(own) = own.filter(|own| !own.ptx_runs_on(target)) else {
        return Ok(());
    };
    Err(match own.suffix {
        Suffix::None => {
            "SM version specified by .target is higher than default SM version assumed".to_owned()
        }
        _ => format!("PTX with .target '{own}' cannot be compiled for architecture '{target}'"),
    })
}

/// Prints what `-v` asks for: the attributes that a program reads of the kernels by
/// `cuFuncGetAttribute`.
fn describe<'a>(
    code: &[u8],
    kernels: impl Iterator<Item = &'a str>,
    target: Target,
) -> Result<(), Error> {
    let context = Context::primary(&Driver::cpu()?.device(0)?)?;
    #[allow(unsafe_code, reason = "the compiler has made it a moment ago")]
    // SAFETY: as above.
    let module = unsafe { Module::load_image(&context, code) }?;
    for name in kernels {
        let Ok(kernel) = module.kernel(name) else {
            continue;
        };
        let registers = kernel.attribute(KernelAttribute::NUM_REGS)?;
        let local = kernel.attribute(KernelAttribute::LOCAL_SIZE_BYTES)?;
        let shared = kernel.attribute(KernelAttribute::SHARED_SIZE_BYTES)?;
        say(
            "info",
            &format!("Compiling entry function '{name}' for '{target}'"),
        );
        say("info", &format!("Function properties for {name}"));
        eprint(&format!(
            "    {local} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        ));
        let shared = match shared {
            0 => String::new(),
            bytes => format!(", {bytes} bytes smem"),
        };
        say("info", &format!("Used {registers} registers{shared}"));
    }
    Ok(())
}

fn inform(information: Information) -> String {
    match information {
        Information::Help => help(),
        Information::Version => version(),
        Information::Targets => {
            let numbers = isa::target::Target::all()
                .filter(|target| target.suffix == isa::target::Suffix::None);
            numbers
                .map(|target| format!("{}\n", target.number))
                .collect()
        }
    }
}

/// Programs read the release, and use it to choose the `.version` that they write: it is the one
/// of CUDA that brought the newest `.version` that the CPU device reads. They keep what was
/// compiled as long as the text stays the same, so it ends with the identity of the compiler.
fn version() -> String {
    let (major, minor) = (NEWEST_PTX.major + 4, NEWEST_PTX.minor);
    format!(
        "ptxas: ptxkit {}, assembler for the CPU device\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.0\n\
         Build {}\n",
        env!("CARGO_PKG_VERSION"),
        jit::compiler_identity(DriverKind::Cpu)
    )
}

fn help() -> String {
    let options: String = options::names()
        .map(|option| format!("{option}\n"))
        .collect();
    format!(
        "\nUsage  : ptxas [options] <ptx file>\n\n\
         Takes the place of ptxas. The output is a binary of ptxkit's CPU device, which\n\
         cuModuleLoadData of its libcuda.so.1 loads. With --check there is no output: the PTX\n\
         is checked, with the warnings that ptxcheck has by default. Options that change only\n\
         how code for a GPU is generated have no effect.\n\n\
         Options\n=======\n\n{options}\n"
    )
}
